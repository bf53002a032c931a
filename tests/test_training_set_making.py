"""Training sets are made whole or not at all: the same bytes each time, refusals, kills, full disks, jobs."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from blindspot.backend.core import jobs
from blindspot.backend.core.runs import write_run
from blindspot.backend.training_sets import builder as building
from blindspot.backend.training_sets.assemble import DENIED
from blindspot.backend.training_sets.builder import make_training_set
from blindspot.backend.training_sets.sources import NOT_SEARCHED
from blindspot.backend.training_sets.spec import TrainingSetSpec
from blindspot.backend.training_sets.training_set import TrainingSet, training_sets
from blindspot.db.errors import BadInput, BlindspotError, Missing, Refused
from blindspot.db.records import Hits
from tests.studies import copied
from tests.training_studies import born, build, content, say, score


@pytest.fixture
def study(mined_study, tmp_path):
    return copied(mined_study, tmp_path / "study")


def test_the_same_inputs_give_the_same_bytes(study, tmp_path):
    say(study, "ann", "q0", {"p1": "positive"})
    score(study, {("q0", "p2"): 0.01})
    again = copied(study, tmp_path / "again")
    for one in (study, again):
        build(one, "cross_encoder+labels", "first", model="judge", random=2, other_gold=1)
    first, second = (TrainingSet.open(one, "first") for one in (study, again))
    assert first.manifest["fingerprint"] == second.manifest["fingerprint"]
    for name in ("pairs.parquet", "left_out.jsonl"):
        assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes()
    say(study, "ben", "q0", {"p1": "negative"})
    later = build(study, "cross_encoder+labels", model="judge", random=2, other_gold=1)
    assert later.manifest["fingerprint"] != first.manifest["fingerprint"]
    event = first.manifest["inputs"]["labels"]["last_event"]
    back = build(study, "cross_encoder+labels", model="judge", random=2, other_gold=1, until=event)
    assert (back.folder / "pairs.parquet").read_bytes() == (first.folder / "pairs.parquet").read_bytes()
    assert back.manifest["fingerprint"] == first.manifest["fingerprint"]


@pytest.mark.parametrize(
    "policy, more",
    [
        ("none", {}),
        ("answer_match", {"random": 3, "other_gold": 1, "first": 2, "last": 5}),
        ("answer_match", {"positives": ("gold", "distant"), "questions": ("train", "unlabelled"), "runs": ("r", "other")}),
        ("labels", {"random": 2, "runs": ("other", "r")}),
        ("answer_match+labels", {"runs": (), "random": 4}),
    ],
)  # fmt: skip
def test_pairs_as_arrays_are_those_assembled_one_by_one(study, monkeypatch, policy, more):
    """Two of four questions have labels; of one gold passage, the runs disagree about the rank."""
    say(study, "ann", "q0", {"p1": "positive", "p30": "negative"})
    say(study, "ann", "q2", {"p9": "related"})
    other = Hits(np.array([[5, 6, 8, -1], [15, 7, 3, 14]], np.int32), np.tile(np.float32([4, 3, 2, 1]), (2, 1)))
    write_run(study, "other", ["q1", "q3"], other, {"retriever": "other"})
    monkeypatch.setattr(
        building, "distant_positives", lambda bm25, corpus, asked, *_: [7 if q.id == "q3" else None for q in asked]
    )
    monkeypatch.setattr("blindspot.backend.retrieval.bm25.BM25", lambda study: None)
    spec = TrainingSetSpec("arrays", **{"runs": ("r",), "policy": policy} | more)
    as_arrays = make_training_set(study, spec)
    monkeypatch.setattr(building.PairBuilder, "_questions_without_evidence", lambda self, block: [])
    one_by_one = make_training_set(study, replace(spec, name="one-by-one"))
    assert (as_arrays.folder / "pairs.parquet").read_bytes() == (one_by_one.folder / "pairs.parquet").read_bytes()
    for key in ("counts", "left_out"):
        assert as_arrays.manifest[key] == one_by_one.manifest[key]


def test_no_pair_is_assembled_alone_where_the_answer_match_decides(study, monkeypatch):
    monkeypatch.setattr(building, "assemble", None)
    assert build(study, "answer_match", random=1).manifest["counts"]["questions"] == 3
    with pytest.raises(TypeError):
        build(study, "positive_aware", margin=1.0)


def test_a_set_is_never_changed(study):
    made = build(study, name="once")
    before = (made.folder / "pairs.parquet").read_bytes()
    with pytest.raises(Refused, match="sets do not change"):
        build(study, "answer_match", name="once")
    assert (made.folder / "pairs.parquet").read_bytes() == before


WRONG = (
    ({"runs": ("nothing",)}, Missing, "no run 'nothing'; runs of this study: r"),
    ({"runs": ()}, BadInput, "at least one run"),
    ({"model": "nobody", "policy": "cross_encoder"}, Missing, "no scores of a model 'nobody'"),
    ({"policy": "cross_encoder"}, BadInput, "no model is named"),
    ({"policy": "positive_aware"}, Refused, "raw retrieval scores have no zero"),
    ({"positives": ("silver",)}, BadInput, "no positives 'silver'"),
    ({"first": 5, "last": 2}, BadInput, "not 5 to 2"),
    ({"random": -1}, BadInput, "random must be a whole number of at least 0"),
    ({"questions": ("dev",)}, Refused, "never train"),
    ({"name": "../x"}, Refused, "training set name"),
    ({"rule": "luck"}, Missing, "no matching rule"),
    ({"positives": ()}, BadInput, r"no question can train \(4 left out: no positive; .* Positives come from gold"),
)


def test_what_cannot_be_made_is_one_line(study):
    for wrong, error, message in WRONG:
        with pytest.raises(error, match=message) as raised:
            make_training_set(study, TrainingSetSpec(**{"name": "x", "runs": ("r",), **wrong}))
        assert "\n" not in str(raised.value)
    for question, gold in (("q0", "p0"), ("q1", "p5"), ("q2", "p7")):
        say(study, "ann", question, {gold: "negative"})
        say(study, "ben", question, {gold: "positive"})
    with pytest.raises(BadInput, match=f"3 left out: {DENIED}"):
        build(study, "labels")
    assert training_sets(study) == {}


def test_a_run_over_other_questions_is_one_line(study):
    with pytest.raises(Missing, match="searched none of the 1 questions .* --split train"):
        study.questions.add([born("new", "Hans", "Oslo", gold=("p0",))])
        study.questions.connection.execute(
            "UPDATE question SET split = 'unlabelled' WHERE split = 'train' AND id <> 'new'"
        )
        build(study)


def test_a_question_that_the_run_lacks_is_counted(study):
    study.questions.add([born("new", "Hans", "Oslo", gold=("p0",))])
    assert build(study).left_out()["new"] == NOT_SEARCHED


def test_a_cancelled_build_leaves_nothing(study, monkeypatch):
    monkeypatch.setattr(building, "QUESTIONS_PER_BLOCK", 1)
    wanted = content(build(study, "answer_match", "whole"))

    def stop(done, total, doing):
        if done == 2:
            raise jobs.Cancelled("enough")

    with pytest.raises(jobs.Cancelled):
        build(study, "answer_match", "half", progress=stop)
    assert [path.name for path in (study.folder / "training_sets").iterdir()] == ["whole"]
    made = jobs.run(building.build, study, "half", ["r"], policy="answer_match")
    assert content(made) == wanted and jobs.recent(study)[0].result == {"name": "half"}


KILLED = """
import sys, time
from blindspot.backend.core.study import Study
from blindspot.backend.training_sets import builder as building
from blindspot.backend.training_sets.spec import TrainingSetSpec
building.QUESTIONS_PER_BLOCK = 1
def slow(done, total, doing):
    print(done, flush=True)
    time.sleep(0.2)
building.make_training_set(Study.open(sys.argv[1]), TrainingSetSpec("killed", ("r",), "answer_match", random=2), slow)
"""


def test_kill_9_leaves_nothing_half_and_the_next_build_has_the_same_bytes(study, monkeypatch):
    monkeypatch.setattr(building, "QUESTIONS_PER_BLOCK", 1)
    whole = build(study, "answer_match", "whole", random=2)
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(study.folder)], stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if int(line) >= 2:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert list(training_sets(study)) == ["whole"]
    with pytest.raises(Missing):
        TrainingSet.open(study, "killed")
    again = build(study, "answer_match", "killed", random=2)
    assert (again.folder / "pairs.parquet").read_bytes() == (whole.folder / "pairs.parquet").read_bytes()


def test_a_full_disk_leaves_nothing_half(study, monkeypatch):
    """The disk fills up while pairs are written; with free space the same command succeeds."""
    import errno

    import pyarrow.parquet as parquet

    wanted = content(build(study, "answer_match", "whole"))

    def full(*arguments, **more):
        raise OSError(errno.ENOSPC, "No space left on device")

    for owner, what in ((parquet, "ParquetWriter"), (parquet.ParquetWriter, "write_table")):
        with monkeypatch.context() as patched:
            patched.setattr(owner, what, full)
            with pytest.raises(BlindspotError, match="No space left"):
                build(study, "answer_match", "full")
        assert [path.name for path in (study.folder / "training_sets").iterdir()] == ["whole"]
    assert content(build(study, "answer_match", "full")) == wanted


def test_two_processes_make_no_set_at_once(study):
    with (
        study.lock_part("training_sets/both"),
        pytest.raises(Refused, match="another process is making training_sets/both"),
    ):
        build(study, name="both")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_questions(tmp_path):
    """Measure the peak memory of building a set over 1,000 and over 8,000 questions, each with 50 mined passages."""
    peaks = []
    for count in (1000, 8000):
        code = f"from tests.test_training_set_making import many; many({str(tmp_path / str(count))!r}, {count})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        peaks.append(float(done.stdout.split()[-1]))
    assert peaks[1] < peaks[0] * 1.3, peaks


def many(folder, count, depth=50, passages=2000):
    """Make a study of `count` training questions and a set; print the seconds and the peak in MiB that the build
    adds.
    """
    import resource
    from pathlib import Path

    from blindspot.db.records import Passage, Question
    from tests.studies import make_study

    rng = np.random.default_rng(0)
    asked = (
        Question(f"q{i:06d}", f"What is number {i}?", (f"w{i % 97}",), split="train", gold=(f"p{i % passages}",))
        for i in range(count)
    )
    held = (Passage(f"p{i}", f"t{i}", " ".join(f"w{n}" for n in rng.integers(500, size=60))) for i in range(passages))
    if os.fork() == 0:  # another process makes the study, so its memory does not count
        study = make_study(Path(folder), held, asked)
        rows = np.stack([rng.permutation(passages)[:depth] for _ in range(count)]).astype(np.int32)
        scores = np.tile(np.linspace(9, 1, depth, dtype=np.float32), (count, 1))
        write_run(study, "r", [f"q{i:06d}" for i in range(count)], Hits(rows, scores), {})
        os._exit(0)
    os.wait()
    from blindspot.backend.core.study import Study

    study = Study.open(folder)
    began = time.perf_counter()
    made = make_training_set(study, TrainingSetSpec("all", ("r",), "answer_match", random=2, other_gold=1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(made.manifest["counts"]["pairs"], f"{time.perf_counter() - began:.1f}", peak)
