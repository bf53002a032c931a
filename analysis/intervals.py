"""Intervals for means of bounded values over units of observation: shares, reciprocal ranks, macro averages, differences.

A unit of observation is what counts as one independent observation. A fact that several questions ask in different
wordings is one unit. The values within a unit depend on each other, so the intervals never treat them as independent.
What counts as one unit of a study is decided in `backend/core/units.py`.

All intervals are based on two score intervals: Wilson's (1927) for a mean of values from 0 to 1, Tango's (1998) for a
mean of paired differences from -1 to 1. Neither interval has width 0 when all values are the same. For independent
values of 0 and 1 they are used as published. In every other case they are used with an effective number of questions:
the number at which the largest possible variance of such a mean would equal its estimated variance (Rao and Scott 1992;
Korn and Graubard 1998). The estimated variance is valid for any dependence within a unit. If few units differ from the
others, as with rare hits, the estimated variance is unreliable. It is therefore shrunk towards the largest possible
variance. `python -m benchmarks.coverage` simulates how often the intervals contain the true value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

LEVEL = 0.95
PRIOR_UNITS = 2.0
"""In the shrinkage, the largest possible variance counts as much as this many units that differ from the most frequent
value.
"""
_HALVINGS = 40
_TINY = 1e-12


def wilson(successes: float, n: float, confidence: float = LEVEL) -> tuple[float | None, float | None]:
    """Return Wilson's score interval for a proportion (Wilson 1927); (None, None) if n is 0.

    statsmodels' `proportion_confint(method="wilson")` gives the same interval. A page or report shows hundreds of
    intervals. One takes 71 microseconds with statsmodels and 1 microsecond here, and importing statsmodels adds a
    second to each `blindspot report`. A test checks that both give the same values.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} trials are impossible")
    if n == 0:
        return None, None
    z2 = _normal_quantile(confidence) ** 2
    p = successes / n
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    low, high = centre - half, centre + half
    return 0.0 if successes == 0 else low, 1.0 if successes == n else high


def tango(positive_count: float, negative_count: float, n: float, confidence: float = LEVEL) -> tuple[float, float]:
    """Return Tango's score interval (1998) for the mean of n paired differences in {-1, 0, 1}, of which `positive_count` are 1 and
    `negative_count` are -1.
    """
    if positive_count < 0 or negative_count < 0 or positive_count + negative_count > n * (1 + 1e-9) or n <= 0:
        raise ValueError(f"{positive_count} and {negative_count} differences of {n} pairs are impossible")
    z, estimate = _normal_quantile(confidence), (positive_count - negative_count) / n

    def score(delta: float) -> float:
        """Return the score statistic of the hypothesis that the mean is `delta`, with the maximum likelihood estimate
        of the discordance.
        """
        linear = (2 * n - positive_count + negative_count) * delta - positive_count - negative_count
        root = math.sqrt(max(linear * linear + 8 * n * negative_count * delta * (1 - delta), 0.0))
        only_minus = (root - linear) / (4 * n)
        variance = n * (2 * only_minus + delta * (1 - delta))
        return (positive_count - negative_count - n * delta) / math.sqrt(max(variance, 1e-300))

    def find_end(outside: float, target: float) -> float:
        inside = estimate
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            if abs(score(middle)) < target:
                inside = middle
            else:
                outside = middle
        return (inside + outside) / 2

    return find_end(-1.0, z), find_end(1.0, z)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its interval.

    Attributes:
        units: number of units of observation.
        method: the name of the method.
    """

    mean: float
    low: float
    high: float
    units: int
    method: str


def mean_interval(
    values: np.ndarray,
    units: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    is_signed: bool = False,
    confidence: float = LEVEL,
) -> Interval:
    """Return the mean of the values with its interval; with groups, the mean over groups of each group's mean.

    If each group lies within one unit, as when the relation is the unit, the groups count as sampled, and the interval
    describes groups of this kind. Otherwise the interval describes the mean over exactly these groups.

    Args:
        values: (q,) bool or float, at least one, from 0 to 1, or from -1 to 1 if `is_signed`.
        units: (q,) int from 0, the unit of each question; None if each question is its own.
        groups: (q,) any sortable labels, such as relation ids.

    Raises ValueError for values outside their range, and for arrays of different lengths.
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 1 or any(each is not None and len(each) != len(values) for each in (units, groups)):
        raise ValueError("values, units and groups must be one-dimensional and of equal length")
    if not len(values) or values.min() < -float(is_signed) - _TINY or values.max() > 1 + _TINY:
        raise ValueError(f"an interval needs values from {-1 if is_signed else 0} to 1")
    units = np.arange(len(values)) if units is None else renumber_units(units)
    n_units = int(units.max()) + 1
    member, weights = _weights(values, groups)
    mean, plus = (_mean(each, member) for each in (values, np.maximum(values, 0)))
    largest = max(2 * plus - mean - mean * mean, 0.0)  # plus + minus - mean^2
    name = "Tango" if is_signed else "Wilson"
    if not member.any() and n_units == len(values) and np.isin(values, (-1, 0, 1)).all():
        n: float = len(values)
    else:
        n, name = (
            _effective_questions(values, units, member, weights, largest, confidence),
            f"{name} with the effective n of {n_units} units",
        )
    low, high = _score_interval(mean, plus, n, is_signed, confidence)
    return Interval(mean, low, high, n_units, name)


def renumber_units(units: np.ndarray) -> np.ndarray:
    """Return the units as whole numbers from 0 without gaps, (q,) int64."""
    units = np.asarray(units, np.int64)
    if len(units) and int(units.max()) < 4 * len(units):
        present = np.bincount(units) > 0
        return units if present.all() else (np.cumsum(present) - 1)[units]
    return np.unique(units, return_inverse=True)[1]


def interval_from_variance(
    mean: float,
    positive_count: float,
    squares: float,
    maximum: float,
    is_signed: bool = False,
    confidence: float = LEVEL,
) -> tuple[float, float]:
    """Return the score interval of a mean whose variance is known.

    Args:
        positive_count: the mean of the values above 0, with 0 for the others; the mean itself for values from 0 to 1.
        squares: the variance times the square of the quantile that belongs to it. maximum: the effective number of
            observations if nothing varies.
    """
    largest = max(2 * positive_count - mean - mean * mean, 0.0)
    n = largest * _normal_quantile(confidence) ** 2 / squares if min(largest, squares) > _TINY**2 else maximum
    return _score_interval(mean, positive_count, n, is_signed, confidence)


def blended_variance(means: np.ndarray, share: np.ndarray, maximum_variance: float) -> float:
    """Return the variance of a weighted mean over units, shrunk towards the largest possible one; see `PRIOR_UNITS`.

    Args:
        means: (u,) mean of each unit. share: (u,) its weight, of sum 1. maximum_variance: the largest variance of one question.
    """
    one_group = np.zeros(len(means), np.int64)
    return float(_variances(means, share, one_group, maximum_variance)[0])


def _score_interval(
    mean: float, positive_count: float, n: float, is_signed: bool, confidence: float
) -> tuple[float, float]:
    if is_signed:
        return tango(positive_count * n, max(positive_count - mean, 0.0) * n, n, confidence)
    low, high = wilson(min(max(mean, 0.0), 1.0) * n, n, confidence)
    assert low is not None and high is not None, "there are values"
    return low, high


def _weights(values: np.ndarray, groups: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the group of each question, numbered from 0, (q,) int64, and its weight in the mean, (q,) float64; the
    weights sum to 1.
    """
    if groups is None:
        return np.zeros(len(values), np.int64), np.full(len(values), 1 / len(values))
    _, member, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    return member, 1 / (len(sizes) * sizes[member])


def _mean(values: np.ndarray, member: np.ndarray) -> float:
    """Return the mean over groups of each group's mean, computed without the rounding errors of weights."""
    if not member.any():
        return float(values.mean())
    return float((np.bincount(member, values) / np.bincount(member)).mean())


def _effective_questions(
    values: np.ndarray,
    units: np.ndarray,
    member: np.ndarray,
    weights: np.ndarray,
    maximum_variance: float,
    confidence: float,
) -> float:
    """Return the effective number of questions. maximum_variance: the variance that one question with this mean can have at
    most.
    """
    by_unit = np.bincount(units, weights)
    if maximum_variance <= _TINY:  # every value is the same: each unit counts as one observation
        return 1 / float(by_unit @ by_unit)
    # A cell is the part of a unit in one group. Cells are nested in groups, units need not be.
    n_groups = int(member.max()) + 1
    cell = renumber_units(units * n_groups + member)
    cell_unit, cell_group = np.zeros((2, cell.max() + 1), np.int64)
    cell_unit[cell], cell_group[cell] = units, member
    if n_groups > 1 and len(cell_group) == n_groups:  # the groups are the sample
        cell_group = np.zeros_like(cell_group)
    share = np.bincount(cell, weights)
    means = np.bincount(cell, weights * values) / share
    variances = _variances(means, share, cell_group, maximum_variance)
    of_group = np.bincount(cell_group, share**2) ** 2 / np.bincount(cell_group, share**4) - 1
    freedom = np.maximum(of_group + (PRIOR_UNITS if len(of_group) > 1 else 0), 1)
    variance = float(variances.sum())
    deviations = share * (means - _group_means(means, share, cell_group))
    total = variance * _shared_unit_factor(deviations, cell_unit)
    quantile = t_quantile(variance**2 / float((variances**2 / freedom).sum()), confidence)
    return maximum_variance / total * (_normal_quantile(confidence) / quantile) ** 2


def _variances(means: np.ndarray, share: np.ndarray, group: np.ndarray, maximum_variance: float) -> np.ndarray:
    """Return how much each group adds to the variance of the weighted mean, (g,): its estimated variance, shrunk
    towards the largest possible one.
    """
    leverage = share / np.bincount(group, share)[group]
    deviations = share * (means - _group_means(means, share, group))
    # Residuals are smaller than errors, by their leverage (Bell and McCaffrey 2002).
    alone = leverage > 1 - 1e-9
    squares = np.where(alone, 0.0, deviations**2 / np.maximum(1 - leverage, 1e-9))
    others = _differing_questions(means, group)
    highest = maximum_variance * np.bincount(group, share**2)
    variances: np.ndarray = (others * np.bincount(group, squares) + PRIOR_UNITS * highest) / (others + PRIOR_UNITS)
    # Without a largest variance there is nothing to move towards.
    return variances if maximum_variance > 0 else np.bincount(group, squares)


def _group_means(means: np.ndarray, share: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return for each unit the mean of its group, (u,)."""
    of_group = np.bincount(group, share * means) / np.bincount(group, share)
    of_unit: np.ndarray = of_group[group]
    return of_unit


def _shared_unit_factor(deviations: np.ndarray, cell_unit: np.ndarray) -> float:
    """Return the factor, at least 1, by which the variance grows because some units have questions in several groups."""
    within = float(deviations @ deviations)
    over_units = np.bincount(cell_unit, deviations)
    return max(1.0, float(over_units @ over_units) / within) if within > _TINY**2 else 1.0


def _differing_questions(means: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return how many cells of each group differ from the group's most frequent mean, (g,) int64."""
    if not group.any():
        return np.array([count_differing(means)])
    rounded = np.round(means, 9)
    order = np.lexsort((rounded, group))
    starts = np.flatnonzero(np.diff(group[order], prepend=-1) | (np.diff(rounded[order], prepend=np.nan) != 0))
    most = np.zeros(int(group.max()) + 1, np.int64)
    np.maximum.at(most, group[order][starts], np.diff(starts, append=len(order)))
    other_count: np.ndarray = np.bincount(group) - most
    return other_count


def count_differing(values: np.ndarray) -> int:
    """Return how many values differ from the most frequent one."""
    return len(values) - int(np.unique(np.round(values, 9), return_counts=True)[1].max())


def t_quantile(degrees_of_freedom: float, confidence: float = LEVEL) -> float:
    """Return the quantile of Student's t for a two-sided interval, with at least one degree of freedom.

    Newton's method starts at the normal quantile, which is too small. The probability inside the interval is a concave
    function, so the steps never overshoot. SciPy's function is equally exact, but importing it takes longer than a
    report. A test checks that both give the same values.
    """
    degrees_of_freedom, quantile = max(degrees_of_freedom, 1.0), _normal_quantile(confidence)
    if not degrees_of_freedom < 1e12:
        return quantile if degrees_of_freedom > 0 else math.nan
    half = degrees_of_freedom / 2
    peak = 2 * math.exp(_log_gamma_half_step(half)) / math.sqrt(math.pi * degrees_of_freedom)
    while True:
        squares = quantile * quantile
        slope = peak * math.exp(-(half + 0.5) * math.log1p(squares / degrees_of_freedom))
        tail, front = squares / (degrees_of_freedom + squares), slope * quantile / 2
        if tail < 3 / (degrees_of_freedom + 5) or degrees_of_freedom > 3_000:
            inside = 2 * front * _beta_fraction(tail, 0.5, half)
        else:
            inside = 1 - front * _beta_fraction(degrees_of_freedom / (degrees_of_freedom + squares), half, 0.5) / half
        step = (confidence - inside) / slope
        quantile += step
        if step < 1e-14 * quantile:
            return quantile


def _log_gamma_half_step(a: float) -> float:
    """Return log(Gamma(a + 1/2) / Gamma(a)), from its series where subtracting two logarithms would lose precision."""
    if a < 30:
        return math.lgamma(a + 0.5) - math.lgamma(a)
    return math.log(a) / 2 - 1 / (8 * a) + 1 / (192 * a**3) - 1 / (640 * a**5)


def _beta_fraction(x: float, alpha: float, beta: float) -> float:
    """Return the continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by Lentz's method."""
    above, below = 1.0, 1 / (1 - (alpha + beta) * x / (alpha + 1))
    value = below
    for m in range(1, 10_000):
        even = m * (beta - m) / ((alpha + 2 * m - 1) * (alpha + 2 * m))
        odd = -(alpha + m) * (alpha + beta + m) / ((alpha + 2 * m) * (alpha + 2 * m + 1))
        before = value
        for term in (even * x, odd * x):
            above, below = 1 + term / above, 1 / (1 + term * below)
            value *= above * below
        if abs(value - before) <= 1e-16 * value:
            break
    return value


def _normal_quantile(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"level {confidence} is not between 0 and 1")
    return NormalDist().inv_cdf((1 + confidence) / 2)
