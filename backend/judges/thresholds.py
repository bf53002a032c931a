"""The thresholds of a judge: below which probability a negative is kept, from which a positive is added, and the share of
right pairs on that side with its interval over questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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


def find_threshold(
    probabilities: np.ndarray,
    positive: np.ndarray,
    questions: np.ndarray,
    aim: float,
    side: Literal["below", "above"],
) -> Threshold:
    """Find the threshold that takes most pairs on one side, and whose share of positives there keeps to the aim.

    Args:
        aim: the share of positives, judged by the end of its interval that is further from it: of the pairs below the
            threshold (negatives that are kept) at most so much, of those at or above it (positives that are added) at
            least so much.
    """
    best = Threshold(None, 0, None, None, None)
    if not len(probabilities):
        return best
    grid = np.unique(np.quantile(probabilities, np.linspace(0, 1, 201)))
    places = np.unique(questions, return_inverse=True)[1]
    for value in grid if side == "below" else grid[::-1]:
        chosen = probabilities < value if side == "below" else probabilities >= value
        if not chosen.any():
            continue
        share, low, high = clustered_share(positive[chosen], places[chosen])
        is_met = high <= aim if side == "below" else low >= aim
        if is_met and int(chosen.sum()) >= best.pairs:
            best = Threshold(float(value), int(chosen.sum()), share, low, high)
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
