"""Find the slices of questions in which the difference between two runs departs from the difference in the other
questions.

The null hypothesis of a slice is that the mean difference inside the slice equals the mean difference outside it. Under
this hypothesis the questions are *not* exchangeable: two runs may agree almost everywhere in one relation and disagree
often in another, with the same mean difference. A permutation test that exchanges questions between the slice and the
rest reports such a slice far too often. So does Welch's t test if a small slice happens to have no difference at all,
because its estimated variance is then zero. The test used here avoids both errors:

1. The statistic is the score statistic of a difference of two means of values in {-1, 0, 1}. The variance inside and
   outside the slice is the maximum likelihood estimate under the null hypothesis (Tango 1998). For a common difference
   d it is never below |d| - d^2. Wilson and Hilferty's transformation removes the skewness that a common difference
   other than zero causes.
2. The reference distribution comes from sign flips: each question's difference gets a random sign. Where the runs are
   interchangeable for each question, this is an exact test, whatever the pattern of disagreement. Where all slices
   share a difference other than zero, it is an approximation (`benchmarks/slice_finder.py` measures it).
3. Westfall and Young's step-down maximum over all slices adjusts for the number of slices. It controls the probability
   of any false finding. Unlike Holm's method, it loses less power where slices share questions.

The unit of observation need not be the question. The signs of all questions of a unit flip together. The variance of a
slice's difference is multiplied by its design effect: the variance over units divided by the variance over questions,
at least 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.intervals import renumber_units

MIN_QUESTIONS = 30
FLIPS = 1_000
MONTE_CARLO_ERRORS = 2
MAX_OVERLAP = 0.8
"""Two slices whose Jaccard index exceeds this value are reported as one finding."""
_FLIPS_PER_BLOCK = 250
_TIE = 1e-5
"""Relative tolerance when counting flips that are "at least as extreme": their statistics are float32."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A slice in which the difference between two runs departs from the difference in the other questions.

    members: one or two positions in the list of predicates.
    n: number of questions in the slice.
    inside, outside: mean difference (A - B) in the slice and in all other questions.
    explained: how far the slice moves the mean difference of all questions away from `outside`: n / N x (inside -
        outside).
    p: p value of the slice on its own. p_adjusted: p value after the correction for all slices tested.
    """

    members: tuple[int, ...]
    n: int
    inside: float
    outside: float
    explained: float
    p: float
    p_adjusted: float


@dataclass(frozen=True, slots=True)
class SliceSearch:
    """The findings, largest effect first; the number of tested slices; the number of questions; and the mean difference
    of all questions.
    """

    findings: list[Finding]
    tried: int
    n: int
    mean: float


def find_departing_slices(
    differences: np.ndarray,
    predicates: np.ndarray,
    families: Sequence[str] | None = None,
    limit: int = 20,
    confidence: float = 0.05,
    min_questions: int = MIN_QUESTIONS,
    units: np.ndarray | None = None,
) -> SliceSearch:
    """Return the slices (single predicates and pairs) whose difference departs from the difference in the other
    questions.

    Every slice with at least `min_questions` units of observation inside and outside is tested; a unit that lies only
    partly inside counts with that part. A pair of predicates is reported only if its difference is farther from the
    mean of all questions than that of each of the two predicates alone. Among slices with nearly the same
    questions, only the one with the largest effect is reported.

    Args:
        differences: (q,) -1, 0 or 1: success of run A minus success of run B.
        predicates: (p, q) bool, the questions that satisfy each predicate.
        families: (p,) predicates of one family are not paired (two relations share no question).
        limit: maximum number of findings.
        units: (q,) int, the unit of observation of each question; None if each question is its own.

    Raises ValueError for shapes that do not fit.
    """
    differences, predicates = np.asarray(differences, np.float64), np.asarray(predicates, bool)
    if predicates.ndim != 2 or predicates.shape[1] != len(differences):
        raise ValueError(f"predicates {predicates.shape} do not fit {len(differences)} questions")
    if not np.isin(differences, (-1, 0, 1)).all():
        raise ValueError("differences of success must be -1, 0 or 1")
    n_questions = len(differences)
    mean = float(differences.mean()) if n_questions else 0.0
    tests = slice_tests(differences, predicates, families, min_questions, units)
    explained = tests.n / max(n_questions, 1) * (tests.inside - tests.outside)
    listed = np.flatnonzero(tests.reported_slices(confidence))
    findings: list[Finding] = []
    for i in _distinct_slices(listed[np.argsort(-np.abs(explained[listed]), kind="stable")], predicates, tests):
        a, b = int(tests.first[i]), int(tests.second[i])
        figures = (float(each[i]) for each in (tests.inside, tests.outside, explained, tests.p, tests.p_adjusted))
        findings.append(Finding((a,) if a == b else (a, b), int(tests.n[i]), *figures))
        if len(findings) == limit:
            break
    return SliceSearch(findings, len(tests.n), n_questions, mean)


@dataclass(frozen=True, slots=True)
class SliceTests:
    """The tests of m slices, as arrays of length m.

    first, second: positions of the slice's predicates, equal for a single predicate. beyond_parts: True for a single
    predicate, and for a pair whose difference is farther from the mean of all questions than that of each of the two
    predicates alone
        alone. The other fields are those of `Finding`.
    """

    first: np.ndarray
    second: np.ndarray
    n: np.ndarray
    inside: np.ndarray
    outside: np.ndarray
    beyond_parts: np.ndarray
    p: np.ndarray
    p_adjusted: np.ndarray

    def reported_slices(self, confidence: float = 0.05) -> np.ndarray:
        """Return which slices are reported at this level, (m,) bool."""
        listed: np.ndarray = (self.p_adjusted <= confidence) & self.beyond_parts
        return listed


def slice_tests(
    differences: np.ndarray,
    predicates: np.ndarray,
    families: Sequence[str] | None = None,
    min_questions: int = MIN_QUESTIONS,
    units: np.ndarray | None = None,
) -> SliceTests:
    """Test every slice with enough units. The arguments are those of `find_departing_slices`. With sign flips, the smallest possible
    adjusted p value is 0.003.
    """
    n_questions, wins, losses = len(differences), differences > 0, differences < 0
    units = np.arange(n_questions) if units is None else renumber_units(units)
    parts = 1 / np.bincount(units)[units] if n_questions else np.zeros(0)
    counts, won, lost = (_pair_counts(predicates, weight) for weight in (None, wins, losses))
    enough = _pairs_large_enough(_pair_sums(predicates, parts), float(parts.sum()), min_questions)
    first, second = _slices_to_test(enough & (counts > 0) & (counts < n_questions), families)
    n, plus, minus = (each[first, second] for each in (counts, won, lost))
    inside, outside = (plus - minus) / n, (differences.sum() - plus + minus) / (n_questions - n)
    beyond_parts = _exceeds_single_predicates(
        inside, first, second, counts, won - lost, differences.mean() if n_questions else 0.0
    )
    if not len(n):
        nothing = np.zeros(0)
        return SliceTests(first, second, n, inside, outside, beyond_parts, nothing, nothing)
    flipping = _sign_flip_sums(differences, predicates, (first, second), units, n)
    totals = n_questions, int(wins.sum()), int(losses.sum())
    p = p_values(n, plus, minus, *totals, flipping.design)
    observed = statistics(n, plus, minus, *totals) / np.sqrt(flipping.design)
    resampled = flipped_statistics(flipping, n, n_questions, FLIPS)
    # An adjusted p value is never below the p value of the slice on its own.
    adjusted = np.maximum(step_down(np.abs(observed), resampled), p)
    return SliceTests(first, second, n, inside, outside, beyond_parts, p, adjusted)


def statistics(
    n: np.ndarray,
    positive_counts: np.ndarray,
    negative_counts: np.ndarray,
    n_all: int | np.ndarray,
    plus_all: int | np.ndarray,
    minus_all: int | np.ndarray,
) -> np.ndarray:
    """Return the score statistic of each slice, corrected for skewness; it is standard normal under the null
    hypothesis.

    Args:
        n, positive_counts, negative_counts: questions of a slice, and how many of them only run A and only run B answers.
        n_all, plus_all, minus_all: the same counts over all questions. All arguments broadcast.
    """
    return _transformed_score(*_score(n, positive_counts, negative_counts, n_all, plus_all, minus_all))


def p_values(
    n: np.ndarray,
    positive_counts: np.ndarray,
    negative_counts: np.ndarray,
    n_all: int,
    plus_all: int,
    minus_all: int,
    design: np.ndarray | float = 1.0,
) -> np.ndarray:
    """Return the two-sided p value of each slice from the normal distribution, with a correction for continuity.

    The arguments are those of `statistics`. design: (m,) the factor by which the variance over units exceeds the
    variance over questions.
    """
    from scipy.special import ndtr

    difference, error, skewness = _score(n, positive_counts, negative_counts, n_all, plus_all, minus_all)
    error = error * np.sqrt(design)
    # The sum over the smaller side moves in steps of one.
    away = np.maximum(np.abs(difference) - 0.5 / np.minimum(n, n_all - n), 0)
    upper = ndtr(-_transformed_score(away, error, skewness))
    lower = ndtr(_transformed_score(-away, error, skewness))
    return np.where(away > 0, np.minimum(upper + lower, 1.0), 1.0)


def null_rate(
    n: np.ndarray, positive_counts: np.ndarray, negative_counts: np.ndarray, delta: float | np.ndarray
) -> np.ndarray:
    """Return the maximum likelihood estimate of the share of non-zero differences if their mean is `delta` (Tango
    1998).

    Of n values in {-1, 0, 1}, `positive_counts` are 1 and `negative_counts` are -1. The estimate solves a quadratic
    equation and is at least |delta|.
    """
    linear = positive_counts + negative_counts + (positive_counts - negative_counts) * delta
    constant = ((n - positive_counts - negative_counts) * delta - (positive_counts - negative_counts)) * delta
    root: np.ndarray = (linear + np.sqrt(np.maximum(linear * linear + 4 * n * constant, 0))) / (2 * n)
    rate: np.ndarray = np.clip(root, np.abs(delta), 1)
    return rate


def _score(
    n: np.ndarray,
    positive_counts: np.ndarray,
    negative_counts: np.ndarray,
    n_all: int | np.ndarray,
    plus_all: int | np.ndarray,
    minus_all: int | np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the difference of the means, and its standard error and skewness under the null hypothesis."""
    delta = (plus_all - minus_all) / n_all
    mean_inside, variance_inside, third_inside = _null_moments(n, positive_counts, negative_counts, delta)
    mean_outside, variance_outside, third_outside = _null_moments(
        n_all - n, plus_all - positive_counts, minus_all - negative_counts, delta
    )
    error: np.ndarray = np.sqrt(np.maximum(variance_inside + variance_outside, 0))
    third = third_inside - third_outside
    skewness: np.ndarray = np.divide(third, error**3, out=np.zeros_like(error), where=error > 1e-9)
    return mean_inside - mean_outside, error, skewness


def _null_moments(
    n: np.ndarray, positive_counts: np.ndarray, negative_counts: np.ndarray, delta: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean of n differences, and the variance and third central moment of that mean under the null
    hypothesis."""
    rate = null_rate(n, positive_counts, negative_counts, delta)
    third: np.ndarray = delta * (1 - 3 * rate + 2 * delta * delta) / (n * n)
    return (positive_counts - negative_counts) / n, (rate - delta * delta) / n, third


def _transformed_score(difference: np.ndarray, error: np.ndarray, skewness: np.ndarray) -> np.ndarray:
    """Return the normal scores of a difference with this error and skewness (Wilson and Hilferty's cube-root
    transformation of a gamma variable).
    """
    z = np.divide(difference, error, out=np.zeros_like(error), where=error > 1e-9)
    # The cube root is numerically undefined at skewness 0; the first term of its series is used there.
    skewed = np.abs(skewness) > 1e-3
    safe = np.where(skewed, skewness, 1)
    root = np.cbrt(np.maximum(1 + z * safe / 2, 0))
    cubic: np.ndarray = 6 / safe * (root - 1 + safe * safe / 36)
    return np.where(skewed, cubic, z - skewness * (z * z - 1) / 6)


@dataclass(frozen=True)
class SignFlipSums:
    """The sums that sign flips of whole units need, over the questions that only one of the runs answers.

    Attributes:
        sums: (m, u) float32, the sum of the differences of each slice within each of the u units that have such
            questions.
        plus, minus: (m, 1) float32, the number of questions of each slice that only run A, or only run B, answers.
        all_sums (u,), all_plus, all_minus: the same over all questions.
        design: (m,) the design effect of each slice.
    """

    sums: np.ndarray
    plus: np.ndarray
    minus: np.ndarray
    all_sums: np.ndarray
    all_plus: float
    all_minus: float
    design: np.ndarray


def _sign_flip_sums(
    differences: np.ndarray,
    predicates: np.ndarray,
    slices: tuple[np.ndarray, np.ndarray],
    units: np.ndarray,
    n: np.ndarray,
) -> SignFlipSums:
    rows = np.flatnonzero(differences)
    rows = rows[np.argsort(units[rows], kind="stable")]
    signs, starts = differences[rows].astype(np.float32), np.flatnonzero(np.diff(units[rows], prepend=-1))
    members = predicates[:, rows]
    inside = members[slices[0]] & members[slices[1]]
    plus, minus = (inside[:, signs == sign].sum(axis=1, keepdims=True, dtype=np.float32) for sign in (1, -1))
    values = np.where(inside, signs, np.float32(0))
    sums, all_sums = values, signs
    if 0 < len(starts) < len(rows):
        sums, all_sums = np.add.reduceat(values, starts, axis=1), np.add.reduceat(signs, starts)
    design = np.ones(len(n))
    if len(starts) < len(rows):
        # Squares of what units, and single questions, add to the difference between inside and outside.
        share = (n / len(differences)).astype(np.float32)[:, None]
        inner = plus + minus
        by_question = (inner * (1 - share) ** 2 + (len(rows) - inner) * share**2)[:, 0]
        design = np.maximum(((sums - share * all_sums) ** 2).sum(axis=1) / np.maximum(by_question, 1e-9), 1)
    return SignFlipSums(sums, plus, minus, all_sums, float((signs > 0).sum()), float((signs < 0).sum()), design)


def flipped_statistics(
    flipping: SignFlipSums, n: np.ndarray, n_all: int, flips: int = FLIPS, seed: int = 0
) -> Iterator[np.ndarray]:
    """Yield absolute statistics of the m slices under random signs of the units, in blocks of shape (m, b); there are
    `flips` flips in all.
    """
    rng = np.random.default_rng(seed)
    sizes, total = n.astype(np.float32)[:, None], np.asarray(n_all, np.float32)
    root = np.sqrt(flipping.design).astype(np.float32)[:, None]
    for start in range(0, flips, _FLIPS_PER_BLOCK):
        width = min(_FLIPS_PER_BLOCK, flips - start)
        kept = rng.integers(0, 2, (len(flipping.all_sums), width), dtype=np.int8).astype(np.float32)
        # A unit that keeps its signs adds its sum to the questions that only A answers, and takes it from B's.
        gained, gained_all = flipping.sums @ kept, flipping.all_sums @ kept
        won, won_all = flipping.minus + gained, np.float32(flipping.all_minus) + gained_all
        lost, lost_all = flipping.plus - gained, np.float32(flipping.all_plus) - gained_all
        yield np.abs(statistics(sizes, won, lost, total, won_all, lost_all)) / root


def step_down(observed_statistics: np.ndarray, resampled_statistics: Iterator[np.ndarray]) -> np.ndarray:
    """Return (m,) adjusted p values by the step-down maximum of Westfall and Young (1993, algorithm 4.1).

    Two standard errors of the Monte Carlo estimate are added to each p value, so that no slice is listed only because
    of a lucky seed.

    Args:
        observed_statistics: (m,) absolute statistics. resampled_statistics: blocks of (m, b) absolute statistics under
            the null hypothesis.
    """
    order = np.argsort(-observed_statistics, kind="stable")
    threshold = (observed_statistics[order] * (1 - _TIE))[:, None]
    reached, total = np.zeros(len(observed_statistics), np.int64), 0
    for block in resampled_statistics:
        largest = np.maximum.accumulate(block[order[::-1]], axis=0)[
            ::-1
        ]  # over this slice and all with smaller statistics
        reached += (largest >= threshold).sum(axis=1)
        total += block.shape[1]
    share = (1 + reached) / (total + 1)
    share = np.minimum(share + MONTE_CARLO_ERRORS * np.sqrt(share * (1 - share) / total), 1.0)
    adjusted = np.empty(len(observed_statistics))
    adjusted[order] = np.maximum.accumulate(share)
    return adjusted


def _pair_counts(predicates: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return the number of questions that satisfy both predicates of each pair and have a True `weight`, (p, p) int64;
    single predicates are on the diagonal.
    """
    counts: np.ndarray = np.rint(_pair_sums(predicates, weight)).astype(np.int64)
    return counts


def _pair_sums(predicates: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Return the sum of the weights of the questions that satisfy both predicates of each pair, (p, p) float64; single
    predicates are on the diagonal.
    """
    members = predicates.astype(np.float64)
    sums: np.ndarray = (members if weight is None else members * weight) @ members.T
    return sums


def _pairs_large_enough(sums: np.ndarray, total: float, minimum: int) -> np.ndarray:
    """Return which pairs of predicates have enough units inside and outside, (p, p) bool."""
    enough: np.ndarray = (sums >= minimum - 1e-9) & (total - sums >= minimum - 1e-9)
    return enough


def _slices_to_test(large_enough: np.ndarray, families: Sequence[str] | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the two predicates of each slice to test; a single predicate is given twice."""
    testable = np.triu(large_enough)
    if families is not None:
        same_family = np.asarray(families)[:, None] == np.asarray(families)[None, :]
        testable &= ~same_family | np.eye(len(large_enough), dtype=bool)
    first, second = np.nonzero(testable)
    return first, second


def _exceeds_single_predicates(
    inside_counts: np.ndarray,
    first_predicates: np.ndarray,
    second_predicates: np.ndarray,
    counts: np.ndarray,
    sums: np.ndarray,
    mean: float,
) -> np.ndarray:
    """Return which slices are single predicates, or pairs whose difference is farther from the mean of all questions
    than that of each of their two predicates.
    """
    sizes = np.diag(counts)
    alone = np.abs(np.divide(np.diag(sums), sizes, out=np.full(len(sizes), mean), where=sizes > 0) - mean)
    beyond: np.ndarray = (first_predicates == second_predicates) | (
        np.abs(inside_counts - mean) > np.maximum(alone[first_predicates], alone[second_predicates]) + 1e-12
    )
    return beyond


def _distinct_slices(order: np.ndarray, predicates: np.ndarray, tests: SliceTests) -> Iterator[int]:
    """Yield the slices in order, leaving out each slice with nearly the same questions as an earlier one."""
    masks: list[np.ndarray] = []
    for i in order.tolist():
        mask = predicates[tests.first[i]] & predicates[tests.second[i]]
        if not any((mask & other).sum() > MAX_OVERLAP * (mask | other).sum() for other in masks):
            masks.append(mask)
            yield i
