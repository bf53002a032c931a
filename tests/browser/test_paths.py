"""A researcher's way through the app, without the command line: three runs dropped as files, the verdict, slices, relations."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from blindspot.app import server
from blindspot.backend.core.study import Study
from tests.browser.servers import serving
from tests.studies import births, make_study, people

PATIENCE = 30_000
FOUND = {"one": 40, "two": 10, "three": 20}
"""The questions, from the first, for which a run ranks the gold passage first; the others get another passage."""


@pytest.fixture
def study(tmp_path) -> Study:
    passages = people(60)
    return make_study(tmp_path / "study", passages, births(passages))


def run_file(study: Study, folder: Path, name: str) -> Path:
    """Write a run with two passages a question: as TREC, or as Parquet for the last one."""
    rows = []
    for number, question in enumerate(births(people(60))):
        other = "p2" if question.gold[0] != "p2" else "p5"
        first, second = (question.gold[0], other) if number < FOUND[name] else (other, "p8")
        rows += [(question.id, first, 1, 2.0), (question.id, second, 2, 1.0)]
    if name == "three":
        pandas = pytest.importorskip("pandas")
        path = folder / f"{name}.parquet"
        pandas.DataFrame(rows, columns=["qid", "docid", "rank", "score"]).to_parquet(path)
        return path
    path = folder / f"{name}.trec"
    path.write_text("".join(f"{id} Q0 {passage} {rank} {score} x\n" for id, passage, rank, score in rows))
    return path


def test_a_researcher_drops_three_runs_and_reads_the_verdict(study, tab, tmp_path, record_property):
    began, clicks = time.monotonic(), 0

    def click(place) -> None:
        nonlocal clicks
        place.click()
        clicks += 1

    with serving(study) as port:
        tab.goto(f"http://{server.ADDRESS}:{port}/")
        click(tab.get_by_text("Add a file: a run, questions, relevance judgements"))
        for name in FOUND:
            tab.locator("input[type=file]").set_input_files(run_file(study, tmp_path, name))
            # by its key: while the page is redrawn, the form of the file before stands beside this one's
            kept = f"{name}-{'parquet' if name == 'three' else 'trec'}"
            expect(tab.locator(f".st-key-file-run-{kept} input")).to_have_value(name, timeout=PATIENCE)
            expect(tab.locator(".stHtml td", has_text="P19.dev.0").first).to_be_visible()
            click(tab.get_by_role("button", name="Import", exact=True))
            expect(tab.locator(".runs th[scope=row]", has_text=name)).to_be_visible(timeout=PATIENCE)
        assert {len(study.run(name).question_ids) for name in FOUND} == {40}

        click(tab.get_by_role("link", name="Compare", exact=True))
        expect(tab.locator("h1")).to_contain_text("points ahead at", timeout=PATIENCE)
        tab.goto(f"http://{server.ADDRESS}:{port}/compare?a=one&b=two&more=three&k=1&relevance=gold")
        expect(tab.locator("h1")).to_contain_text("one is 75.0 points ahead at 1", timeout=PATIENCE)
        expect(tab.locator(".accuracy tr", has_text="three")).to_contain_text("50.0")
        click(tab.locator(".flips .only_a a"))
        expect(tab.locator(".pager")).to_contain_text("of 30 questions", timeout=PATIENCE)

        click(tab.locator(".questions a.question").last)  # and back to the row one came from
        expect(tab.locator(".why-short")).to_be_visible(timeout=PATIENCE)
        asked = tab.locator("h1").inner_text()
        click(tab.locator(".trail .back"))
        expect(tab.locator("a.question:focus")).to_have_text(asked, timeout=PATIENCE)

        click(tab.get_by_role("link", name="Slices", exact=True))
        expect(tab.locator("h1")).to_contain_text(
            "slice", timeout=PATIENCE
        )  # 40 facts of one relation: none can be tested
        click(tab.get_by_role("link", name="Relations", exact=True))
        expect(tab.locator("h1")).to_contain_text("is ahead in 1 of 1 relation", timeout=PATIENCE)
        with tab.expect_download() as table:
            click(tab.get_by_role("button", name="LaTeX", exact=True))
        assert table.value.suggested_filename == "relations.tex"
    seconds = time.monotonic() - began
    record_property("clicks", clicks)
    record_property("seconds", round(seconds, 1))
    print(f"a researcher's journey: {clicks} clicks, {seconds:.0f} s")
    assert clicks <= 12
