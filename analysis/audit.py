"""The rate of false negatives among unlabelled passages, from a random sample of questions.

The rate of false negatives can only be estimated from a sample with known inclusion probabilities. Passages that people
judged because they looked like false negatives say nothing about the other passages. Each passage has the weight 1 /
its inclusion probability. The rate is a ratio of weighted sums (Hajek 1971), so the weights need not add up to any
particular total. The sampling unit is the unit of observation, such as the question or the fact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.by_question import RESAMPLES, ratio_error, share_interval, sums_by_question
from blindspot.analysis.intervals import LEVEL

WIDTH = 0.10
FEW = 10
"""With fewer units of observation the variance cannot be estimated: no slice counts as finished, and `more` is None."""
_MOST_QUESTIONS = 1_000_000


@dataclass(frozen=True, slots=True)
class Rate:
    """A weighted share of passages with its interval, and whether enough passages have been judged.

    value, low, high: None without settled passages. low and high are also None with fewer than 2 units.
    units: number of units of observation of these questions; None if each question is one.
    questions, passages: numbers of settled questions and passages, the base of the rate. unsettled: number of sampled
        passages on which annotators are unsure or disagree; they do not enter the rate.
    lower_bound, upper_bound: the rate if every unsettled passage were a miss, or a hit.
    target: width of the interval at which a slice is finished.
    more: estimated number of further questions until then; 0 if the slice is finished, None if it cannot be estimated
        (fewer than `FEW` units).
    """

    value: float | None
    low: float | None
    high: float | None
    questions: int
    passages: int
    unsettled: int
    lower_bound: float | None
    upper_bound: float | None
    target: float
    more: int | None
    method: str
    units: int | None = None

    @property
    def n_units(self) -> int:
        """The number of independent observations."""
        return self.questions if self.units is None else self.units

    @property
    def width(self) -> float | None:
        return None if self.low is None or self.high is None else self.high - self.low

    @property
    def finished(self) -> bool:
        """The stopping rule: the interval is at most `target` wide."""
        return self.more == 0


def rate(
    hits: np.ndarray,
    is_settled: np.ndarray,
    probabilities: np.ndarray,
    questions: np.ndarray,
    target: float = WIDTH,
    confidence: float = LEVEL,
    resamples: int = RESAMPLES,
    units: np.ndarray | None = None,
) -> Rate:
    """Estimate the share of hits, for example of false negatives, in the population from which the passages were
    sampled.

    Args:
        hits: (n,) bool. is_settled: (n,) bool; `hits` is ignored where it is False.
        probabilities: (n,) inclusion probabilities, above 0 and at most 1.
        questions: (n,) any sortable labels.
        units: (n,) any sortable labels, the unit of observation of each question; None if each question is its own.

    Raises ValueError for a probability outside 0 to 1, or for arrays of different lengths.
    """
    hits, is_settled, questions = np.asarray(hits, bool), np.asarray(is_settled, bool), np.asarray(questions)
    units = questions if units is None else np.asarray(units)
    probabilities = np.asarray(probabilities, np.float64)
    if not len(hits) == len(is_settled) == len(probabilities) == len(questions) == len(units):
        raise ValueError("hits, settled, probabilities, questions and units must have equal lengths")
    if not ((probabilities > 0) & (probabilities <= 1)).all():
        raise ValueError("an inclusion probability must be above 0 and at most 1")
    weights = 1 / probabilities
    method = f"weights 1 / inclusion probability; error from units drawn again {resamples} times, seed 0; t on log odds"
    lower, upper = _share(hits & is_settled, weights), _share(hits | ~is_settled, weights)
    unsettled = int((~is_settled).sum())
    hits, weights, questions, units = hits[is_settled], weights[is_settled], questions[is_settled], units[is_settled]
    if not len(hits):
        return Rate(None, None, None, 0, 0, unsettled, lower, upper, target, None, method)
    top, bottom = sums_by_question(np.stack([hits * weights, weights], axis=1), units).T
    value, n = float(top.sum() / bottom.sum()), len(top)
    n_questions = len(np.unique(questions))
    error = ratio_error(top, bottom, resamples) if n > 1 else 0.0
    low, high = share_interval(value, error, n, confidence)
    return Rate(
        value,
        low,
        high,
        n_questions,
        len(hits),
        unsettled,
        lower,
        upper,
        target,
        _questions_needed(value, error, (n_questions, n), target, confidence),
        method,
        n,
    )


def rates_by(
    groups: Sequence[str | None],
    hits: np.ndarray,
    is_settled: np.ndarray,
    probabilities: np.ndarray,
    questions: np.ndarray,
    target: float = WIDTH,
    units: np.ndarray | None = None,
) -> dict[str, Rate]:
    """Return the rate of each group of passages by the group's name. A passage whose group is None is left out.

    The other arguments are those of `rate`.
    """
    names = np.array([group if group is not None else "" for group in groups], dtype=str)
    units = questions if units is None else units
    hits, is_settled, probabilities, questions, units = map(
        np.asarray, (hits, is_settled, probabilities, questions, units)
    )
    rates = {}
    for name in np.unique(names).tolist():
        if name:
            rows = names == name
            rates[name] = rate(
                hits[rows], is_settled[rows], probabilities[rows], questions[rows], target, units=units[rows]
            )
    return rates


def _share(hits: np.ndarray, weights: np.ndarray) -> float | None:
    return float(hits @ weights / weights.sum()) if len(hits) else None


def _questions_needed(
    value: float, error: float, counts: tuple[int, int], target: float, confidence: float
) -> int | None:
    """Return how many questions to add until the interval is narrow enough. The width of the interval shrinks with the
    square root of the number of units.

    Args:
        counts: questions and units so far.
    """
    questions, units = counts
    if units < FEW:
        return None

    def is_narrow_enough(count: int) -> bool:
        low, high = share_interval(value, error * (units / count) ** 0.5, count, confidence)
        return low is not None and high is not None and high - low <= target

    enough = units
    while not is_narrow_enough(enough):
        if enough > _MOST_QUESTIONS:
            return None
        enough *= 2
    low = max(units, enough // 2)
    while low < enough:
        middle = (low + enough) // 2
        low, enough = (low, middle) if is_narrow_enough(middle) else (middle + 1, enough)
    return math.ceil((enough - units) * questions / units)
