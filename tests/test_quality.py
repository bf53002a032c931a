"""The label figures on the Quality page and on Compare, by hand and compared with known truth."""

import numpy as np
import pytest

from blindspot.analysis.audit import rate
from blindspot.analysis.judged import NONE, OTHER, POSITIVE
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import units_by_id
from blindspot.backend.judging.audits import audit, batch_progress
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.judging.corrected import corrected_run, label_matrix
from blindspot.backend.judging.quality import MAX_GESTURE_MS, quality
from blindspot.backend.judging.settings import ArmShares
from blindspot.db.errors import Missing
from blindspot.db.queue import Queue
from blindspot.db.records import Passage
from tests.annotators import annotate
from tests.judging import PASSAGES, Desk
from tests.overlap import RUN, encyclopedia_study
from tests.studies import make_study


@pytest.fixture
def desk(tmp_path) -> tuple[Desk, Study]:
    folder = tmp_path / "study"
    study = make_study(folder, [Passage(id, f"Title of {id}", "Words.") for id in PASSAGES])
    return Desk(folder, questions=6), study


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """An encyclopedia with one batch of 60 questions, 40 of them audit, labelled without errors."""
    study, truth = encyclopedia_study(tmp_path_factory.mktemp("quality") / "study")
    mix = ArmShares(audit=2 / 3, second=0, repeat=0)
    make_batch(study, "first", [RUN], size=60, depth=10, candidates=6, mix=mix, seed=5)
    annotate(study, truth, {"ann": 1.0, "ben": 1.0})
    return study, truth


def test_an_empty_store_shows_nothing(desk):
    _, study = desk
    found = quality(study)
    assert (found.events, found.disputes, found.bad) == (0, (), ())
    assert (found.together, found.pairs, found.work) == (None, (), ())
    assert (found.drift.value, found.drift.questions) == (None, 0)
    assert (audit(study).drawn, audit(study).overall, batch_progress(study)) == (0, None, [])


def test_disputes_come_worst_first_and_hold_who_said_what(desk):
    desk, study = desk
    desk.label("ann", "q0", {"p1": "related", "p2": "negative"})
    desk.label("ben", "q0", {"p1": "negative", "p2": "negative"})
    desk.label("ann", "q3", {"p1": "positive", "p3": "unsure"})
    desk.label("ben", "q3", {"p1": "negative"})
    desk.label("cid", "q3", {"p1": "negative"})
    desk.label("ann", "q4", {"p1": "positive"})
    desk.label("ben", "q4", {"p1": "related"})
    found = quality(study).disputes
    assert [each.question for each in found] == ["q3", "q4", "q0"], "positive with negative, with related, the rest"
    assert [each.passage for each in found[0].passages] == ["p1", "p3"] and found[0].passages[1].only_unsure
    assert found[0].passages[0].votes == {"positive": ("ann",), "negative": ("ben", "cid")}
    assert found[0].text == "What is 3?" and found[0].passages[0].title == "Title of p1"
    assert [each.passage for each in found[2].passages] == ["p1"], "p2 is agreed"
    desk.label("ada", "q3", {"p1": "negative", "p3": "negative"}, kind="adjudicate")
    assert [each.question for each in quality(study).disputes] == ["q4", "q0"]


def test_agreement_is_of_blind_labels_that_stand(desk):
    desk, study = desk
    for n in range(4):
        desk.label("ann", f"q{n}", {"p1": "positive", "p2": "negative", "p3": "related"})
        desk.label("ben", f"q{n}", {"p1": "positive", "p2": "negative", "p3": "negative"})
    desk.label("cid", "q0", {"p1": "negative"}, blind=False)
    desk.undo("cid", "q1", desk.label("cid", "q1", {"p1": "negative"}))
    found = quality(study)
    assert found.together.people == ("ann", "ben") and len(found.pairs) == 1
    assert found.together.four.agreed == pytest.approx(2 / 3) and found.together.positive.value == 1
    assert (found.pairs[0].four.passages, found.pairs[0].four.questions) == (12, 4)
    # Each passage a third: agree 2/3; by chance 1/3 x 1/3 + 0 x 1/3 + 2/3 x 1/3 = 1/3.
    assert found.pairs[0].four.value == pytest.approx(0.5)


def test_unsure_is_a_label_of_its_own_but_neither_positive_nor_not(desk):
    desk, study = desk
    desk.label("ann", "q0", {"p1": "unsure", "p2": "positive", "p3": "negative"})
    desk.label("ben", "q0", {"p1": "positive", "p2": "positive", "p3": "related"})
    found = quality(study).together
    assert (found.four.passages, found.positive.passages) == (3, 2)
    assert found.four.agreed == pytest.approx(1 / 3) and found.positive.agreed == 1


def test_work_counts_gestures_once_and_absence_little(desk):
    desk, study = desk
    desk.label("ann", "q0", {"p1": "positive"}, milliseconds=4000)
    desk.label("ann", "q0", {"p2": "negative", "p3": "negative", "p4": "unsure"}, milliseconds=3000)
    desk.label("ann", "q1", {"p1": "negative"}, milliseconds=8 * MAX_GESTURE_MS)
    desk.label("ann", "q1", {"p2": "negative"})
    desk.undo("ann", "q2", desk.label("ann", "q2", {"p2": "positive"}, milliseconds=10))
    work = quality(study).work
    assert [each.name for each in work] == ["ann"]
    assert (work[0].labels, work[0].questions, work[0].positive, work[0].unsure, work[0].timed) == (6, 2, 1, 1, 5)
    assert work[0].seconds == 1.0, "4, 1, 1, 1 and a long absence"
    assert work[0].per_hour == pytest.approx(5 * 3600 / (4 + 3 + 120))


def test_drift_is_of_labels_in_another_batch(desk):
    desk, study = desk
    for name in ("one", "two"):
        desk.batch(name, questions=2, needed=2)
    desk.label("ann", "q0", {"p1": "positive", "p2": "negative"}, batch="one")
    desk.label("ann", "q0", {"p2": "related"}, batch="one")
    desk.label("ben", "q0", {"p1": "negative"}, batch="two")
    desk.label("ann", "q0", {"p1": "positive", "p2": "negative"}, batch="two")
    desk.label("ann", "q1", {"p1": "positive"}, batch="one")
    desk.label("ann", "q1", {"p1": "positive"}, batch="two")
    found = quality(study)
    assert (found.drift.value, found.drift.passages, found.drift.questions) == (pytest.approx(2 / 3), 3, 2)
    assert [(each.name, each.repeats, each.same) for each in found.work] == [("ann", 3, 2), ("ben", 0, 0)]


def test_bad_questions_are_counted_once_for_each_person_and_practice_for_nothing(desk):
    desk, study = desk
    for name in ("ann", "ben"):
        desk.label(name, "q2", {}, kind="bad_question")
    assert quality(study).bad == (("q2", "What is 2?", 2),)
    desk.batch("practice", practice=True)
    desk.label("ann", "q0", {"p1": "positive"}, batch="practice")
    desk.label("ben", "q0", {"p1": "negative"}, batch="practice")
    found = quality(study)
    assert (found.disputes, found.together, found.work) == ((), None, ())


def test_the_audit_is_the_rate_of_the_truth_in_its_arm_alone(audited):
    study, truth = audited
    found = audit(study)
    items = [item for item in Queue(study.labels_path).items("first") if item.arm == "audit"]
    rows = [
        (each.passage in truth[item.question], each.inclusion_probability, item.question)
        for item in items
        for each in item.candidates
    ]
    hits, probabilities, questions = map(np.array, zip(*rows, strict=True))
    assert (found.batches, found.drawn, found.bad, found.waiting) == (("first",), 40, 0, 0)
    units = units_by_id(study, questions.tolist())
    assert found.overall.positive == rate(hits, np.ones(len(hits), bool), probabilities, questions, units=units)
    # Of the rest, those with an even id are related.
    shown = [(each.passage, truth[item.question]) for item in items for each in item.candidates]
    related = np.array([passage in right or int(passage) % 2 == 0 for passage, right in shown])
    assert found.overall.with_related.value == rate(related, np.ones(len(hits), bool), probabilities, questions).value
    for groups in found.by.values():
        assert sum(each.positive.passages for each in groups.values()) == len(rows)
    assert list(found.by["rank"]) == ["rank 1", "ranks 2-5", "ranks 6-20"]
    assert found.by["rank"]["rank 1"].positive.value > found.by["rank"]["ranks 6-20"].positive.value
    assert audit(study, "first") == found
    with pytest.raises(Missing, match="no batch"):
        audit(study, "second")


def test_audits_that_were_drawn_alike_are_one_sample(tmp_path):
    """40 questions, then 8 of the rest, equal 48 drawn at once, and the interval gets narrower, not wider."""
    study, truth = encyclopedia_study(tmp_path / "study")
    alone, mix = {}, ArmShares(audit=1, second=0, repeat=0)
    for name, size in (("first", 40), ("second", 8)):
        made = make_batch(study, name, [RUN], size=size, depth=10, candidates=6, mix=mix, seed=size)
        annotate(study, truth, {"ann": 1.0}, seed=size)
        alone[name] = audit(study, name).overall.positive
    items = [item for name in ("first", "second") for item in Queue(study.labels_path).items(name)]
    rows = [
        (
            each.passage in truth[item.question],
            each.inclusion_probability / item.inclusion_probability * 48 / made.frame,
            item.question,
        )
        for item in items
        for each in item.candidates
    ]
    hits, probabilities, questions = map(np.array, zip(*rows, strict=True))
    found = audit(study).overall.positive
    units = units_by_id(study, questions.tolist())
    expected = rate(hits, np.ones(len(hits), bool), probabilities, questions, units=units)
    assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))
    assert found.questions == 48 and found.width < alone["first"].width < alone["second"].width
    # Pools of another depth are another population, with their own inclusion probabilities.
    make_batch(study, "shallow", [RUN], size=5, depth=3, mix=mix, seed=1)
    annotate(study, truth, {"ann": 1.0}, seed=1)
    assert audit(study).drawn == 53 and audit(study, "first").overall.positive == alone["first"]


def test_an_audit_question_counts_when_its_own_batch_has_judged_all_of_it(desk):
    from blindspot.db.queue import Candidate, Item

    desk, study = desk
    candidates = tuple(Candidate(p, n, inclusion_probability=0.25) for n, p in enumerate(("p1", "p2")))
    desk.queue.add_batch("audit", [Item(f"q{n}", candidates, "audit", inclusion_probability=0.5) for n in range(4)], {})
    desk.label("ann", "q0", {"p1": "positive", "p2": "unsure"}, batch="audit")
    desk.label("ann", "q1", {"p1": "positive"}, batch="audit")
    desk.label("ben", "q2", {"p1": "positive", "p2": "positive"})
    desk.label("ann", "q3", {"p1": "negative", "p2": "negative"}, batch="audit")
    found = audit(study)
    assert (found.drawn, found.bad, found.waiting) == (4, 0, 2), "labels from elsewhere do not make a question count"
    rates = found.overall.positive
    assert (rates.value, rates.passages, rates.unsettled, rates.questions) == (pytest.approx(1 / 3), 3, 1, 2)
    assert (rates.lower_bound, rates.upper_bound) == (0.25, 0.5)
    desk.label("ben", "q3", {}, kind="bad_question")
    assert (audit(study).bad, audit(study).waiting, audit(study).overall.positive.value) == (1, 2, 1.0)
    desk.label("ada", "q0", {"p2": "negative"}, kind="adjudicate")
    assert audit(study).overall.positive.value == 0.5


def test_labels_correct_a_run(audited):
    study, truth = audited
    run = study.run(RUN)
    before = corrected_run(study, run, "gold")
    ordinals = np.asarray(run.hits.ordinals)
    judged = before.labels != NONE
    assert judged.any() and not (judged & before.gold).any(), "gold is never a candidate"
    lists = zip(run.question_ids, ordinals.tolist(), strict=True)
    right = np.array([[str(ordinal + 1) in truth[question] for ordinal in row] for question, row in lists])
    assert (before.labels == POSITIVE).sum() == (right & judged).sum() and not (right & (before.labels == OTHER)).any()
    for figures in before.figures_at((1, 5, 100)):
        assert figures.lower_bound.value <= figures.corrected.value <= figures.upper_bound.value
        assert figures.original.value <= figures.corrected.value
        true = right[:, : figures.k].any(axis=1).mean()
        assert figures.lower_bound.value <= true <= figures.upper_bound.value, "the truth lies within the bounds"
    assert [figures.k for figures in before.figures_at((1, 5, 100))] == [1, 5]


def test_what_is_in_dispute_corrects_nothing(desk):
    desk, study = desk
    questions = study.questions.with_ids(["q0", "q1"])
    ordinals = np.array([[1, 2, 3, -1], [3, 1, -1, -1]], np.int32)
    for name, label in (("ann", "positive"), ("ben", "negative")):
        desk.label(name, "q0", {"p1": label})
        desk.label(name, "q1", {"p3": "unsure", "p1": "related"})
        desk.label(name, "q2", {"p1": "positive"})
    desk.label("ann", "q0", {"p3": "positive", "p5": "positive"})
    made = label_matrix(study, desk.labels, questions, ordinals).tolist()
    assert made == [[NONE, NONE, POSITIVE, NONE], [NONE, OTHER, NONE, NONE]]
