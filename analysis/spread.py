"""Measures of how widely the positives of a group are spread in the original vector space.

In Figure 2 of the EntityQuestions paper, the positives of place-of-birth lie close together under DPR and spread out
after training. These measures make the same comparison in the original space, because distances in a projection have no
meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.neighbours import unit_vectors

_BLOCK = 512


@dataclass(frozen=True, slots=True)
class SpreadGroup:
    """The positives and questions of one group.

    Attributes:
        positives: (p,) distinct rows of the passage vectors.
        questions: (q,) rows of the question vectors.
        own_positives: for each question, the positions of its own positives in `positives`.
    """

    positives: np.ndarray
    questions: np.ndarray
    own_positives: Sequence[Sequence[int]]


def group_measurements(
    passages: np.ndarray, questions: np.ndarray | None, group: SpreadGroup
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return jackknife pseudo-values of the mean cosine, the cosines with the nearest other positive, and the margins.
    Raises ValueError for fewer than two positives.
    """
    if len(group.positives) < 2:
        raise ValueError("a group needs at least two positives")
    vectors = unit_vectors(passages[group.positives]).astype(np.float64)
    question_vectors = (
        None
        if questions is None or not len(group.questions)
        else unit_vectors(questions[group.questions]).astype(np.float64)
    )
    return (
        pairwise_pseudo_values(vectors),
        _nearest_other(vectors),
        None if question_vectors is None else _margins(question_vectors, vectors, group.own_positives),
    )


def mean_cosine(vectors: np.ndarray) -> float:
    """Return the mean cosine of two different rows. (n, d) of unit length, n at least 2."""
    n, total = len(vectors), vectors.sum(axis=0)
    return float((total @ total - n) / (n * (n - 1)))


def pairwise_pseudo_values(vectors: np.ndarray) -> np.ndarray:
    """Return jackknife pseudo-values of the mean cosine of two different rows. (n, d) of unit length -> (n,)."""
    n, theta = len(vectors), mean_cosine(vectors)
    total = vectors.sum(axis=0)
    if n == 2:
        return np.full(2, theta)
    rest = total[None] - vectors
    without = (np.einsum("ij,ij->i", rest, rest) - (n - 1)) / ((n - 1) * (n - 2))
    pseudo: np.ndarray = n * theta - (n - 1) * without
    return pseudo


def _nearest_other(vectors: np.ndarray) -> np.ndarray:
    found = np.empty(len(vectors))
    for start in range(0, len(vectors), _BLOCK):
        cosines = vectors[start : start + _BLOCK] @ vectors.T
        cosines[np.arange(len(cosines)), np.arange(start, start + len(cosines))] = -np.inf
        found[start : start + len(cosines)] = cosines.max(axis=1)
    return found


def _margins(questions: np.ndarray, positives: np.ndarray, own_positives: Sequence[Sequence[int]]) -> np.ndarray | None:
    """Return the margins, (q,) float64; None if all questions have the same positives, so that no question has a
    positive of another.
    """
    margins = []
    for start in range(0, len(questions), _BLOCK):
        for row, places in zip(questions[start : start + _BLOCK] @ positives.T, own_positives[start : start + _BLOCK]):
            mine = list(places)
            if not mine or len(mine) == len(row):
                continue
            best = row[mine].max()
            row[mine] = -np.inf
            margins.append(best - row.max())
    return np.array(margins) if margins else None
