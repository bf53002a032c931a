"""Compare rankings whose scores are sums of floats: the order of scores that are equal within rounding is nobody's promise."""

from __future__ import annotations

import numpy as np

from blindspot.db.records import Hits

TOLERANCE = 1e-4
"""Far above rounding in 32 bits (1e-7, and what a network makes of it), far below the distance of scores that matter."""


def same_ranking(ours: Hits, theirs: Hits, tolerance: float = TOLERANCE) -> None:
    """Assert that two rankings agree but for near-equal scores: the scores rank by rank, the score of each passage that both
    hold, and that a passage which one of them lacks scores no better than the other's last.

    Args:
        tolerance: relative to the greatest score of a list.
    """
    assert ours.ordinals.shape == theirs.ordinals.shape
    for row in range(len(ours)):
        a, b = _scores(ours, row), _scores(theirs, row)
        assert len(a) == len(b), f"question {row}: {len(a)} hits and {len(b)}"
        if not a:
            continue
        near = tolerance * max(abs(score) for score in (*a.values(), *b.values()))
        np.testing.assert_allclose(list(a.values()), list(b.values()), rtol=0, atol=near)
        for one, other in ((a, b), (b, a)):
            last = min(other.values())
            for passage, score in one.items():
                difference = abs(score - other[passage]) if passage in other else score - last
                assert difference <= near, (
                    f"question {row}, passage {passage}: {score} in one, {other.get(passage)} in the other"
                )


def near_equal_best(scores: np.ndarray, chosen: np.ndarray, k: int, tolerance: float = TOLERANCE) -> None:
    """Assert that `chosen` (q, k) are k different columns of `scores` (q, n) with the best scores, but for near-equal ones."""
    for row, columns in zip(scores, np.asarray(chosen), strict=True):
        assert len(set(columns.tolist())) == k
        near = tolerance * np.abs(row).max()
        np.testing.assert_allclose(np.sort(row[columns]), np.sort(row)[len(row) - k :], rtol=0, atol=near)


def first(hits: Hits, questions: int) -> Hits:
    """Return the hits of the first questions."""
    return Hits(np.asarray(hits.ordinals)[:questions], np.asarray(hits.scores)[:questions])


def _scores(hits: Hits, row: int) -> dict[int, float]:
    """Return the score of each passage of a list, in the order of the list."""
    pairs = zip(np.asarray(hits.ordinals[row]).tolist(), np.asarray(hits.scores[row]).tolist(), strict=True)
    return {passage: score for passage, score in pairs if passage >= 0}


def brute_force(vectors, questions, k, similarity="dot"):
    rows, wanted = vectors.astype(np.float64), questions.astype(np.float64)
    if similarity == "dot":
        scores = wanted @ rows.T
    else:
        scores = -((wanted[:, None, :] - rows[None, :, :]) ** 2).sum(2)
    scores = scores.astype(np.float32)
    order = np.stack([np.lexsort((np.arange(len(rows)), -row)) for row in scores])[:, :k]
    return order, np.take_along_axis(scores, order, 1)
