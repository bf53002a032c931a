"""The thresholds of a judge: below which probability a negative is kept, from which a positive is added, and the share of
right pairs on that side with its interval over questions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.intervals import wilson


@dataclass(frozen=True, slots=True)
class Threshold:
    """A probability threshold, and its effect on held-out questions.

    Attributes:
        value: the threshold; None if no threshold reaches the aim.
        pairs: those on the side that is used.
        share: of false negatives (dropping) or of right positives (adding) among them, with a 95% interval over
            questions.
        left_out: pairs of unknown truth on the same side, which none of these figures counts.
    """

    value: float | None
    pairs: int
    share: float | None
    low: float | None
    high: float | None
    left_out: int = 0


def drop_threshold(probabilities: np.ndarray, positive: np.ndarray, questions: np.ndarray, aim: float) -> Threshold:
    """Find the highest threshold such that the share of positives among the pairs below it is at most `aim`, according
    to the upper end of its interval.

    A pair at or above the threshold is not used as a negative.
    """
    return _threshold(probabilities, positive, questions, lambda low, high: high <= aim, is_drop=True)


def add_positive_threshold(
    probabilities: np.ndarray, positive: np.ndarray, questions: np.ndarray, aim: float
) -> Threshold:
    """Find the lowest threshold such that the share of positives among the pairs at or above it is at least `aim`,
    according to the lower end of its interval.
    """
    return _threshold(probabilities, positive, questions, lambda low, high: low >= aim, is_drop=False)


def _threshold(
    probabilities: np.ndarray,
    positive: np.ndarray,
    questions: np.ndarray,
    condition_holds: Callable[[float, float], bool],
    is_drop: bool,
) -> Threshold:
    if not len(probabilities):
        return Threshold(None, 0, None, None, None)
    grid = np.unique(np.quantile(probabilities, np.linspace(0, 1, 201)))
    best = Threshold(None, 0, None, None, None)
    places = np.unique(questions, return_inverse=True)[1]
    for value in grid if is_drop else grid[::-1]:
        side = probabilities < value if is_drop else probabilities >= value
        if not side.any():
            continue
        share, low, high = clustered_share(positive[side], places[side])
        if condition_holds(low, high) and int(side.sum()) >= best.pairs:
            best = Threshold(float(value), int(side.sum()), share, low, high)
    return best


def clustered_share(hits: np.ndarray, clusters: np.ndarray) -> tuple[float, float, float]:
    """Return a share with a 95% interval that allows for correlation between the pairs of a question.

    The interval is Wilson's with the effective sample size n / deff, where deff compares the variance of a ratio over
    clusters with that of independent pairs (Kish 1965, section 5.4); deff is at least 1.

    Args:
        clusters: numbered from 0; some may have no pair.
    """
    n, count = len(hits), int(hits.sum())
    share = count / n
    sizes = np.bincount(clusters).astype(np.float64)
    counted = np.count_nonzero(sizes)
    residuals = np.bincount(clusters, weights=hits.astype(np.float64)) - share * sizes
    independent = share * (1 - share) / n
    if independent == 0 or counted < 2:
        return share, *_wilson(count, n)
    variance = counted / (counted - 1) * float((residuals**2).sum()) / n**2
    effective = max(1, round(n / max(1.0, variance / independent)))
    return share, *_wilson(round(share * effective), effective)


def _wilson(count: int, n: int) -> tuple[float, float]:
    low, high = wilson(count, n)
    assert low is not None and high is not None  # n is at least 1
    return low, high
