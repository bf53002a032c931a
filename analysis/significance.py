"""Is the difference between two runs real? Paired tests and intervals over the same questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.accuracy import Estimate, macro_average, mean

RESAMPLES = 10_000
VALUES_PER_BLOCK = 1 << 24
FEW_SIZES = 256


def sign_flip(differences: np.ndarray, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Two-sided p of the paired sign-flip randomisation test that the mean difference is 0.

    p is (1 + the number of resamples at least as far from 0) / (resamples + 1), so it is never 0 and never too small
    (Phipson and Smyth 2010).

    Args:
        differences: (q,) float, run A's value minus run B's for each question.
    """
    differences = np.asarray(differences, dtype=np.float64)
    changed = np.abs(differences[differences != 0])
    observed = abs(differences.sum())
    rng = np.random.default_rng(seed)
    sizes, counts = np.unique(changed, return_counts=True)
    if len(sizes) <= FEW_SIZES:
        # As with success: the sum of equal sizes under random signs is a binomial draw.
        drawn = rng.binomial(counts, 0.5, size=(resamples, len(sizes)))
        sums = np.abs((2.0 * drawn - counts) @ sizes)
    else:
        sums = np.abs(_signed_sums(changed, resamples, rng))
    return float((1 + np.count_nonzero(sums >= observed * (1 - 1e-9))) / (resamples + 1))


def sign_flip_macro(differences: np.ndarray, groups: np.ndarray, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """The same test of the difference of macro averages: each question weighs 1 / (groups x questions of its group)."""
    if not len(differences):
        return 1.0
    _, member, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    return sign_flip(np.asarray(differences, np.float64) / sizes[member], resamples, seed)


def _signed_sums(sizes: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """(resamples,) float64: sums of the sizes under random signs."""
    rows = max(1, VALUES_PER_BLOCK // max(1, len(sizes)))
    blocks = [min(rows, resamples - start) for start in range(0, resamples, rows)]
    return np.concatenate([rng.choice((-1.0, 1.0), size=(count, len(sizes))) @ sizes for count in blocks])


def difference(
    a: np.ndarray,
    b: np.ndarray,
    groups: np.ndarray | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Estimate:
    """Mean of a - b over the same questions with a paired percentile bootstrap interval.

    Args:
        a, b: (q,) values of two runs, such as success.
        groups: (q,) relations; then the difference is that of the macro averages, resampled within each relation.
    """
    differences = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    if groups is None:
        return mean(differences, level, resamples, seed)
    return macro_average(differences, groups, level, resamples, seed)


def mcnemar(only_a: int, only_b: int) -> float:
    """Exact two-sided p of McNemar's test from the questions that only A and only B find; 1.0 where there are none."""
    from scipy.special import bdtr

    changed = only_a + only_b
    return min(1.0, 2.0 * float(bdtr(min(only_a, only_b), changed, 0.5))) if changed else 1.0


def holm(p_values: Sequence[float]) -> np.ndarray:
    """(m,) p values adjusted by Holm's step-down method for having looked at m of them: valid however they hang together."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted


def benjamini_yekutieli(p_values: Sequence[float]) -> np.ndarray:
    """(m,) p values adjusted for the share of false discoveries (Benjamini and Yekutieli 2001), however they hang together."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    ranks = np.arange(1, len(p) + 1)
    stepped = p[order] * len(p) * np.sum(1 / ranks) / ranks
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.minimum.accumulate(stepped[::-1])[::-1])
    return adjusted


@dataclass(frozen=True, slots=True)
class Difference:
    """Success of run A less that of run B over the same questions.

    estimate: the difference with its paired bootstrap interval, from -1 to 1.
    p: of the sign-flip test. p_mcnemar: exact; None for a macro average, where it has no meaning.
    only_a, only_b: questions that one run alone finds.
    p_adjusted: p after Holm's correction for the family it was looked at in; None outside a family.
    """

    estimate: Estimate
    p: float
    p_mcnemar: float | None
    only_a: int
    only_b: int
    p_adjusted: float | None = None

    @property
    def n(self) -> int:
        return self.estimate.n


def compare(
    found_a: np.ndarray,
    found_b: np.ndarray,
    groups: np.ndarray | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Difference:
    """Everything about one difference.

    Args:
        found_a, found_b: (q,) bool, row i the same question in both.
        groups: (q,) relations: then the difference is that of the macro averages.
    """
    found_a, found_b = np.asarray(found_a, bool), np.asarray(found_b, bool)
    if found_a.shape != found_b.shape:
        raise ValueError(f"two runs over different questions: {found_a.shape} and {found_b.shape}")
    values = found_a.astype(np.int8) - found_b
    only_a, only_b = int((values > 0).sum()), int((values < 0).sum())
    estimate = difference(found_a, found_b, groups, level, seed=seed)
    if groups is None:
        return Difference(estimate, sign_flip(values, resamples, seed), mcnemar(only_a, only_b), only_a, only_b)
    return Difference(estimate, sign_flip_macro(values, groups, resamples, seed), None, only_a, only_b)


def family(
    found_a: np.ndarray,
    found_b: np.ndarray,
    members: Mapping[str, np.ndarray],
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Difference]:
    """A difference for each group of questions, their p values adjusted together by Holm's method.

    Args:
        members: (m,) rows of each group, or (q,) bool.
    """
    found_a, found_b = np.asarray(found_a, bool), np.asarray(found_b, bool)
    made = {name: compare(found_a[rows], found_b[rows], None, level, resamples, seed) for name, rows in members.items()}
    adjusted = holm([each.p for each in made.values()])
    return {name: replace(each, p_adjusted=float(p)) for (name, each), p in zip(made.items(), adjusted, strict=True)}
