"""What imports say of questions and runs: other splits, sets and texts, and failures that were made good."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core import jobs
from blindspot.backend.core.summary import summary
from blindspot.backend.data.importing.importer import import_questions
from blindspot.backend.data.importing.runs import import_run
from blindspot.db.errors import BadInput
from blindspot.db.records import Question
from tests.studies import make_study, people

PASSAGES = people(12)


def lines(path, *records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.fixture
def study(tmp_path):
    questions = [
        Question("d1", "Who skis?", dataset="first", split="dev"),
        Question("t1", "Who paints?", dataset="first", split="test"),
        Question("t2", "Who sails?", dataset="first", split="test"),
    ]
    return make_study(tmp_path / "study", PASSAGES, questions)


# Options name what a file does not say


def test_a_set_that_is_only_a_split_leaves_the_dataset_to_the_option(study, tmp_path):
    rows = [{"id": f"e{i}", "question": f"Number {i}?", "set": "test"} for i in range(3)]
    path = lines(tmp_path / "exam.jsonl", *rows)
    assert import_questions(study, path, split="test", dataset="exam").rows == 3
    assert {(q.dataset, q.split) for q in study.questions.all() if q.id[0] == "e"} == {("exam", "test")}
    import_questions(study, lines(tmp_path / "a.jsonl", {"id": "x1", "question": "One?", "set": "test"}))
    assert study.questions.get("x1").dataset == "", "without the option they join no set"


def test_a_refusal_says_what_the_file_holds(study, tmp_path):
    records = [{"id": f"e{i}", "question": f"Number {i}?", "split": "test", "dataset": "exam"} for i in range(3)]
    other = {"id": "e9", "question": "Nine?", "split": "train", "dataset": "exam"}
    path = lines(tmp_path / "exam.jsonl", *records, other)
    for options in ({"split": "dev"}, {"dataset": "other"}, {"split": "dev", "dataset": "other"}):
        with pytest.raises(BadInput, match="3 of split 'test' and dataset 'exam', 1 of split 'train'") as error:
            import_questions(study, path, **options)
        assert all(f"{name} {value!r}" in str(error.value) for name, value in options.items())


# The same text twice, and sets that grow


def test_the_same_text_under_a_second_id_is_named(study, tmp_path):
    texts = {"e1": "Who  paints?", "e2": "Who knits?", "e3": "Who knits?", "e4": "Who skis?"}
    rows = [{"id": id, "question": text, "split": "test", "dataset": "second"} for id, text in texts.items()]
    (note,) = import_questions(study, lines(tmp_path / "more.jsonl", *rows)).notes
    assert note.startswith("2 questions") and "'e1'" in note and "'t1'" in note
    joins = {"id": "j1", "question": "Who weaves?", "split": "test", "dataset": "first"}
    (note,) = import_questions(study, lines(tmp_path / "joins.jsonl", joins)).notes
    assert "2 test questions of dataset 'first'" in note
    alone = {"id": "n1", "question": "Who reads?", "split": "test", "dataset": "third"}
    assert import_questions(study, lines(tmp_path / "alone.jsonl", alone)).notes == ()


# Runs over several splits


@pytest.mark.parametrize("form", ["trec", "dpr"])
def test_a_run_over_several_splits_is_cut_to_one(study, tmp_path, form):
    texts = {"d1": "Who skis?", "t1": "Who paints?", "t2": "Who sails?"}
    path = tmp_path / "run"
    if form == "trec":
        path.write_text("".join(f"{id} Q0 p1 1 2.5 x\n{id} Q0 p2 2 1.5 x\n" for id in texts))
    else:
        hits = [{"id": id, "title": "", "text": "x", "score": score} for id, score in (("p1", "2.5"), ("p2", "1"))]
        path.write_text(json.dumps([{"question": text, "answers": [], "ctxs": hits} for text in texts.values()]))
    made = import_run(study, path, "cut", split="test")
    assert made.rows == 2 and sorted(study.run("cut").question_ids) == ["t1", "t2"]
    assert any("1 question of other splits" in note for note in made.notes)


def test_a_question_of_no_split_is_still_unknown(study, tmp_path):
    path = tmp_path / "run"
    path.write_text("t1 Q0 p1 1 2.5 x\nd1 Q0 p1 1 2.5 x\nnobody Q0 p2 2 1.5 x\n")
    with pytest.raises(BadInput, match="run:3: the question 'nobody'"):
        import_run(study, path, "cut", split="test")
    path.write_text("d1 Q0 p1 1 2.5 x\n")
    with pytest.raises(BadInput, match="split 'test'"):
        import_run(study, path, "cut", split="test")


# Failures in `blindspot status`


def test_an_import_that_was_made_good_leaves_the_status(study, tmp_path):
    bad = lines(tmp_path / "bad.jsonl", {"id": "e1", "question": "One?", "split": "nowhere"})
    good = lines(tmp_path / "good.jsonl", {"id": "e1", "question": "One?", "split": "test"})
    with pytest.raises(BadInput):
        jobs.run(import_questions, study, str(bad))
    said = CliRunner().invoke(app, ["status", "--study", str(study.folder)]).output
    assert "failed" in said and [job["state"] for job in summary(study)["jobs"]] == ["failed"]
    jobs.run(import_questions, study, str(good))
    said = CliRunner().invoke(app, ["status", "--study", str(study.folder)]).output
    assert "failed" not in said and [job["state"] for job in summary(study)["jobs"]] == ["done"]
    with pytest.raises(BadInput):
        jobs.run(import_questions, study, str(bad))
    assert [job["state"] for job in summary(study)["jobs"]] == ["failed", "done"]
