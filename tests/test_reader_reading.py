"""Reading a run: answers, spans and scores are stored; a killed reading resumes; k is tuned on dev; bad input gets one
line.
"""

from __future__ import annotations

import json
import os
import shutil
import signal

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.analysis.accuracy import proportion
from blindspot.app.cli import app
from blindspot.backend.core import jobs
from blindspot.backend.core.runs import write_run
from blindspot.backend.reader.answer_scores import exact_match
from blindspot.backend.reader.model import load_reader
from blindspot.backend.reader.reader import Reader
from blindspot.backend.reader.reading import QUESTIONS_PER_SHARD, Reading, read, readings_of
from blindspot.backend.reader.readings import (
    MeasuredReading,
    answer_rows,
    compare_readings,
    macro_exact,
    measure_reading,
    tuned_k,
)
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.records import Hits, Question
from tests import forked
from tests.readers import reading_study, tiny_reader


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readers") / "tiny"
    tiny_reader(folder)
    return str(folder)


@pytest.fixture
def study(tmp_path):
    return reading_study(tmp_path / "study")


def predictions(reading):
    return [
        json.loads(line) for line in (reading.folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def test_every_answer_at_every_k_is_kept(study, reader):
    """Each prediction is the best span of the passage of the highest relevance among the first k, as the reader itself
    says."""
    reading = read(study, "dev", reader, ks=[1, 2, 5], device="cpu")
    assert (reading.reader, reading.depth, reading.ks) == ("tiny", 5, [1, 2, 5])
    assert list(readings_of(reading.run)) == ["tiny"]
    alone = Reader(load_reader(reader), "cpu", batch=3)
    for line, question, ordinals in zip(
        predictions(reading), study.questions.with_ids(reading.run.question_ids), reading.run.hits.ordinals, strict=True
    ):
        assert line["question"] == question.id
        passages = study.corpus.passages(ordinals[:5].tolist())
        found = alone.read(question.text, passages)
        for said in line["predictions"]:
            best = int(np.argmax(found.relevance[: said["k"]]))
            low, high = said["span"]
            assert (said["rank"], said["passage"]) == (best + 1, passages[best].id)
            assert [low, high] == found.spans[best].tolist()
            assert said["answer"] == passages[best].text[low:high] != ""
            weights = np.exp(found.relevance[: said["k"]].astype(float))
            assert said["selected"] == pytest.approx(weights[best] / weights.sum(), rel=1e-3)
            assert said["score"] == pytest.approx(float(found.scores[best]), abs=1e-4)
            assert said["probability"] == pytest.approx(float(found.probabilities[best]), rel=1e-3)
    manifest = json.loads((reading.folder / "manifest.json").read_text())
    assert manifest["reader_hash"] == load_reader(reader).hash
    assert manifest["seconds_per_question"] > 0 and len(manifest["run_hash"]) == 64


def test_what_was_read_is_not_read_again(study, reader, monkeypatch):
    first = read(study, "dev", reader, ks=[1, 3], device="cpu")
    monkeypatch.setattr(Reader, "read", lambda *_: pytest.fail("it was read again"))
    assert read(study, "dev", reader, ks=[2], device="cpu").manifest == first.manifest
    monkeypatch.undo()
    deeper = read(study, "dev", reader, ks=[1, 4], device="cpu")
    assert deeper.depth == 4 and np.allclose(deeper.scores[:, :3], first.scores[:, :3], atol=1e-5)
    turned = Hits(deeper.run.hits.ordinals[:, ::-1].copy(), deeper.run.hits.scores)
    write_run(study, "dev", deeper.run.question_ids, turned, {"retriever": "x"}, replace=True)
    with pytest.raises(Missing, match="has not read run 'dev'"):
        Reading.open(study, "dev", "tiny")


def many(study, questions=QUESTIONS_PER_SHARD * 2 + 5):
    """A run of many rows, repeating the training questions: enough for three parts."""
    train = study.run("train")
    asked = study.questions.with_ids(train.question_ids)
    copies = [
        Question(f"copy{i}", asked[i % len(asked)].text, asked[i % len(asked)].answers, dataset="copies", split="test")
        for i in range(questions)
    ]
    study.questions.add(copies)
    rows = [i % len(asked) for i in range(questions)]
    hits = Hits(train.hits.ordinals[rows], train.hits.scores[rows])
    return write_run(study, "many", [q.id for q in copies], hits, {"retriever": "x"})


def test_killed_it_goes_on_and_ends_the_same(study, reader, tmp_path):
    many(study)
    whole = read(study, "many", reader, ks=[1, 3], name="whole", device="cpu")
    code = (
        "import os, signal, sys; from blindspot.backend.core.study import Study; from blindspot.backend.reader.reading import read\n"
        "def kill(done, total, doing):\n    if done == 40: os.kill(os.getpid(), signal.SIGKILL)\n"
        "read(Study.open(sys.argv[1]), 'many', sys.argv[2], ks=[1, 3], device='cpu', progress=kill)"
    )
    done = forked.python("-c", code, str(study.folder), reader)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert list(readings_of(study.run("many"))) == ["whole"]
    asked = []
    real = Reader.read
    Reader.read = lambda self, question, passages: asked.append(question) or real(self, question, passages)
    try:
        again = read(study, "many", reader, ks=[1, 3], device="cpu")
    finally:
        Reader.read = real
    assert len(asked) == len(whole.relevance) - QUESTIONS_PER_SHARD  # the first part was complete
    assert predictions(again) == predictions(whole) and not list(again.run.folder.glob(".reading*"))


def test_it_is_a_job_that_can_be_cancelled(study, reader):
    def stop(done, total, doing):
        raise jobs.Cancelled(jobs.CANCELLED)

    with pytest.raises(jobs.Cancelled):
        jobs.run(read, study, "dev", reader, device="cpu", progress=stop)
    made = jobs.run(read, study, "dev", reader, device="cpu")
    assert [job.state for job in jobs.recent(study, 2)] == ["done", "cancelled"] and made.depth == 6


def hand_made(exact, relations=None, splits=None, run="r"):
    """Four questions with known outcomes at 1 and 5."""
    n = len(exact[1])
    relations, splits = relations or [None] * n, splits or ["dev"] * n
    questions = [
        Question(f"q{i}", f"what is {i}?", ("x",), relations[i], frequency=i, split=splits[i]) for i in range(n)
    ]
    arrays = {k: np.array(values, bool) for k, values in exact.items()}
    f1 = {k: values.astype(float) for k, values in arrays.items()}
    return MeasuredReading(run, "tiny", questions, {k: ["x"] * n for k in arrays}, arrays, f1, arrays, 0)


def test_figures_by_hand():
    made = hand_made({1: [1, 0, 0, 0], 5: [1, 1, 0, 0]}, ["P19", "P19", "P20", None])
    (whole,) = answer_rows(made)
    assert (whole.n, whole.exact[5].value, whole.exact[5]) == (4, 0.5, proportion(np.array([1, 1, 0, 0])))
    by_relation = {row.group: (row.n, row.exact[5].value) for row in answer_rows(made, "relation")}
    assert by_relation == {"P19": (2, 1.0), "P20": (1, 0.0)}
    assert [row.group for row in answer_rows(made, "bucket")] == ["<=1 mentions", "2-3 mentions"]
    assert macro_exact(made)[5].value == 0.5 and macro_exact(hand_made({1: [1, 0]})) == {}
    other = hand_made({1: [0, 1, 1, 1], 5: [0, 1, 1, 1]}, ["P19", "P19", "P20", None])
    both = compare_readings(made, other, 5)["all"]
    assert (both.n, both.estimate_a.value, both.estimate_b.value) == (4, 0.5, 0.75)
    assert (both.difference.only_a, both.difference.only_b) == (1, 2)
    groups = compare_readings(made, other, 5, "relation", kept_ids={"q0", "q2"})
    found = {name: (each.n, each.difference.estimate.value) for name, each in groups.items()}
    assert found == {"P19": (1, 1.0), "P20": (1, -1.0)}
    assert groups["P19"].difference.p_adjusted is not None
    assert compare_readings(made, hand_made({1: [], 5: []}), 5) == {}


def test_k_is_tuned_on_dev_alone():
    mixed = hand_made({1: [0, 1, 1], 5: [1, 0, 0], 9: [1, 0, 0]}, splits=["dev", "test", "test"])
    assert (tuned_k(mixed).k, tuned_k(mixed).exact.n) == (5, 1)  # the smallest of equal ones
    with pytest.raises(Refused, match="run 'r' has no dev question with answers to tune k on; give --tune-on"):
        tuned_k(hand_made({1: [1, 1]}, splits=["test", "train"]))


def test_measuring_is_scoring_what_was_said(study, reader):
    reading = read(study, "dev", reader, device="cpu")
    made = measure_reading(study, reading, [1, 6])
    for question, said, right in zip(made.questions, made.predictions[6], made.exact[6], strict=True):
        assert right == exact_match(said, question.answers)
    assert (made.successes[6]).all() and made.successes[1].mean() < 1  # the answer is at rank 1, 2 or 3
    with pytest.raises(BadInput, match="k must be from 1 to 6, not 1, 7"):
        measure_reading(study, reading, [1, 7])


def test_what_cannot_be_read_is_one_line(study, reader, tmp_path):
    ids = study.run("dev").question_ids
    nothing = Hits(np.full((len(ids), 4), -1, np.int32), np.full((len(ids), 4), -np.inf, np.float32))
    write_run(study, "none", ids, nothing, {"retriever": "x"})
    for run, ks, reason in (("none", None, "run 'none' has no hits: there is nothing to read"), ("dev", [1, 7], "k must be from 1 to 6, not 7"),
                            ("dev", [0], "k must be from 1 to 6")):  # fmt: skip
        with pytest.raises(Refused, match=reason):
            read(study, run, reader, ks=ks, device="cpu")
    with pytest.raises(Missing, match="no run 'nothing'"):
        read(study, "nothing", reader, device="cpu")
    with pytest.raises(Missing, match="cannot load the model 'nobody'"):
        read(study, "dev", "nobody", device="cpu")
    with pytest.raises(BadInput, match="precision must be one of auto, float32, bfloat16, not 'half'"):
        read(study, "dev", reader, precision="half", device="cpu")
    assert not readings_of(study.run("dev"))
    halves = read(study, "dev", reader, ks=[2], precision="bfloat16", device="cpu")
    assert halves.manifest["precision"] == "bfloat16" and np.isfinite(halves.scores).all()


def test_short_rows_are_read_as_far_as_they_go(study, reader):
    run = study.run("dev")
    ordinals, scores = np.array(run.hits.ordinals), np.array(run.hits.scores)
    ordinals[0], ordinals[1, 2:], scores[0], scores[1, 2:] = -1, -1, -np.inf, -np.inf
    write_run(study, "short", run.question_ids, Hits(ordinals, scores), {"retriever": "x"})
    reading = read(study, "short", reader, ks=[1, 6], device="cpu")
    lines = predictions(reading)
    assert lines[0]["predictions"] == [{"k": 1, "answer": None}, {"k": 6, "answer": None}]
    assert lines[1]["predictions"][1]["rank"] <= 2
    assert not measure_reading(study, reading).exact[6][0]


def invoke(study, words):
    os.environ["HF_HUB_OFFLINE"] = "1"
    return CliRunner().invoke(app, [*words.split(), "--study", str(study.folder)], catch_exceptions=False)


def test_the_commands(study, reader):
    short = "--steps 2 --passages 3 --batch 4 --held-out 4 --tokens 64 --device cpu"
    trained = invoke(study, f"train reader own --run train --from {reader} {short}")
    assert "Trained own on 20 questions: 2 steps" in trained.output
    shutil.copytree(study.folder / "runs" / "dev", study.folder / "runs" / "other")
    said = invoke(study, "read --run other --reader own --k 1,3 --tune-on dev --by relation --device cpu").output
    assert "exact match" in said and "P19" in said and "is best on the dev questions of dev" in said
    told = json.loads(invoke(study, "read --run dev --reader own --by bucket --json").stdout)
    made = measure_reading(study, Reading.open(study, "dev", "own"))
    assert told["n"] == len(made.questions) and told["k"]["5"]["exact_match"]["value"] == made.exact[5].mean()
    assert told["k"]["1"]["f1"]["value"] == pytest.approx(made.f1[1].mean())
    assert sum(each["n"] for each in told["groups"].values()) == told["n"]
    with pytest.raises(Refused, match="run 'train' has no dev question"):
        invoke(study, "read --run dev --reader own --tune-on train")
    assert invoke(study, "read --run dev --reader own --k many").exit_code == 2
