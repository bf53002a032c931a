"""Labels generalised to unjudged pairs, and batches in the order random."""

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core.runs import write_run
from blindspot.backend.judges.label_judge import fit_label_model, judge_with_labels, learn_label_judge
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.judging.batches import make_batch, pair_items
from blindspot.backend.judging.settings import ArmShares
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.errors import BadInput, Refused
from blindspot.db.people import People
from blindspot.db.queue import Queue
from blindspot.db.records import Hits, Passage, Question
from tests.studies import make_study
from tests.training_studies import build, say


@pytest.fixture
def study(tmp_path):
    """12 questions of two relations. In run r each has its gold first; of the five passages below, those at ranks 2
    and 3 contain the answer and name the subject, and only the one at rank 2 is about it.
    """
    passages, questions, rows = [], [], []
    for i in range(12):
        texts = [f"S{i} is A{i}", f"indeed S{i} was always A{i}", f"list: S{i} A{i} of many", "x", "y", "z"]
        passages += [Passage(f"p{i}-{j}", f"Title {i}", f"{text} number {i} {j}") for j, text in enumerate(texts)]
        questions.append(
            Question(
                f"q{i:02}",
                f"What is S{i}?",
                (f"A{i}",),
                f"P{i % 2}",
                f"S{i}",
                split="train",
                gold=(f"p{i}-0",),
                dataset="d",
            )
        )
        rows.append(list(range(6 * i, 6 * i + 6)))
    study = make_study(tmp_path / "s", passages, questions)
    scores = np.tile(np.arange(6, 0, -1, dtype=np.float32), (12, 1))
    hits = Hits(np.array(rows, np.int32), scores)
    write_run(study, "r", [q.id for q in questions], hits, {"retriever": "bm25", "split": "train"}, rule="dpr")
    People(study.labels_path).add("ann")
    return study


NO_MIX = ArmShares(audit=0, second=0, repeat=0)


def test_orders_that_do_not_exist(study):
    for order in ("best", "gain"):
        with pytest.raises(BadInput, match=f"order must be one of priority, random, not '{order}'"):
            make_batch(study, "b", ["r"], order=order)
    with pytest.raises(BadInput, match="the order priority chooses whole questions"):
        make_batch(study, "b", ["r"], pairs=3)


def test_a_batch_of_an_older_version_in_the_order_gain_stays_open(study):
    settings = {"order": "gain", "pairs": 2, "why": [["q00", "p0-1", {"probability": 0.5}]]}
    Queue(study.labels_path).add_batch("old", pair_items(study, [("q00", "p0-1"), ("q01", "p1-1")]), settings)
    make_batch(study, "new", ["r"], size=3, order="random", mix=NO_MIX)
    assert next(iter(Queue(study.labels_path).claim("ann"))).batch == "old"
    done = CliRunner().invoke(app, ["batch", "list", "--study", str(study.folder)], catch_exceptions=False)
    old, new = done.output.split("old")[1].split("new")
    assert "chosen in the order 'gain'" in old and "which is no longer made" in old and "chosen" not in new


def test_random_pairs(study):
    make_batch(study, "b", ["r"], size=12, order="random", pairs=30, mix=NO_MIX, seed=1)
    items = Queue(study.labels_path).items("b")
    ranks = {candidate.rank for item in items for candidate in item.candidates}
    assert sum(len(item.candidates) for item in items) == 30 and ranks == {2, 3, 4, 5, 6}


def test_few_labels_stay_near_the_prior():
    """One label of one kind moves the estimate, and cannot make it certain."""
    pool = np.random.default_rng(0).normal(size=(200, 3))
    prior = np.full(200, 0.4)
    none = fit_label_model(pool[:0], np.zeros(0, bool), pool, prior).probabilities(pool)
    one = fit_label_model(pool[:1], np.ones(1, bool), pool, prior).probabilities(pool)
    assert none == pytest.approx(prior, abs=0.02)
    assert 0.4 < one[0] < 0.7


def judged(study, questions):
    for i in questions:
        say(study, "ann", f"q{i:02}", {f"p{i}-1": "positive", f"p{i}-2": "negative", f"p{i}-3": "negative"})


def test_labels_are_generalised_to_pairs_that_nobody_judged(study):
    with pytest.raises(Refused, match="nobody has labelled a passage"):
        learn_label_judge(study, "said", "r")
    judged(study, range(10))
    learned = learn_label_judge(study, "said", "r")
    assert (learned.labels, learned.positives, learned.pairs) == (30, 10, 60)
    assert learned.right == 1.0 and learned.low < 1.0
    known = ScoreStore.open(study, "said").scores_of(["q11"])["q11"]
    assert known["p11-1"] > 0.5 > known["p11-2"], "rank 3 contains the answer too, and people denied it elsewhere"
    build(study, "judge+labels", name="generalised", model="said", positives=("gold", "judge"))
    roles = TrainingSet.open(study, "generalised").roles("q11")
    assert {id for id, (role, _) in roles.items() if role == "positive"} == {"p11-0", "p11-1"}
    assert roles["p11-2"][0] == "negative"


def test_a_label_judge_judges_new_lists(study, blindspot):
    judged(study, range(10))
    learn_label_judge(study, "said", "r")
    store, run = ScoreStore.open(study, "said"), study.run("r")
    learned = store.scores_of(run.question_ids)
    store.connection.execute("DELETE FROM score WHERE question = 'q11'")
    code, out, err = blindspot("judge", "run", "said", "--run", "r", "--study", study.folder)
    assert not code and f"Judged {len(learned['q11'])} pairs of 1 question." in out, err
    assert store.scores_of(run.question_ids) == learned, "the stored model is the one that learned"
    rows = np.roll(run.hits.ordinals, 1, axis=0)  # each question gets the list of another one
    made = write_run(
        study, "new", run.question_ids, Hits(rows, run.hits.scores), {"retriever": run.manifest["retriever"]}
    )
    found = judge_with_labels(study, "said", made.name)
    after = store.scores_of(run.question_ids)
    assert found["pairs"] > 0 and found["questions"] == len(run.question_ids)
    assert all(after[question].items() >= learned[question].items() for question in learned)
    write_run(study, "other", run.question_ids, run.hits, {"retriever": "another"})
    with pytest.raises(Refused, match="judge 'said' learned from lists of .* and run 'other' was made by 'another'"):
        judge_with_labels(study, "said", "other")
    study.path("judges", "said", "model.npz").unlink()
    with pytest.raises(
        Refused, match="an older version learned 'said' .* learn it again: blindspot judge generalise said"
    ):
        judge_with_labels(study, "said", "new")


def test_a_budget_learns_from_its_own_labels_only(study):
    judged(study, range(3))
    until = Queue(study.labels_path).connection.execute("SELECT max(number) FROM label_event").fetchone()[0]
    judged(study, range(3, 9))
    assert learn_label_judge(study, "early", "r", until=until).labels == 9
    assert learn_label_judge(study, "all", "r").labels == 27
    with pytest.raises(Refused, match="already a judge named 'early'"):
        learn_label_judge(study, "early", "r")
    assert learn_label_judge(study, "early", "r", replace=True).labels == 27
