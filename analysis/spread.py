"""Measures of how widely the positives of a group are spread in the original vector space.

In Figure 2 of the EntityQuestions paper, the positives of place-of-birth lie close together under DPR and spread out
after training. These measures make the same comparison in the original space, because distances in a projection have no
meaning.

The intervals describe other positives and questions of the same kind. They are not tests, and they are not adjusted for
the number of groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.intervals import LEVEL
from blindspot.analysis.neighbours import unit_vectors

FEW = 30
_BLOCK = 512


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of one group under one encoder.

    similarity: mean cosine of two different positives; it is high if the positives lie close together. Jackknife
    interval with
        Student's t.
    nearest: mean over positives of the cosine with the nearest other positive. Student's t interval. Two positives that
        are each other's nearest have the same value, so the values are not independent and the interval may be too
        narrow.
    margin: mean over questions of the cosine with the question's own best positive minus the cosine with the best
        positive of other questions in the group. Below 0, another question's positive ranks above its own. Student's t
        interval. None without question vectors or without other positives.
    """

    positives: int
    questions: int
    similarity: Estimate
    nearest: Estimate
    margin: Estimate | None


@dataclass(frozen=True, slots=True)
class SpreadChange:
    """A group before and after training, and the paired differences (after - before), each with its interval."""

    before: Spread
    after: Spread
    similarity: Estimate
    nearest: Estimate
    margin: Estimate | None


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


def group_spread(passages: np.ndarray, questions: np.ndarray | None, group: SpreadGroup) -> Spread:
    """Return the spread of one group. passages (n, d), questions (m, d): vectors of one encoder, not necessarily
    normalised.
    """
    pseudo, near, margins = group_measurements(passages, questions, group)
    return _spread(group, pseudo, near, margins)


def spread_change(
    vectors_before: tuple[np.ndarray, np.ndarray | None],
    vectors_after: tuple[np.ndarray, np.ndarray | None],
    group: SpreadGroup,
) -> SpreadChange:
    """Return the spread of a group under two encoders. vectors_before, vectors_after: (passages, questions) as in `group_spread`; dimensions
    may differ.
    """
    first, second = group_measurements(*vectors_before, group), group_measurements(*vectors_after, group)
    margins = None if first[2] is None or second[2] is None else _t_interval(second[2] - first[2])
    return SpreadChange(
        _spread(group, *first),
        _spread(group, *second),
        _t_interval(second[0] - first[0]),
        _t_interval(second[1] - first[1]),
        margins,
    )


def _spread(
    group: SpreadGroup, pseudo_values: np.ndarray, nearest_cosines: np.ndarray, margins: np.ndarray | None
) -> Spread:
    return Spread(
        len(group.positives),
        len(group.questions),
        _t_interval(pseudo_values),
        _t_interval(nearest_cosines),
        None if margins is None else _t_interval(margins),
    )


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


def _t_interval(pseudo: np.ndarray) -> Estimate:
    """Return the mean of the values, or of jackknife pseudo-values (Tukey 1958), with Student's t interval. There is no
    interval for fewer than three values, or if all values are equal.
    """
    n, value = len(pseudo), float(pseudo.mean())
    if n < 3 or np.ptp(pseudo) <= 1e-12:
        return Estimate(value, n, None, None, "too few to say")
    from scipy.stats import t

    half = float(t.ppf((1 + LEVEL) / 2, n - 1) * pseudo.std(ddof=1) / np.sqrt(n))
    return Estimate(value, n, value - half, value + half, "t")


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
