"""Disagreements of judges by rank, in hand-made cases and in a study."""

from collections import Counter

import numpy as np
import pytest

from blindspot.analysis.audit import rate
from blindspot.analysis.disagreements import NO, SILENT, YES, pairs_in_cell, patterns, tabulate, weights_by_rank
from blindspot.backend.training_sets.judge_agreement import judge_agreement
from blindspot.db.errors import Missing
from tests.training_studies import RUN, say, score, training_study

# rank, people, cross-encoder, answer match
PAIRS = [
    (1, YES, YES, YES), (1, YES, YES, YES), (1, NO, YES, YES), (1, SILENT, YES, YES),
    (2, YES, NO, NO), (5, YES, NO, NO), (3, NO, NO, YES), (4, NO, YES, NO), (2, YES, YES, SILENT),
    (6, NO, NO, NO), (20, YES, NO, YES), (7, YES, YES, NO),
    (21, NO, NO, NO), (100, NO, NO, NO), (101, YES, YES, YES),
]  # fmt: skip


def arrays(judges=3):
    rows = np.array(PAIRS)
    return rows[:, 0], rows[:, 1 : 1 + judges].T


def test_all_agree_then_each_alone():
    assert patterns(3) == ((1, 1, 1), (0, 0, 0), (1, 0, 0), (0, 1, 1), (0, 1, 0), (1, 0, 1), (0, 0, 1), (1, 1, 0))
    assert patterns(2) == ((1, 1), (0, 0), (1, 0), (0, 1)) and patterns(1) == ((1,), (0,))
    assert sorted(patterns(4)) == sorted(set(patterns(4))) and len(patterns(4)) == 16


def test_three_judges_by_hand():
    found = tabulate(*arrays())
    by = {
        span: dict(zip(found.patterns, row, strict=True))
        for span, row in zip(found.spans, found.counts.tolist(), strict=True)
    }
    said = {span: {pattern: n for pattern, n in row.items() if n} for span, row in by.items()}
    assert said == {
        (1, 1): {(1, 1, 1): 2, (0, 1, 1): 1},
        (2, 5): {(1, 0, 0): 2, (0, 0, 1): 1, (0, 1, 0): 1},
        (6, 20): {(0, 0, 0): 1, (1, 0, 1): 1, (1, 1, 0): 1},
        (21, 100): {(0, 0, 0): 2},
    }
    assert found.silent.tolist() == [1, 1, 0, 0]


@pytest.mark.parametrize("judges", [1, 2, 3])
def test_it_is_what_a_counter_counts(judges):
    generator = np.random.default_rng(0)
    ranks, votes = generator.integers(1, 130, 4000), generator.integers(-1, 2, (judges, 4000))
    found = tabulate(ranks, votes)
    expected = Counter(
        (next((span for span in found.spans if span[0] <= rank <= span[1]), None), tuple(column))
        for rank, column in zip(ranks.tolist(), votes.T.tolist(), strict=True)
    )
    for row, span in enumerate(found.spans):
        assert found.counts[row].tolist() == [expected[span, pattern] for pattern in found.patterns]
        assert found.counts[row].sum() + found.silent[row] == sum(
            n for (where, _), n in expected.items() if where == span
        )


def test_the_pairs_of_a_cell_by_rank():
    ranks, votes = arrays()
    assert [PAIRS[place] for place in pairs_in_cell(ranks, votes, (2, 5), (1, 0, 0))] == [
        (2, YES, NO, NO),
        (5, YES, NO, NO),
    ]
    assert pairs_in_cell(ranks[::-1], votes[:, ::-1], (2, 5), (1, 0, 0)).tolist() == [10, 9]
    assert pairs_in_cell(ranks, votes, (21, 100), (1, 1, 1)).tolist() == []


def test_nothing_and_nonsense():
    empty = tabulate(np.zeros(0, int), np.zeros((3, 0), int))
    assert empty.counts.shape == (4, 8) and not empty.counts.any() and not empty.silent.any()
    with pytest.raises(ValueError, match="do not fit"):
        tabulate(np.ones(3, int), np.ones((2, 4), int))
    with pytest.raises(ValueError, match="a verdict must be 1"):
        tabulate(np.ones(1, int), np.array([[2]]))


@pytest.fixture
def study(tmp_path):
    """The run's hits for q0 are p1, p0, p2, p3, p4, p8; p0, p1 and p2 contain answers."""
    return training_study(tmp_path / "study")


def told(found, threshold=0.5):
    """Return the judges' verdicts by (question, passage, rank)."""
    said = found.votes(threshold).T.tolist()
    return {
        (found.questions[row], f"p{ordinal}", rank): tuple(each)
        for row, ordinal, rank, each in zip(
            found.rows.tolist(), found.ordinals.tolist(), found.ranks.tolist(), said, strict=True
        )
    }


def test_what_each_says_of_the_pairs_of_a_run(study):
    say(study, "ann", "q0", {"p1": "positive", "p2": "related", "p3": "negative", "p4": "unsure", "p30": "positive"})
    say(study, "ann", "q1", {"p6": "positive"})
    say(study, "ben", "q1", {"p6": "negative"})  # in dispute
    score(study, {("q0", "p1"): 0.4, ("q0", "p2"): 0.9, ("q0", "p4"): 0.9, ("q0", "p30"): 0.9, ("q1", "p6"): 0.9})
    found = judge_agreement(study, "r", "judge")
    assert (found.judges, found.missing) == (("annotators", "cross-encoder", "answer match"), {})
    assert told(found) == {("q0", "p1", 1): (YES, NO, YES), ("q0", "p2", 3): (NO, YES, YES)}
    assert told(found, 0.4)["q0", "p1", 1] == (YES, YES, YES)
    assert (found.labels, found.probabilities.tolist()) == (["positive", "related"], [0.4, 0.9])
    assert found.found[:7].tolist() == [10] * 6 + [0]
    hits = {id: [f"p{ordinal}" for ordinal in found_hits] for id, found_hits in RUN.items()}
    assert found.undecided == ("p4" in hits["q0"]) + ("p6" in hits["q1"]) == 2


def test_two_judges_where_one_is_missing(study):
    score(study, {("q0", "p1"): 0.4, ("free", "p19"): 0.9})
    found = judge_agreement(study, "r", "judge")
    assert found.judges == ("cross-encoder", "answer match") and "Judge page" in found.missing["annotators"]
    assert told(found) == {("q0", "p1", 1): (NO, YES)}  # "free" has no answers
    say(study, "ann", "q0", {"p1": "positive", "p3": "negative"})
    found = judge_agreement(study, "r", None)
    assert found.judges == ("annotators", "answer match") and set(found.missing) == {"cross-encoder"}
    assert told(found) == {("q0", "p1", 1): (YES, YES), ("q0", "p3", 4): (NO, NO)}
    study.questions.connection.execute("UPDATE question SET answers = '[]'")
    found = judge_agreement(study, "r", "judge")
    assert found.judges == ("annotators", "cross-encoder") and "has answers" in found.missing["answer match"]
    assert told(found) == {("q0", "p1", 1): (YES, NO)}


def test_one_judge_alone_has_nobody_to_differ_from(study):
    found = judge_agreement(study, "r", None)
    assert found.judges == ("answer match",) and found.votes(0.5).shape == (1, 0)
    score(study, {("elsewhere", "p1"): 0.4})
    assert "judge has scored no question of r" in judge_agreement(study, "r", "judge").missing["cross-encoder"]
    with pytest.raises(Missing, match="no scores of a model 'nobody'"):
        judge_agreement(study, "r", "nobody")
    with pytest.raises(Missing, match="no run 'nothing'"):
        judge_agreement(study, "nothing", None)


def test_a_range_of_ranks_weighs_what_the_run_retrieved_there():
    """Of 10 passages at rank 1 two are judged, of 30 at ranks 2 to 5 three; ranks 6 to 20 hold fewer than are judged."""
    ranks = np.array([1, 1, 2, 3, 5, 6, 7])
    retrieved = np.array([10, 10, 10, 5, 5, 1, *[0] * 94])
    assert weights_by_rank(ranks, retrieved).tolist() == [0.2, 0.2, 0.1, 0.1, 0.1, 1.0, 1.0]
    wrong = np.array([True, False, True, True, False])
    found = rate(wrong, np.ones(5, bool), weights_by_rank(ranks[:5], retrieved), np.arange(5))
    assert found.value == pytest.approx((10 * 1 / 2 + 30 * 2 / 3) / 40), "each range's own share, by its size"
