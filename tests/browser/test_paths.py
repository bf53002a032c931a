"""A researcher's way through the app, without the command line: three runs dropped as files, the verdict, slices in words,
causes of misses, the map, a table and a figure."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from blindspot.app import server
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.maps.making import make_map
from blindspot.backend.maps.settings import MapRequest
from blindspot.backend.retrieval.dense import build_index
from blindspot.db.records import Passage, Question
from tests.browser.servers import showing
from tests.studies import make_study, tiny_bert

PATIENCE = 30_000
ASKED, RARE = 80, 44
FOUND = {
    "hybrid.json": lambda number: number % 4 > 0,
    "lexical.trec": lambda number: number >= 4,
    "vectors.parquet": lambda number: number >= RARE,
}
"""The questions for which a run ranks the gold passage first, by its file; the first ask about rare people."""
MAP = {"passages": ("gold", "random"), "method": "tsne", "perplexity": 8, "cluster_count": 4, "components": 10}


@pytest.fixture
def study(tmp_path) -> Study:
    """People who were born in towns of their own, an index of a random encoder, and its map."""
    people = [Passage(f"p{i}", f"Arve Aurset{i}", f"Arve Aurset{i} was born in Town{i}.") for i in range(ASKED)]
    fillers = [Passage(f"f{i}", f"Harbour {i}", f"The harbour of quay {i} lies in the north.") for i in range(10)]
    questions = [
        Question(
            f"q{i:02}",
            f"Where was Arve Aurset{i} born?",
            (f"Town{i}",),
            "P19",
            f"Arve Aurset{i}",
            frequency=1 if i < RARE else 50,
            dataset="births",
            split="dev",
            gold=(f"p{i}",),
        )
        for i in range(ASKED)
    ]
    made = make_study(tmp_path / "study", [*people, *fillers], questions)
    tiny_bert(made.folder / "models" / "tiny")
    model = {"model": str(made.folder / "models" / "tiny"), "pooling": "cls", "max_tokens": 32}
    add_encoder(made.settings_path, "tiny", model)
    build_index(made, "tiny", device="cpu")
    make_map(made, MapRequest("tiny", "tiny", questions="dev", **MAP))
    return made


def run_file(study: Study, folder: Path, file: str) -> Path:
    """Write a run with five passages a question, as DPR's JSON, as TREC's lines or as a table in Parquet."""
    path = folder / file
    found = {
        question.id: [
            f"{'p' if FOUND[file](number) else 'f'}{number if FOUND[file](number) else 9}",
            *(f"f{i}" for i in range(4)),
        ]
        for number, question in enumerate(study.questions.all())
    }
    rows = [(id, passage, rank, 9.0 - rank) for id, hits in found.items() for rank, passage in enumerate(hits, 1)]
    if path.suffix == ".parquet":
        pandas = pytest.importorskip("pandas")
        pandas.DataFrame(rows, columns=["qid", "docid", "rank", "score"]).to_parquet(path)
    elif path.suffix == ".trec":
        path.write_text("".join(f"{id} Q0 {passage} {rank} {score} x\n" for id, passage, rank, score in rows))
    else:
        asked = ((question, found[question.id]) for question in study.questions.all())
        records = [
            {
                "question": question.text,
                "answers": list(question.answers),
                "ctxs": [{"id": hit, "title": "", "text": "", "score": str(9 - i)} for i, hit in enumerate(hits)],
            }
            for question, hits in asked
        ]
        path.write_text(json.dumps(records))
    return path


def test_a_researchers_journey(study, tab, tmp_path, record_property):
    began, clicks = time.monotonic(), 0

    def click(place) -> None:
        nonlocal clicks
        place.click()
        clicks += 1

    def go(page: str, title: str) -> None:
        click(tab.get_by_role("navigation").get_by_role("link", name=page, exact=True))
        expect(tab.locator("h1")).to_contain_text(title, timeout=PATIENCE)

    def save(of: str, form: str) -> str:
        with tab.expect_download(timeout=2 * PATIENCE) as kept:
            click(tab.locator(f"[class*=st-key-save-{of}]").get_by_role("button", name=form, exact=True))
        assert kept.value.path().stat().st_size > 100
        return kept.value.suggested_filename

    with showing(study) as port:
        tab.goto(f"http://{server.ADDRESS}:{port}/")
        click(tab.get_by_text("Add a file: a run, questions, relevance judgements"))
        for file in FOUND:
            name = Path(file).stem
            tab.locator("input[type=file]").set_input_files(run_file(study, tmp_path, file))
            # by its key: while the page is redrawn, the form of the file before stands beside this one's
            field = tab.locator(f".st-key-file-run-{file.replace('.', '-')} input")
            expect(field).to_have_value(name, timeout=PATIENCE)
            expect(tab.locator(".stHtml td", has_text=re.compile("q00|Aurset0 born")).first).to_be_visible()
            click(tab.get_by_role("button", name="Import", exact=True))
            expect(tab.locator(".runs th[scope=row]", has_text=name)).to_be_visible(timeout=PATIENCE)
        assert {len(study.run(Path(file).stem).question_ids) for file in FOUND} == {ASKED}

        go("Compare", "lexical is 50.0 points ahead of vectors in the top 5 (")
        click(tab.get_by_role("button", name="Runs, filters"))
        click(tab.get_by_label("Beside"))
        click(tab.get_by_role("option", name="hybrid"))
        tab.keyboard.press("Escape")  # the list of runs stays open
        expect(tab.locator(".accuracy tr", has_text="hybrid")).to_contain_text("75.0", timeout=PATIENCE)
        click(tab.get_by_role("link", name="Why are questions missed?"))
        expect(tab.locator("#causes")).to_contain_text("vectors: 44 misses of 80 questions", timeout=PATIENCE)
        assert save("table-lexical", "LaTeX") == "lexical-vectors.tex"
        assert save("table-lexical", "CSV") == "lexical-vectors.csv"

        said = "on 44 questions where the subject is mentioned once at most"
        go("Slices", f"lexical is 90.9 points ahead of vectors in the top 5 {said}")
        leads = (
            r"^Elsewhere \+0\.0 \(95%: .+\), over all 80 questions.* \+50\.0 \(95%: .+\): A − B in points of Success@5"
        )
        expect(tab.locator("h1 + p")).to_contain_text(re.compile(leads))
        expect(tab.locator("#found tbody tr a").first).to_contain_text("mentioned once at most")
        go(
            "Relations",
            "In the top 5, lexical is better than vectors in 1 of 1 relation; most on place of birth (P19), by 50.0 points (95%: ",
        )
        click(tab.get_by_text("Plot of both runs"))
        tab.locator(".js-plotly-plot").last.wait_for()
        go("Map", "misses")
        click(tab.get_by_label("Run"))
        click(tab.get_by_role("option", name="vectors"))
        expect(tab.locator("h1")).to_contain_text("vectors misses 44 of 80 questions in the top 5", timeout=PATIENCE)

        click(tab.get_by_role("navigation").get_by_role("link", name="Compare", exact=True))
        click(tab.locator(".flips .only_a a"))
        expect(tab.locator(".pager")).to_contain_text("of 40 questions", timeout=PATIENCE)
        click(tab.locator(".questions a.question").last)  # and back to the row one came from
        expect(tab.locator(".why-short")).to_be_visible(timeout=PATIENCE)
        asked = tab.locator("h1").inner_text()
        click(tab.locator(".trail .back"))
        expect(tab.locator("a.question:focus")).to_have_text(asked, timeout=PATIENCE)
    seconds = time.monotonic() - began
    record_property("clicks", clicks)
    record_property("seconds", round(seconds, 1))
    print(f"a researcher's journey: {clicks} clicks, {seconds:.0f} s")
    assert clicks <= 24
