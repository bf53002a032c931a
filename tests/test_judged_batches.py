"""Batches in the order of a judge, and judges of every kind under one protocol."""

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core.manifest import write_manifest
from blindspot.backend.core.runs import write_run
from blindspot.backend.judges.judge import JUDGES, JudgeKind, judge_kind_of, judges_of, refuse_taken
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.judging.priority import Calibration
from blindspot.backend.judging.settings import ArmShares
from blindspot.backend.training_sets.judged_batches import draw_probabilities, make_batch_by_judge
from blindspot.db.errors import Missing, Refused
from blindspot.db.queue import Queue
from blindspot.db.records import Hits, Passage, Question
from tests.app_pages import Page
from tests.studies import make_study
from tests.training_studies import build

HOLDS, LACKS = (True, None), (False, None)  # evidence of a candidate


@pytest.fixture
def study(tmp_path):
    """12 questions, each with its gold passage at rank 1 of run r and five passages below that contain no answer."""
    passages = [Passage(f"p{i}", f"Title {i}", f"text of number {i}") for i in range(40)]
    questions = [
        Question(f"q{i:02}", f"What is {i}?", (f"answer {i}",), split="train", gold=(f"p{i}",), dataset="d")
        for i in range(12)
    ]
    study = make_study(tmp_path / "s", passages, questions)
    rows = np.array([[i, *((i + 13 + step) % 40 for step in range(5))] for i in range(12)], np.int32)
    scores = np.tile(np.arange(6, 0, -1, dtype=np.float32), (12, 1))
    write_run(study, "r", [q.id for q in questions], Hits(rows, scores), {"retriever": "bm25", "split": "train"})
    return study


def listed(study, question):
    run = study.run("r")
    return [p.id for p in study.corpus.passages(run.hits.ordinals[run.row(question)].tolist())][1:]


def arms(study, batch):
    found = {}
    for item in Queue(study.labels_path).items(batch):
        found.setdefault(item.arm, []).append(item)
    return found


def test_the_judge_decides_what_comes_first_and_what_training_draws_counts_more(study):
    probable = {(f"q{i:02}", listed(study, f"q{i:02}")[2]): 0.5 + i / 100 for i in range(12)}
    store = ScoreStore.create(study, "judge", True)
    store.add((q, p, probable.get((q, p), 0.01)) for q in study.run("r").question_ids for p in listed(study, q))
    mix = {"mix": ArmShares(0, 0, 0)}
    make_batch_by_judge(study, "judged", ["r"], "judge", size=4, candidates=2, **mix)
    first = arms(study, "judged")["priority"]
    assert [item.question for item in first] == ["q11", "q10", "q09", "q08"]
    assert [(item.question, item.candidates[0].passage) in probable for item in first] == [True] * 4
    assert Queue(study.labels_path).batches()[0].settings["judge"] == "judge"
    Queue(study.labels_path).set_state("judged", "closed")
    # Only q03 has its probable passage in the training set: a step of training draws it for sure.
    (pair,) = [p for q, p in probable if q == "q03"]
    drawn = {"q03": {pair: 1.0}}
    make_batch(study, "trained", ["r"], size=1, scores=store, trained=drawn, scored_by="judge", **mix)
    assert [item.question for item in arms(study, "trained")["priority"]] == ["q03"]


def test_a_negative_among_many_is_drawn_less_often(study):
    made = build(study)
    found = draw_probabilities(made, sampled_negatives=4)
    assert found["q00"] == dict.fromkeys(sorted(listed(study, "q00")), 4 / 5)
    assert draw_probabilities(made, sampled_negatives=9)["q00"] == dict.fromkeys(sorted(listed(study, "q00")), 1.0)


def test_the_audit_is_the_same_with_and_without_a_judge(study):
    """Its questions, passages and inclusion probabilities are what false-negative rates are estimated from."""
    ScoreStore.create(study, "judge", True).add([("q05", listed(study, "q05")[0], 0.9)])
    settings = {"size": 8, "mix": ArmShares(0.5, 0, 0), "seed": 3}
    make_batch(study, "plain", ["r"], **settings)
    plain = arms(study, "plain")["audit"]
    other = make_study_again(study)
    ScoreStore.create(other, "judge", True).add([("q05", listed(other, "q05")[0], 0.9)])
    make_batch_by_judge(other, "judged", ["r"], "judge", **settings)
    judged = arms(other, "judged")["audit"]
    assert sorted(judged, key=lambda i: i.question) == sorted(plain, key=lambda i: i.question) and len(plain) == 4


def make_study_again(study):
    import shutil

    from blindspot.backend.core.study import Study
    from blindspot.db.connection import connect
    from tests.studies import copied

    folder = study.folder.with_name("copy")
    copied(study, folder)
    shutil.rmtree(folder / "scores", ignore_errors=True)
    connection = connect(folder / "labels.db")
    for table in ("candidate", "batch_question", "batch"):
        connection.execute(f"DELETE FROM {table}")
    connection.commit()
    connection.close()
    return Study.open(folder)


def test_a_batch_by_a_judge_without_scores_is_refused(study):
    with pytest.raises(Missing, match="no scores of a model 'nobody'"):
        make_batch_by_judge(study, "b", ["r"], "nobody")
    assert Queue(study.labels_path).batches() == []


def test_the_judge_counts_beside_the_answer_match_and_the_rank():
    guess = Calibration()
    assert guess.with_judge(0.5, HOLDS, 3) == pytest.approx(guess.probability(HOLDS, 3))  # even odds tell nothing
    assert guess.with_judge(0.9, HOLDS, 3) > guess.probability(HOLDS, 3) > guess.with_judge(0.1, HOLDS, 3)
    assert guess.with_judge(0.3, HOLDS, 3) > guess.with_judge(0.3, LACKS, 3)
    assert 0 < guess.with_judge(0.0, HOLDS, 1) < guess.with_judge(1.0, HOLDS, 1) < 1


def test_judges_of_every_kind_are_listed_and_an_unknown_one_is_named(study):
    assert JUDGES.group == "blindspot.judges" and {"feature-judge", "cross-encoder"} <= set(JUDGES.names())
    assert judges_of(study) == []
    with pytest.raises(Missing, match="no judge 'mine'; learn one with 'blindspot judge learn mine"):
        judge_kind_of(study, "mine")


def test_an_installed_package_adds_a_kind_of_judge(study, monkeypatch):
    from blindspot.backend.core.registry import Registry, instance_check

    class Coin(JudgeKind):
        name, title, help = "coin", "coin", "heads or tails"
        run_job = staticmethod(lambda study, judge, run: {"pairs": 0})

        def cards(self, study):
            return []

        def open(self, study, name, device=None):
            raise Missing(name)

    class Point:
        name, value, dist = "coin", "coins:Coin", None
        load = staticmethod(Coin)

    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [Point] if group == "blindspot.judges" else [])
    found = Registry("kind of judge", modules=JUDGES._modules, group=JUDGES.group, check=instance_check(JudgeKind))
    assert "coin" in found


def test_a_judge_of_a_kind_that_is_no_longer_made_is_named_and_its_scores_serve(study):
    """A study of 0.2.0's development may hold a cascade: a manifest in judges/, and scores 0 and 1."""
    study.path("judges", "mixed").mkdir(parents=True)
    write_manifest(study.path("judges", "mixed"), {"kind": "cascade", "name": "mixed", "stages": []})
    scores = {("q03", listed(study, "q03")[4]): 1.0}
    ScoreStore.create(study, "mixed", False).add((*pair, value) for pair, value in scores.items())
    done = CliRunner().invoke(app, ["judge", "list", "--study", str(study.folder)], catch_exceptions=False)
    assert done.output.startswith("mixed: cascade, a kind of judge whose package is not installed")
    assert (
        "mixed: cascade, a kind of judge whose package is not installed"
        in Page(study.folder, "training", tab="judges").text
    )
    with pytest.raises(Refused, match="mixed: cascade, a kind of judge whose package is not installed"):
        judge_kind_of(study, "mixed")
    with pytest.raises(Refused, match="already a model or judge named 'mixed'"):
        refuse_taken(study, "mixed", "feature-judge", replace=True)
    make_batch_by_judge(study, "b", ["r"], "mixed", size=1, mix=ArmShares(0, 0, 0))
    assert [item.question for item in arms(study, "b")["priority"]] == ["q03"]
