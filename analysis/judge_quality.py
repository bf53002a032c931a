"""How good a judge is on pairs that people settled: confusion, precision and recall, kappa, AUC, calibration, and the
groups in which it may be trusted.

Each pair is weighted by the inverse of its inclusion probability. If the pairs come from a random audit, a figure
therefore estimates the judge's quality on everything that the audit was drawn from. The sampling unit is the question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from blindspot.analysis.agreement import Agreement, kappa
from blindspot.analysis.audit import Rate, rate
from blindspot.analysis.intervals import PRIOR_UNITS, count_differing, interval_from_variance, t_quantile

CUT = 0.5
THRESHOLDS = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9)
BINS = 10
RESAMPLES = 500
RIGHT_POSITIVES = 0.90
"""A judge may be trusted to add positives if at least this share of the pairs it calls positive are positive."""
MISSED_POSITIVES = 0.05
"""A judge may be trusted to keep negatives if at most this share of the pairs it calls negative answer their question.
"""
FEW_QUESTIONS = 10
Trust = Literal["yes", "no", "inconclusive"]


@dataclass(frozen=True, slots=True)
class JudgedPairs:
    """n pairs with a label that people settled and a judge's score.

    Attributes:
        scores: (n,) float64 from 0 to 1.
        labels: (n,) str, "positive", "related" or "negative": what people settled.
        questions: (n,) str.
        probabilities: (n,) inclusion probabilities; 1 where the pairs are no sample.
        groups: By name of a grouping, (n,) group of each pair, or None.
        units: (n,) int, the unit of observation of each pair's question; None if each question is its own.
    """

    scores: np.ndarray
    labels: np.ndarray
    questions: np.ndarray
    probabilities: np.ndarray
    groups: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    units: np.ndarray | None = None

    @property
    def clusters(self) -> np.ndarray:
        """The independent unit of each pair: its unit of observation, or its question. (n,) int64."""
        return np.unique(self.questions if self.units is None else self.units, return_inverse=True)[1]

    @property
    def positive(self) -> np.ndarray:
        return np.asarray(self.labels == "positive")


@dataclass(frozen=True, slots=True)
class ThresholdFigures:
    """The precision and recall of a judge at one threshold.

    Attributes:
        precision: Share of positives among the pairs at or above the threshold.
        recall: Share of the positives that are at or above it.
        missed: Share of positives among the pairs below it: false negatives if they train as negatives.
    """

    threshold: float
    precision: Rate
    recall: Rate
    missed: Rate


@dataclass(frozen=True, slots=True)
class CalibrationBin:
    """One range of scores: the mean score in it, and the share of positives."""

    low: float
    high: float
    mean: float
    positive: Rate


@dataclass(frozen=True, slots=True)
class GroupTrust:
    """A group of pairs, and whether the judge may be trusted there.

    Attributes:
        precision, missed: As in `ThresholdFigures`, at CUT.
        positives: Whether at least RIGHT_POSITIVES of its positives are right, by the interval.
        negatives: Whether at most MISSED_POSITIVES of its negatives answer, by the interval.
    """

    group: str
    precision: Rate
    missed: Rate
    positives: Trust
    negatives: Trust


@dataclass(frozen=True, slots=True)
class JudgeFigures:
    """The quality of one judge.

    Attributes:
        pairs, questions: Number of pairs and of their questions.
        confusion: People's label to the number of pairs by the judge's grade (a score), in rising order.
        grades: The scores of the columns of `confusion`; ranges of scores if there are many.
        kappa: Agreement with people on positive or not at CUT, unweighted.
        auc, auc_low, auc_high: Probability that a positive scores above another pair; None without both kinds.
        trust: By grouping; "all" has one group.
    """

    pairs: int
    questions: int
    confusion: dict[str, list[int]]
    grades: list[str]
    kappa: Agreement
    auc: float | None
    auc_low: float | None
    auc_high: float | None
    thresholds: list[ThresholdFigures]
    calibration: list[CalibrationBin]
    trust: dict[str, list[GroupTrust]]

    @property
    def at_decision_threshold(self) -> ThresholdFigures:
        return next(each for each in self.thresholds if each.threshold == CUT)


def judge_figures(judged_pairs: JudgedPairs, seed: int = 0) -> JudgeFigures:
    """Return the figures of a judge. Raises ValueError for scores outside 0 to 1."""
    scores = np.asarray(judged_pairs.scores, np.float64)
    if len(scores) and not ((scores >= 0) & (scores <= 1)).all():
        raise ValueError("a score must be between 0 and 1")
    grades, places = _grades(scores)
    confusion = {
        label: np.bincount(places[judged_pairs.labels == label], minlength=len(grades)).tolist()
        for label in ("positive", "related", "negative")
    }
    auc = weighted_auc(scores, judged_pairs.positive, 1 / judged_pairs.probabilities)
    low, high = auc_interval(judged_pairs) if auc is not None else (None, None)
    groups: dict[str, Sequence[str | None]] = {"all": ["all"] * len(scores), **judged_pairs.groups}
    return JudgeFigures(
        len(scores),
        len(np.unique(judged_pairs.questions)),
        confusion,
        grades,
        kappa(
            (scores >= CUT).astype(int),
            judged_pairs.positive.astype(int),
            judged_pairs.questions,
            judged_pairs.clusters,
            RESAMPLES,
            seed,
        ),
        auc,
        low,
        high,
        [_figures_at(judged_pairs, threshold) for threshold in THRESHOLDS],
        _calibration(judged_pairs),
        {name: _group_trust(judged_pairs, group) for name, group in groups.items()},
    )


def weighted_auc(scores: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> float | None:
    """Return the weighted share of (positive, other) pairs in which the positive scores higher; ties count half."""
    up, down = float(weights[positive].sum()), float(weights[~positive].sum())
    if up <= 0 or down <= 0:
        return None
    values, place = np.unique(scores, return_inverse=True)
    others = np.bincount(place, np.where(positive, 0, weights), len(values))
    own = np.bincount(place, np.where(positive, weights, 0), len(values))
    below = np.cumsum(others) - others
    return float((own * (below + others / 2)).sum() / (up * down))


def verdict(low: float | None, high: float | None, question_count: int, bound: float, at_least: bool) -> Trust:
    """Return whether the interval shows that a share is at least (or at most) a bound: yes, no or inconclusive."""
    if low is None or high is None or question_count < FEW_QUESTIONS:
        return "inconclusive"
    if at_least:
        return "yes" if low >= bound else "no" if high < bound else "inconclusive"
    return "yes" if high <= bound else "no" if low > bound else "inconclusive"


def _figures_at(judged_pairs: JudgedPairs, threshold: float) -> ThresholdFigures:
    above = judged_pairs.scores >= threshold
    return ThresholdFigures(
        threshold,
        _rate(judged_pairs, judged_pairs.positive, above),
        _rate(judged_pairs, above, judged_pairs.positive),
        _rate(judged_pairs, judged_pairs.positive, ~above),
    )


def _rate(judged_pairs: JudgedPairs, hits: np.ndarray, population: np.ndarray) -> Rate:
    return rate(
        hits[population],
        np.ones(int(population.sum()), bool),
        judged_pairs.probabilities[population],
        judged_pairs.questions[population],
        resamples=RESAMPLES,
        units=judged_pairs.clusters[population],
    )


def _calibration(judged_pairs: JudgedPairs) -> list[CalibrationBin]:
    places = np.minimum((judged_pairs.scores * BINS).astype(int), BINS - 1)
    weights = 1 / judged_pairs.probabilities
    bins = []
    for number in range(BINS):
        inside = places == number
        if inside.any():
            mean = float(np.average(judged_pairs.scores[inside], weights=weights[inside]))
            bins.append(
                CalibrationBin(
                    number / BINS, (number + 1) / BINS, mean, _rate(judged_pairs, judged_pairs.positive, inside)
                )
            )
    return bins


def _group_trust(judged_pairs: JudgedPairs, groups: Sequence[str | None]) -> list[GroupTrust]:
    names = np.array([group or "" for group in groups], dtype=str)
    above, found = judged_pairs.scores >= CUT, []
    for name in sorted(set(names.tolist()) - {""}):
        inside = names == name
        precision = _rate(judged_pairs, judged_pairs.positive, inside & above)
        missed = _rate(judged_pairs, judged_pairs.positive, inside & ~above)
        found.append(
            GroupTrust(
                name,
                precision,
                missed,
                verdict(precision.low, precision.high, precision.n_units, RIGHT_POSITIVES, True),
                verdict(missed.low, missed.high, missed.n_units, MISSED_POSITIVES, False),
            )
        )
    return found


def _grades(scores: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return the judge's grades and the grade of each pair. A grade is a distinct score, or a fifth of the range if
    there are many scores.
    """
    values = np.unique(scores)
    if len(values) <= 8:
        return [f"{value:.2f}" for value in values], np.searchsorted(values, scores)
    return [f"{i / 5:.1f}–{(i + 1) / 5:.1f}" for i in range(5)], np.minimum((scores * 5).astype(int), 4)


def auc_interval(judged_pairs: JudgedPairs) -> tuple[float | None, float | None]:
    """Return the interval of the AUC: Wilson's interval with the variance over units (Obuchowski 1997).

    Near an AUC of 1 few pairs are in the wrong order, so the estimated variance is unreliable. It is shrunk towards the
    largest variance that this AUC can have: AUC (1 - AUC) / the smaller of the numbers of units with positives and with
    other pairs (van Dantzig 1951). In simulations with 10 to 1,000 pairs this interval covered the true AUC in at least
    96% of cases; the bootstrap over questions covered it in 76 to 92% (`python -m benchmarks.coverage`). The interval
    is (None, None) with fewer than two units of positives or of other pairs.
    """
    positive, weights, units = judged_pairs.positive, 1 / judged_pairs.probabilities, judged_pairs.clusters
    places = np.unique(judged_pairs.scores, return_inverse=True)[1]
    of_kind = [np.bincount(places, np.where(kind, weights, 0)) for kind in (positive, ~positive)]
    total = np.array([kind.sum() for kind in of_kind])
    by_unit = [np.bincount(units, np.where(kind, weights, 0)) for kind in (positive, ~positive)]
    effective = min(float(kind.sum() ** 2 / (kind @ kind)) if kind.any() else 0.0 for kind in by_unit)
    if effective < 1 + 1e-9:
        return None, None
    below = np.cumsum(of_kind[1]) - of_kind[1] / 2
    above = total[0] - np.cumsum(of_kind[0]) + of_kind[0] / 2
    # The share of the other kind that each pair is in order with.
    ordered = np.where(positive, below[places] / total[1], above[places] / total[0])
    auc = float((ordered * weights)[positive].sum() / total[0])
    parts = np.bincount(units, weights * (ordered - auc) / np.where(positive, total[0], total[1]))
    variance = len(parts) / (len(parts) - 1) * float(parts @ parts)
    largest = auc * (1 - auc) / effective
    informative = min(count_differing(ordered[kind]) for kind in (positive, ~positive))
    variance = (informative * variance + PRIOR_UNITS * largest) / (informative + PRIOR_UNITS)
    return interval_from_variance(auc, auc, variance * t_quantile(effective - 1) ** 2, effective)
