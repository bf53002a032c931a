"""Judged@k and accuracy with corrected labels, by hand and compared with ir_measures."""

import numpy as np
import pytest

from blindspot.analysis.accuracy import success_at
from blindspot.analysis.judged import (
    NONE,
    OTHER,
    POSITIVE,
    corrected_relevance,
    is_judged,
    judged_at,
    judged_figures,
    relevance_bounds,
)

N, P, X = NONE, POSITIVE, OTHER


def run_with_labels(seed: int, questions: int = 40, depth: int = 12):
    """relevant, gold, labels, present of a run whose rows are of different lengths; half of the gold is not relevant by
    answers."""
    rng = np.random.default_rng(seed)
    present = np.arange(depth) < rng.integers(1, depth + 1, questions)[:, None]
    gold = (rng.random((questions, depth)) < 0.08) & present
    relevant = ((rng.random((questions, depth)) < 0.1) | (gold & (rng.random((questions, depth)) < 0.5))) & present
    labels = np.where(present, rng.choice([N, P, X], (questions, depth), p=[0.6, 0.1, 0.3]), N)
    return relevant, gold, labels, present


def test_judged_at_k_is_that_of_ir_measures():
    ir_measures = pytest.importorskip("ir_measures")
    _, gold, labels, present = run_with_labels(0)
    judged = is_judged(gold, labels)
    run = [ir_measures.ScoredDoc(f"q{i}", f"d{j}", float(-j)) for i, j in np.argwhere(present)]
    qrels = [ir_measures.Qrel(f"q{i}", f"d{j}", int(labels[i, j] == P)) for i, j in np.argwhere(judged)]
    qrels += [ir_measures.Qrel(f"q{i}", "never retrieved", 1) for i in range(len(gold))]
    for k in (1, 5, 12, 50):
        theirs = {each.query_id: each.value for each in ir_measures.iter_calc([ir_measures.Judged @ k], qrels, run)}
        assert judged_at(judged, present, k) == pytest.approx([theirs[f"q{i}"] for i in range(len(gold))])


def test_success_on_corrected_labels_is_that_of_ir_measures():
    """Success with qrels from gold and labels; a settled label overrides the gold."""
    ir_measures = pytest.importorskip("ir_measures")
    _, gold, labels, present = run_with_labels(1)
    run = [ir_measures.ScoredDoc(f"q{i}", f"d{j}", float(-j)) for i, j in np.argwhere(present)]
    qrels = [
        ir_measures.Qrel(f"q{i}", f"d{j}", int(labels[i, j] == P or (gold[i, j] and labels[i, j] == N)))
        for i, j in np.argwhere(is_judged(gold, labels))
    ]
    qrels += [ir_measures.Qrel(f"q{i}", "never retrieved", 0) for i in range(len(gold))]
    ours = success_at(corrected_relevance(gold, labels), 5)
    theirs = {each.query_id: each.value for each in ir_measures.iter_calc([ir_measures.Success @ 5], qrels, run)}
    assert ours.tolist() == [bool(theirs[f"q{i}"]) for i in range(len(gold))]


def test_by_hand():
    #            answer, judged no | gold | unlabelled | judged yes     nothing judged     short
    relevant = [[True, False, False, False], [False, False, True, False], [True, False, False, False]]
    gold = [[False, True, False, False], [False] * 4, [True, False, False, False]]
    labels = [[X, N, N, P], [N] * 4, [N] * 4]
    present = [[True] * 4, [True] * 4, [True, False, False, False]]
    made = {each.k: each for each in judged_figures(relevant, gold, labels, present, (1, 3, 4))}
    third = 1 / 3
    assert [made[k].judged.value for k in (1, 3, 4)] == pytest.approx([2 / 3, (2 / 3 + 0 + 1) / 3, (3 / 4 + 0 + 1) / 3])
    assert [made[k].original.value for k in (1, 3, 4)] == pytest.approx([2 * third, 1, 1])
    assert [made[k].corrected.value for k in (1, 3, 4)] == pytest.approx([third, 2 * third, 1])
    # Nobody judged the second question's answer at rank 3; the match may be chance.
    assert [made[k].lower_bound.value for k in (1, 3, 4)] == pytest.approx([third, third, 2 * third])
    # Unjudged: rank 3 of the first question, all of the second.
    assert [made[k].upper_bound.value for k in (1, 3, 4)] == pytest.approx([2 * third, 1, 1])


@pytest.mark.parametrize("seed", range(5))
def test_bounds_hold_whatever_the_unjudged_turn_out_to_be(seed):
    relevant, gold, labels, present = run_with_labels(seed)
    least, most = relevance_bounds(relevant, gold, labels, present)
    unjudged = ~is_judged(gold, labels) & present
    rng = np.random.default_rng(seed)
    assert (least <= corrected_relevance(relevant, labels)).all() and (
        corrected_relevance(relevant, labels) <= most
    ).all()
    for share in (0, 0.5, 1):
        later = np.where(unjudged, np.where(rng.random(labels.shape) < share, P, X), labels)
        right = corrected_relevance(relevant, later)
        assert (least <= right).all() and (right <= most).all()
        assert [(relevance_bounds(relevant, gold, later, present)[i] == right).all() for i in (0, 1)] == [True, True], (
            "all judged: no room"
        )


def test_without_labels_nothing_changes():
    relevant, gold, labels, present = run_with_labels(2)
    made = judged_figures(relevant, gold, np.zeros_like(labels), present, (5,))[0]
    assert made.corrected == made.original and made.original.value == success_at(relevant, 5).mean()


def test_a_row_without_hits_is_left_out_of_judged_at_k():
    present = np.array([[True, True], [False, False]])
    shares = judged_at(np.array([[True, False], [False, False]]), present, 2)
    assert shares[0] == 0.5 and np.isnan(shares[1])
    none = np.zeros((2, 2), int)
    made = judged_figures(none == 1, none == 1, none, present, (2,))[0]
    assert (made.judged.n, made.original.n, made.judged.value) == (1, 2, 0)
    with pytest.raises(ValueError, match="ranks start at 1"):
        judged_at(present, present, 0)
