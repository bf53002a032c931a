"""Is the difference between two runs real? Paired tests and intervals over the same questions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.accuracy import Estimate, macro_average, mean

RESAMPLES = 10_000
VALUES_PER_BLOCK = 1 << 24


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
    if len(changed) and (changed == changed[0]).all():
        # All of one size, as with success: the sum of random signs is a binomial draw.
        sums = changed[0] * np.abs(2.0 * rng.binomial(len(changed), 0.5, size=resamples) - len(changed))
    else:
        sums = np.abs(_signed_sums(changed, resamples, rng))
    return float((1 + np.count_nonzero(sums >= observed * (1 - 1e-12))) / (resamples + 1))


def _signed_sums(sizes: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """(resamples,) float64: sums of the sizes under random signs."""
    rows = max(1, VALUES_PER_BLOCK // max(1, len(sizes)))
    blocks = [min(rows, resamples - start) for start in range(0, resamples, rows)]
    return np.concatenate([rng.choice((-1.0, 1.0), size=(count, len(sizes))) @ sizes for count in blocks])


def difference(a: np.ndarray, b: np.ndarray, groups: np.ndarray | None = None, level: float = 0.95,
               resamples: int = 2000, seed: int = 0) -> Estimate:
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
    from scipy.stats import binomtest

    changed = only_a + only_b
    return float(binomtest(only_a, changed, 0.5).pvalue) if changed else 1.0


def holm(p_values: Sequence[float]) -> np.ndarray:
    """(m,) p values adjusted by Holm's step-down method for having looked at m of them."""
    from statsmodels.stats.multitest import multipletests

    return multipletests(np.asarray(p_values, np.float64), method="holm")[1] if len(p_values) else np.zeros(0)
