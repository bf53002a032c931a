"""The report: figures worked by hand on a small study, in every output format."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest

from blindspot.analysis.intervals import wilson
from blindspot.backend.core.gold import gold_matrix
from blindspot.backend.core.runs import write_run
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.relevance import relevant
from blindspot.backend.evaluation.report import report
from blindspot.db.corpus import CorpusWriter
from blindspot.db.errors import BadInput, Missing
from blindspot.db.records import Hits, Passage, Question

PASSAGES = [
    Passage("p0", "Ada", "Ada was born in London."),
    Passage("p1", "Ada", "Ada died in Paris."),
    Passage("p2", "Bob", "Bob was born in Rome."),
    Passage("p3", "Rome", "A city."),
    Passage("p4", "Eve", "Eve went to London and Rome."),
]
QUESTIONS = [
    Question("q0", "Where was Ada born?", ("London",), "P19", "Ada", bucket=0, frequency=50, split="dev", gold=("p0",)),
    Question("q1", "Where did Ada die?", ("Paris",), "P20", "Ada", frequency=50, split="dev", gold=("p1", "p4")),
    Question("q2", "Where was Bob born?", ("Rome",), "P19", "Bob", frequency=1, split="dev", gold=("p2",)),
    Question("q3", "Where did Bob die?", ("Venice",), "P20", "Bob", split="test"),
    Question("q4", "No answers here?", (), None, split="test", gold=("p3",)),
]


@pytest.fixture
def study(tmp_path) -> Study:
    study = Study.create(tmp_path / "study", "a small study")
    with CorpusWriter(study.folder / "corpus.db") as writer:
        writer.add(PASSAGES)
        writer.finish()
    study.questions.add(QUESTIONS)
    return study


def make_run(study: Study, name: str, rows: dict[str, list[int]]) -> None:
    ordinals = np.array(list(rows.values()), dtype=np.int32)
    scores = np.where(ordinals < 0, -np.inf, -np.arange(ordinals.shape[1], dtype=np.float32)).astype(np.float32)
    write_run(study, name, list(rows), Hits(ordinals, scores), {"retriever": "bm25"})


# London: p0 p4. Paris: p1. Rome in the text: p2 p4, and only in the title: p3.
BM25 = {"q0": [0, 4, 1], "q1": [0, 2, 1], "q2": [3, 1, 4], "q3": [1, 2, 3], "q4": [2, 3, -1]}


@pytest.fixture
def with_run(study) -> Study:
    make_run(study, "bm25", BM25)
    return study


def test_by_answers_by_hand(with_run):
    """First ranks: q0 1, q1 3, q2 3 (the title does not count), q3 none; q4 has no answers."""
    made = report(with_run, ks=(1, 3, 20)).as_dict()["runs"]["bm25"]
    assert made["relevance"] == "answers" and made["n"] == 4
    low, high = wilson(1, 4)
    assert made["k"] == {
        "1": {"success": 0.25, "n": 4, "units": 4, "low": low, "high": high},
        "3": {"success": 0.75, "n": 4, "units": 4, "low": wilson(3, 4)[0], "high": wilson(3, 4)[1]},
    }
    assert made["relations"]["P19"]["name"] == "P19 place of birth"
    assert {key: value["k"]["3"]["success"] for key, value in made["relations"].items()} == {"P19": 1.0, "P20": 0.5}
    macro = made["macro"]["k"]["1"]
    assert (macro["success"], macro["n_groups"], macro["n"]) == (0.25, 2, 4)
    assert macro["units"] == 4 and macro["low"] <= 0.25 <= macro["high"]
    assert made["mrr@10"] is None
    # gold at 3: q0 1 of 1, q1 1 of 2, q2 0 of 1, q4 1 of 1
    assert {k: (e["value"], e["n"]) for k, e in made["recall"].items()} == {"1": (0.25, 4), "3": (0.625, 4)}
    assert all(e["low"] <= e["value"] <= e["high"] for e in made["recall"].values())
    assert any("1 of 5 questions left out: no answers" in note for note in made["notes"])
    assert any("has 3 hits per question, so k = 20" in note for note in made["notes"])


def test_by_gold_by_hand(with_run):
    """First ranks by gold: q0 1, q1 3, q2 none, q4 2; q3 has no gold."""
    made = report(with_run, relevance="gold", ks=(1, 2, 3)).as_dict()
    assert [figures["success"] for figures in made["runs"]["bm25"]["k"].values()] == [0.25, 0.5, 0.75]
    assert made["runs"]["bm25"]["relevance"] == "gold"
    assert "gold for the question." in made["convention"] and "rule" not in made["convention"]
    assert made["runs"]["bm25"]["macro"]["k"]["1"]["n"] == 3


def test_another_rule_is_computed_where_the_run_does_not_keep_it(with_run):
    made = report(with_run, rule="rocketqa_mining", ks=[1])
    assert made.as_dict()["runs"]["bm25"]["k"]["1"]["success"] == 0.5
    assert "title and text are searched" in made.convention
    assert with_run.run("bm25").rules == ["dpr"]


def test_without_answers_relevance_is_gold_and_it_is_said(study):
    make_run(study, "later", {"q4": [3, 1]})
    made = report(study, ks=[1]).as_dict()["runs"]["later"]
    assert made["relevance"] == "gold" and made["k"]["1"] == {
        "success": 1.0,
        "n": 1,
        "units": 1,
        "low": wilson(1, 1)[0],
        "high": 1.0,
    }
    assert made["notes"][0] == "no question has answers, so relevance is gold"


def test_nothing_to_measure_gives_null_and_breaks_nothing(study):
    make_run(study, "bm25", {"q3": [0, 1]})
    made = report(study, relevance="gold", ks=[1], by="relation")
    run = json.loads(made.as_json())["runs"]["bm25"]
    assert run["k"]["1"] == {"success": None, "n": 0, "units": 0, "low": None, "high": None}
    assert run["relations"] == {} and run["macro"] == {"k": {}}
    assert run["recall"]["1"].items() >= {"value": None, "n": 0, "low": None, "high": None}.items()
    assert rendered(made) and made.as_latex() and made.as_csv()


def test_by_bucket_and_by_split(with_run):
    groups = report(with_run, by="bucket", ks=[3]).as_dict()
    names = {name: group["n"] for name, group in groups["runs"]["bm25"]["groups"].items()}
    assert names == {"bucket 0": 1, "<=1 mentions": 1, "30-99 mentions": 1, "frequency unknown": 1}
    assert list(names) == ["bucket 0", "<=1 mentions", "30-99 mentions", "frequency unknown"]
    assert "(source: the question files)" in groups["convention"]
    by_split = report(with_run, by="split", ks=[3]).as_dict()["runs"]["bm25"]["groups"]
    assert {name: (group["n"], group["k"]["3"]["success"]) for name, group in by_split.items()} == {
        "dev": (3, 1.0),
        "test": (1, 0.0),
    }


def test_runs_over_different_questions_are_told_apart(with_run):
    make_run(with_run, "dense", {"q2": [2, 0], "q3": [2, 0]})
    made = report(with_run, ks=[1])
    assert [len(run.questions) for run in made.runs] == [4, 2]
    assert made.notes == [
        "The runs cover different questions (bm25 4, dense 2; 2 in all of them): do not compare their figures."
    ]
    assert report(with_run, runs=["dense", "dense"], ks=[1]).notes == []


def test_what_cannot_be_is_refused_in_one_line(study):
    with pytest.raises(Missing, match="no runs to report on"):
        report(study)
    make_run(study, "bm25", {"q0": [0]})
    for wrong in ({"by": "colour"}, {"relevance": "likes"}, {"ks": (0, 5)}, {"ks": ()}):
        with pytest.raises(BadInput) as caught:
            report(study, **wrong)
        assert "\n" not in str(caught.value)
    for wrong in ({"runs": ["other"]}, {"rule": "exact"}):
        with pytest.raises(Missing):
            report(study, **wrong)


def test_relevance_names_the_rows_that_count(with_run):
    found = relevant(with_run, with_run.run("bm25"))
    assert found.rows.tolist() == [0, 1, 2, 3] and [q.id for q in found.questions] == ["q0", "q1", "q2", "q3"]
    assert found.relevant.tolist() == [
        [True, True, False],
        [False, False, True],
        [False, False, True],
        [False, False, False],
    ]
    assert found.n_relevant is None and found.left_out == {"no answers": 1}
    found = relevant(with_run, with_run.run("bm25"), "gold")
    assert found.rows.tolist() == [0, 1, 2, 4] and found.n_relevant.tolist() == [1, 2, 1, 1]


class Ids:
    def ordinals(self, ids):
        return {id: int(id) for id in ids if id.isdigit()}


def test_gold_matrix_equals_a_plain_loop():
    rng = np.random.default_rng(0)
    gold = [tuple(map(str, rng.integers(0, 40, rng.integers(0, 5)))) for _ in range(50)]
    gold[3] += ("unknown", "0")
    ordinals = rng.integers(-1, 40, (50, 12)).astype(np.int32)
    found, counts = gold_matrix(Ids(), ordinals, [Question(str(i), "?", gold=ids) for i, ids in enumerate(gold)])
    assert found.tolist() == [[str(ordinal) in gold[i] for ordinal in row] for i, row in enumerate(ordinals)]
    assert counts.tolist() == [len({id for id in ids if id.isdigit()}) for ids in gold]
    padded = gold_matrix(Ids(), np.array([[9, -1], [0, -1]]), [Question("a", "?", gold=("9",)), Question("b", "?")])
    assert padded[0].tolist() == [[True, False], [False, False]]
    assert not gold_matrix(Ids(), ordinals[:2], [Question("a", "?"), Question("b", "?")])[0].any()


# Forms


def rendered(made, width: int = 120) -> str:
    from rich.console import Console

    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(made.as_rich())
    return console.file.getvalue()


def test_the_terminal_shows_figures_intervals_and_the_convention(with_run):
    shown = rendered(report(with_run, by="relation", ks=(1, 3, 20)))
    low, high = (100 * bound for bound in wilson(1, 4))
    words = shown.split()
    assert "25.0" in words and f"[{low:.1f}–{high:.1f}]" in words, "the interval stands on the line below"
    assert "P20 place of death" in shown and "P19 place of birth" in shown
    assert "titles are not searched" in " ".join(shown.split())


def test_csv_has_one_figure_a_line(with_run):
    made = report(with_run, by="relation", ks=(1, 3))
    rows = list(csv.DictReader(io.StringIO(made.as_csv())))
    at = {(row["group"], row["measure"], row["k"]): row for row in rows}
    assert len(at) == len(rows) == 2 * (1 + 1 + 1 + 2)
    assert float(at["all", "success", "3"]["value"]) == 0.75
    assert float(at["P20 place of death", "success", "3"]["value"]) == 0.5
    assert at["all", "macro success", "1"]["n_groups"] == "2"


def test_latex_escapes_names_and_balances(study):
    make_run(study, "bm25_k1", {"q0": [0, 4], "q2": [1, 2]})
    tex = report(study, by="bucket", ks=(1, 2)).as_latex()
    body = [line for line in tex.splitlines() if not line.startswith("%")]
    assert "bm25\\_k1" in tex and "\\textless{}=1 mentions" in tex
    assert tex.count("\\begin{") == tex.count("\\end{") and tex.count("\\toprule") == tex.count("\\bottomrule")
    assert not any(char in line.replace("\\_", "").replace("\\%", "") for line in body for char in "_%<")
    for line in body:
        if line.endswith("\\\\"):
            assert line.count(" & ") in (3, 4)


def test_every_form_names_the_relevance_of_mrr_and_recall(study):
    make_run(study, "deeper", {"q0": [1, 2, 0, 3, 4, -1, -1, -1, -1, -1], "q2": [2, 0, 1, 3, 4, -1, -1, -1, -1, -1]})
    for kind in ("answers", "gold"):
        made = report(study, runs=["deeper"], relevance=kind, ks=[1])
        assert made.as_dict()["runs"]["deeper"]["mrr@10"]["relevance"] == kind
        assert made.as_dict()["runs"]["deeper"]["recall"]["1"]["relevance"] == "gold"
        lines = [line.split(",") for line in made.as_csv().splitlines()]
        assert {line[3]: line[1] for line in lines}.items() >= {"mrr": kind, "recall": "gold"}.items()
        assert f"MRR@10 ({kind})" in made.as_latex() and "R@1 (gold)" in made.as_latex()


def test_mrr_needs_ten_hits(study):
    make_run(study, "deep", {"q0": [1, 2, 0, 3, 4, -1, -1, -1, -1, -1], "q2": [2, 0, 1, 3, 4, -1, -1, -1, -1, -1]})
    assert (
        report(study, ks=[1]).as_dict()["runs"]["deep"]["mrr@10"].items() >= {"value": (1 / 3 + 1) / 2, "n": 2}.items()
    )


REAL = Path(os.environ.get("BLINDSPOT_REAL_DATA", Path(__file__).parents[2] / "shared/data/entityquestions-wiki"))


@pytest.mark.skipif(not REAL.is_dir(), reason=f"real data not found at {REAL}; set BLINDSPOT_REAL_DATA")
def test_the_gold_of_the_real_questions_holds_an_answer():
    """The gold was made by token match, so every gold passage must match by the `dpr` rule."""
    import lzma

    from blindspot.backend.text.answers import match_run

    with lzma.open(REAL / "questions.jsonl.xz", "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["set"] == "dev"]
    wanted = {id for row in rows for id in row["gold"]}
    passages: dict[str, Passage] = {}
    with lzma.open(REAL / "passages_100k.tsv.xz", "rt", encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            if row["id"] in wanted:
                passages[row["id"]] = Passage(row["id"], row["title"], row["text"])
            if len(passages) >= 2000:
                break
    rows = [row for row in rows if row["gold"][0] in passages]
    ids = list(passages)

    class Real:
        def passages(self, ordinals):
            return [passages[ids[ordinal]] for ordinal in ordinals]

    questions = [Question(row["id"], row["question"], tuple(row["answers"])) for row in rows]
    ordinals = np.array([[ids.index(row["gold"][0])] for row in rows], dtype=np.int32)
    assert len(rows) > 300 and match_run(Real(), questions, ordinals).all()


def test_by_saved_slices(with_run):
    from blindspot.backend.evaluation.saved_slices import save

    with pytest.raises(Missing, match="no saved slices"):
        report(with_run, by="slice")
    save(with_run, "births", "relation:P19")
    save(with_run, "found late", "first(bm25)>1 and first(bm25)<=3")
    made = report(with_run, by="slice", ks=(3,)).runs[0]
    assert [(group.key, group.n, group.at[3].value) for group in made.groups] == [
        ("births", 2, 1.0),
        ("found late", 2, 1.0),
    ]
    assert "births (relation:P19)" in report(with_run, by="slice").as_csv()


def test_by_relation_without_relations_says_so(tmp_path):
    """A plain questions file, or a results file alone, names no relations; the note says how to get them."""
    from dataclasses import replace

    from blindspot.backend.evaluation.comparison_report import ComparisonOptions, compare_with

    study = Study.create(tmp_path / "plain")
    with CorpusWriter(study.folder / "corpus.db") as writer:
        writer.add(PASSAGES)
        writer.finish()
    study.questions.add([replace(question, relation=None, subject=None) for question in QUESTIONS])
    for name in ("one", "two"):
        make_run(study, name, BM25)
    made = report(study, ["one"], by="relation")
    shown = " ".join(rendered(made).split())
    assert "no question has a relation" in shown and "--questions FILE" in shown
    assert "no question has a relation" not in rendered(report(study, ["one"]))
    assert any(
        "No question has a relation" in note
        for note in compare_with(study, "one", "two", ComparisonOptions(by="relation")).notes
    )


def test_by_frequency_is_the_word_on_the_command_line(with_run):
    """`--by bucket` stays for scripts; both print the same table, headed Frequency."""
    from typer.testing import CliRunner

    from blindspot.app.cli import app

    def shown(by):
        done = CliRunner().invoke(app, ["report", "--by", by, "--k", "3", "--study", str(with_run.folder)])
        assert done.exit_code == 0, done.output
        return done.output

    assert shown("frequency") == shown("bucket")
    assert "Success@k by frequency, %" in shown("frequency") and "Frequency" in shown("frequency")
