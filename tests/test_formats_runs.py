"""Runs written for other tools."""

from __future__ import annotations

import json
from pathlib import Path

import ir_measures
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blindspot.backend.core.runs import run_name_of
from blindspot.backend.data.formats import dpr_results, formats, trec
from blindspot.backend.data.formats.trec import strictly_decreasing_scores
from blindspot.db.errors import Refused
from blindspot.db.records import Passage, Question
from tests.studies import births, make_study, people


def write_run(path, name, question_ids, passage_ids, scores) -> int:
    """Write a TREC run; a row of ids may be shorter than the row of scores."""
    hits = [
        [(Passage(id, "", ""), score, False) for id, score in zip(ids, row)]
        for ids, row in zip(passage_ids, scores, strict=True)
    ]
    return trec.write(path, name, zip([Question(id, "?") for id in question_ids], hits, strict=True)).rows


def test_a_trec_run_is_read_in_our_order_by_other_tools(tmp_path):
    scores = np.array([[3.5, 2, 2, 2, 1], [1, 1, 1, -np.inf, -np.inf]], dtype=np.float32)
    ids = [["p5", "p1", "p9", "p0", "p2"], ["b", "c", "a"]]
    assert write_run(tmp_path / "run.trec", "bm25", ["q1", "q2"], ids, scores) == 8
    lines = [line.split(" ") for line in (tmp_path / "run.trec").read_text().splitlines()]
    assert lines[0] == ["q1", "Q0", "p5", "1", "3.5", "bm25"]
    assert [line[3] for line in lines] == ["1", "2", "3", "4", "5", "1", "2", "3"]
    found = {}
    for doc in ir_measures.read_trec_run(str(tmp_path / "run.trec")):
        found.setdefault(doc.query_id, []).append((doc.score, doc.doc_id))
    assert [[id for _, id in sorted(found[q], reverse=True)] for q in ("q1", "q2")] == ids
    assert [p.name for p in tmp_path.iterdir()] == ["run.trec"]


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=30))
def test_scores_fall_strictly_and_hardly_move(scores):
    scores = np.array(sorted(scores, reverse=True), dtype=np.float32)
    written = np.array([np.float32(f"{score:.9g}") for score in strictly_decreasing_scores(scores)])
    assert (np.diff(written) < 0).all()
    assert (written <= scores).all() and np.allclose(written, scores, atol=1e-3)


@pytest.mark.parametrize(
    "ending",
    [
        *sorted({format.suffix for format in formats() if format.kind == "runs" and format.suffix}),
        ".run",
        ".txt",
        ".trec.gz",
    ],
)
def test_an_imported_run_is_called_like_its_file_without_the_ending(ending):
    assert run_name_of(Path(f"bm25.k1-0.9{ending}")) == "bm25.k1-0.9"


def test_the_command_names_an_imported_run_without_the_ending(tmp_path, blindspot):
    study = make_study(tmp_path / "s", people(5), births(people(5)))
    question = study.questions.all()[0]
    (tmp_path / "x.trec").write_text(f"{question.id} Q0 {question.gold[0]} 1 9.5 other\n")
    code, _, err = blindspot("import", "run", tmp_path / "x.trec", "--study", study.folder)
    assert not code and list(study.runs()) == ["x"], err


@pytest.mark.parametrize(
    ("name", "question", "passage", "score"),
    [("a b", "q", "p", 1), ("a", "q 1", "p", 1), ("a", "q", "p\u00a0", 1), ("a", "q", "", 1), ("a", "q", "p", np.nan)],
)
def test_what_a_trec_file_cannot_hold_leaves_no_file(tmp_path, name, question, passage, score):
    with pytest.raises(Refused):
        write_run(tmp_path / "run.trec", name, [question], [[passage]], np.array([[score]], dtype=np.float32))
    assert list(tmp_path.iterdir()) == []


def test_rising_scores_and_a_place_that_is_not_there(tmp_path):
    with pytest.raises(Refused, match="falling"):
        write_run(tmp_path / "run.trec", "a", ["q"], [["x", "y"]], np.array([[1, 2]], dtype=np.float32))
    with pytest.raises(Refused, match="cannot be written"):
        write_run(tmp_path / "absent" / "run.trec", "a", ["q"], [["x"]], np.array([[1]], dtype=np.float32))


def test_dpr_results(tmp_path):
    passage = Passage("wiki:7", 'The "T"', "Text\n\u2028 ü")
    entries = [
        (Question("q", "Who?", ("a", "é")), [(passage, np.float32(79.5), np.bool_(True))]),
        (Question("r", "Why?"), []),
    ]
    assert dpr_results.write(tmp_path / "out.json", "run", iter(entries)).rows == 2
    assert json.loads((tmp_path / "out.json").read_text()) == [
        {
            "question": "Who?",
            "answers": ["a", "é"],
            "ctxs": [
                {"id": "wiki:7", "title": 'The "T"', "text": "Text\n\u2028 ü", "score": "79.5", "has_answer": True}
            ],
        },
        {"question": "Why?", "answers": [], "ctxs": []},
    ]
    dpr_results.write(tmp_path / "none.json", "run", [])
    assert json.loads((tmp_path / "none.json").read_text()) == []
