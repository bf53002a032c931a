"""Paired tests and intervals for the difference between two runs over the same questions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

import numpy as np

from blindspot.analysis.accuracy import Estimate, mean_difference
from blindspot.analysis.intervals import LEVEL, renumber_units

RESAMPLES = 10_000
VALUES_PER_BLOCK = 1 << 24
FEW_SIZES = 256


def sign_flip(
    differences: np.ndarray, units: np.ndarray | None = None, resamples: int = RESAMPLES, seed: int = 0
) -> float:
    """Return the two-sided p value of the paired sign-flip randomisation test. The null hypothesis: the mean difference
    is 0.

    p is (1 + the number of resampled means at least as far from 0 as the observed one) / (resamples + 1). It is never
    0, and the test rejects no more often than its level (Phipson and Smyth 2010). The test is exact if the two runs are
    interchangeable for each unit of observation, even if the units have different variances. All differences within a
    unit keep or change their signs together.

    Args:
        differences: (q,) float, run A's value minus run B's for each question.
        units: (q,) int, the unit of observation of each question; None if each question is its own.
    """
    differences = np.asarray(differences, dtype=np.float64)
    scale = np.abs(differences).sum()
    if units is not None and len(differences):
        differences = np.bincount(renumber_units(units), differences)
        differences[np.abs(differences) < 1e-12 * scale] = 0.0  # what cancels within a unit leaves a rounding error
    changed = np.abs(differences[differences != 0])
    observed = abs(differences.sum())
    rng = np.random.default_rng(seed)
    sizes, counts = np.unique(changed, return_counts=True)
    if len(sizes) <= FEW_SIZES:
        # Differences of equal size, such as those of success: their sum under random signs is binomial.
        drawn = rng.binomial(counts, 0.5, size=(resamples, len(sizes)))
        sums = np.abs((2.0 * drawn - counts) @ sizes)
    else:
        sums = np.abs(_signed_sums(changed, resamples, rng))
    # Weighted differences that cancel leave a rounding error. The tolerance makes such a sum count as 0, so that p is
    # 1.
    at_least = observed * (1 - 1e-9) - 1e-12 * scale
    return float((1 + np.count_nonzero(sums >= at_least)) / (resamples + 1))


def sign_flip_macro(
    differences: np.ndarray,
    groups: np.ndarray,
    units: np.ndarray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> float:
    """Return the p value of the same test for the difference of macro averages. A question has the weight 1 / (number
    of groups x number of questions in its group).
    """
    if not len(differences):
        return 1.0
    _, member, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    return sign_flip(np.asarray(differences, np.float64) / sizes[member], units, resamples, seed)


def _signed_sums(sizes: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Return the sums of the sizes under random signs, (resamples,) float64."""
    rows = max(1, VALUES_PER_BLOCK // max(1, len(sizes)))
    blocks = [min(rows, resamples - start) for start in range(0, resamples, rows)]
    return np.concatenate([rng.choice((-1.0, 1.0), size=(count, len(sizes))) @ sizes for count in blocks])


def difference(
    values_a: np.ndarray,
    values_b: np.ndarray,
    groups: np.ndarray | None = None,
    units: np.ndarray | None = None,
    confidence: float = LEVEL,
) -> Estimate:
    """Return the mean of a - b over the same questions with its interval (Tango 1998, by unit).

    Args:
        values_a, values_b: (q,) values of two runs from 0 to 1, such as success. units: (q,) int.
        groups: (q,) relations. If given, the difference is that of the macro averages.
    """
    return mean_difference(
        np.asarray(values_a, np.float64) - np.asarray(values_b, np.float64), units, groups, confidence
    )


def mcnemar(only_a: int, only_b: int) -> float:
    """Return the exact two-sided p value of McNemar's test; 1.0 if no question is found by one run alone."""
    from scipy.special import bdtr  # scipy.stats.binomtest gives the same, and loads for half a second

    return min(1.0, 2 * float(bdtr(min(only_a, only_b), only_a + only_b, 0.5)))


def holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Return (m,) p values adjusted by Holm's step-down method. The adjustment is valid however the tests depend on
    each other.

    statsmodels' `multipletests` gives the same values, but each call runs a full garbage collection. For 24 p values it
    takes 44 ms, and more in a server with many objects; this function takes 5 microseconds. A test checks that both
    give the same values.
    """
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted


def independent_difference(estimate_a: Estimate, estimate_b: Estimate) -> Estimate:
    """Return the difference of two shares measured on different questions, with Newcombe's interval (1998, method 10).

    Args:
        estimate_a, estimate_b: as `proportion` returns them, each over at least one question.
    """
    return replace(weighted_sum([(1.0, estimate_a), (-1.0, estimate_b)]), method="Newcombe")


def weighted_sum(terms: Sequence[tuple[float, Estimate]]) -> Estimate:
    """Return the sum of weighted shares that are measured on different questions, given as (weight, share), with the
    interval that their own intervals give: the method of variance estimates recovery (Zou and Donner 2008). It has a width
    also where every share is 0 or 1. For the difference of two shares with Wilson intervals it is Newcombe's.
    """
    n, units = sum(each.n for _, each in terms), sum(each.n_units for _, each in terms)
    if any(None in (each.value, each.low, each.high) for _, each in terms):
        return Estimate(None, n, None, None, "MOVER", units=units)
    value, below, above = 0.0, 0.0, 0.0
    for weight, each in terms:
        middle, low, high = (weight * cast(float, end) for end in (each.value, each.low, each.high))
        value += middle
        below = math.hypot(below, middle - min(low, high))
        above = math.hypot(above, max(low, high) - middle)
    return Estimate(value, n, value - below, value + above, "MOVER", units=units)


@dataclass(frozen=True, slots=True)
class Difference:
    """A measure of run A minus the same measure of run B, over the same questions.

    Attributes:
        estimate: the difference with its paired interval, from -1 to 1.
        p: p value of the sign-flip test.
        only_a, only_b: questions on which A, or B, is better; for success these are the questions that one run alone
            finds.
        macro: whether the difference is that of the averages over groups.
        binary: whether each question's value is 0 or 1, as for success.
        p_adjusted: p value after Holm's correction for all tests that are shown together; None if the test is shown
            alone.
    """

    estimate: Estimate
    p: float
    only_a: int
    only_b: int
    macro: bool = False
    p_adjusted: float | None = None
    binary: bool = True

    @property
    def n(self) -> int:
        return self.estimate.n

    @property
    def units(self) -> int:
        """The number of units of observation whose signs the test flips."""
        return self.estimate.n_units

    @property
    def p_shown(self) -> float:
        """The adjusted p value, or the unadjusted p value if the test is shown alone."""
        return self.p if self.p_adjusted is None else self.p_adjusted

    @property
    def p_mcnemar(self) -> float | None:
        """The exact p value of McNemar's test, unadjusted. It is None where the test is not defined: for a macro
        average, for values other than 0 and 1, and for units with several questions.
        """
        defined = self.binary and not self.macro and self.units == self.n
        return mcnemar(self.only_a, self.only_b) if defined else None


def compare(
    values_a: np.ndarray,
    values_b: np.ndarray,
    groups: np.ndarray | None = None,
    units: np.ndarray | None = None,
    confidence: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """Return the difference between two runs with its interval, its p value, and the number of questions on which each
    run is better.

    Args:
        values_a, values_b: (q,) values of a measure, bool for success, else float; row i is the same question in both.
        groups: (q,) relations. If given, the difference is that of the macro averages.
        units: (q,) int, the unit of observation of each question; None if each question is its own.
    """
    values_a, values_b = np.asarray(values_a), np.asarray(values_b)
    if values_a.shape != values_b.shape:
        raise ValueError(f"two runs over different questions: {values_a.shape} and {values_b.shape}")
    binary = values_a.dtype == np.bool_ and values_b.dtype == np.bool_
    values = values_a.astype(np.int8) - values_b if binary else values_a.astype(np.float64) - values_b
    only_a, only_b = int((values > 0).sum()), int((values < 0).sum())
    estimate = difference(values_a, values_b, groups, units, confidence)
    if groups is None:
        p = sign_flip(values, units, resamples, seed)
    else:
        p = sign_flip_macro(values, groups, units, resamples, seed)
    return Difference(estimate, p, only_a, only_b, macro=groups is not None, binary=binary)


def compare_groups(
    values_a: np.ndarray,
    values_b: np.ndarray,
    members: Mapping[str, np.ndarray],
    units: np.ndarray | None = None,
    seed: int = 0,
) -> dict[str, Difference]:
    """Return the difference in each group of questions, with p values adjusted by Holm's method for the number of
    groups.

    Args:
        values_a, values_b, units: as in `compare`.
        members: (m,) rows of each group, or (q,) bool.
    """
    values_a, values_b = np.asarray(values_a), np.asarray(values_b)
    units = np.arange(len(values_a)) if units is None else units
    return holm_adjusted(
        {name: compare(values_a[rows], values_b[rows], None, units[rows], seed=seed) for name, rows in members.items()}
    )


Key = TypeVar("Key")


def holm_adjusted(differences: Mapping[Key, Difference]) -> dict[Key, Difference]:
    """Return the differences with p values adjusted by Holm's method for their number."""
    adjusted = holm([difference.p for difference in differences.values()])
    pairs = zip(differences.items(), adjusted, strict=True)
    return {key: replace(difference, p_adjusted=float(p)) for (key, difference), p in pairs}
