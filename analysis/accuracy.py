"""Measures of a run, from arrays alone.

Success@k is the share of questions with at least one relevant passage in the top k. DPR calls it "top-k retrieval
accuracy", and DPR and RocketQA also call it "recall". Recall@k here is the share of a question's relevant passages that
are in the top k. Columns are ranks: column j is rank j + 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

VALUES_PER_BLOCK = 1 << 22


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval.

    value, low, high: None if n is 0. n: number of questions. n_groups: number of groups in a macro average. method: the
    method of the interval in words, with its seed if it has one.
    """

    value: float | None
    n: int
    low: float | None
    high: float | None
    method: str
    n_groups: int | None = None

    @property
    def percent(self) -> tuple[float, float, float]:
        """Return the value and its interval in percent (for a difference, in percentage points). Raises ValueError if n
        is 0.
        """
        if self.value is None or self.low is None or self.high is None:
            raise ValueError("an estimate over no questions has no value")
        return 100 * self.value, 100 * self.low, 100 * self.high


def first_hit(relevant: np.ndarray) -> np.ndarray:
    """Return the rank of the first relevant passage of each row, from 1; 0 if there is none. (q, k) bool -> (q,)
    int32.
    """
    relevant = np.asarray(relevant, dtype=bool)
    if relevant.shape[1] == 0:
        return np.zeros(len(relevant), dtype=np.int32)
    return np.where(relevant.any(axis=1), relevant.argmax(axis=1) + 1, 0).astype(np.int32)


def found_by(first: np.ndarray, k: int) -> np.ndarray:
    """Return Success@k from `first_hit`'s ranks. (q,) int -> (q,) bool."""
    ranks = np.asarray(first)
    return np.asarray((ranks > 0) & (ranks <= _rank(k)))


def success_at(relevant: np.ndarray, k: int) -> np.ndarray:
    """Return whether each question has a relevant passage among the first k. (q, K) bool -> (q,) bool."""
    return np.asarray(np.asarray(relevant, dtype=bool)[:, : _rank(k)].any(axis=1))


def reciprocal_rank(relevant: np.ndarray, k: int = 10) -> np.ndarray:
    """Return 1 / rank of the first relevant passage if that rank is at most k, else 0. (q, K) bool -> (q,) float64."""
    first = first_hit(np.asarray(relevant)[:, : _rank(k)])
    reciprocal: np.ndarray = np.divide(1.0, first, out=np.zeros(len(first)), where=first > 0)
    return reciprocal


def recall_at(relevant: np.ndarray, n_relevant: np.ndarray, k: int) -> np.ndarray:
    """Return the share of a question's relevant passages that are in the top k.

    Args:
        relevant: (q, K) bool. No passage may occur twice in a row.
        n_relevant: (q,) int, the number of relevant passages of each question in the whole collection.

    Returns: (q,) float64; 0 for a question without relevant passages, as in trec_eval.
    """
    hits = np.asarray(relevant, dtype=bool)[:, : _rank(k)].sum(axis=1)
    n_relevant = np.asarray(n_relevant)
    shares: np.ndarray = np.divide(hits, n_relevant, out=np.zeros(len(hits)), where=n_relevant > 0)
    return shares


def average_precision(relevant: np.ndarray, n_relevant: np.ndarray, k: int) -> np.ndarray:
    """Return the average precision of each question: the sum of the precision at the rank of each relevant passage in
    the top k, divided by the number of relevant passages (trec_eval's `map_cut`). Its mean over questions is MAP@k.

    Arguments as in `recall_at`. Returns: (q,) float64.
    """
    relevant = np.asarray(relevant, dtype=bool)[:, : _rank(k)]
    precision = relevant.cumsum(axis=1) / np.arange(1, relevant.shape[1] + 1)
    n_relevant = np.asarray(n_relevant)
    sums = np.where(relevant, precision, 0.0).sum(axis=1)
    averages: np.ndarray = np.divide(sums, n_relevant, out=np.zeros(len(sums)), where=n_relevant > 0)
    return averages


def r_precision(relevant: np.ndarray, n_relevant: np.ndarray) -> np.ndarray:
    """Return the share of relevant passages among the first R, where R is the number of relevant passages of the
    question. If R is larger than the width of `relevant`, the missing ranks count as not relevant.

    Arguments as in `recall_at`. Returns: (q,) float64.
    """
    relevant, n_relevant = np.asarray(relevant, dtype=bool), np.asarray(n_relevant)
    within = np.arange(relevant.shape[1]) < n_relevant[:, None]
    found = (relevant & within).sum(axis=1)
    shares: np.ndarray = np.divide(found, n_relevant, out=np.zeros(len(found)), where=n_relevant > 0)
    return shares


def ndcg_at(grades: np.ndarray, ideal: np.ndarray, k: int) -> np.ndarray:
    """Return the normalised discounted cumulative gain of the first k (Järvelin and Kekäläinen 2002, in trec_eval's
    form: the gain is the grade, the discount is log2(rank + 1)).

    Args:
        grades: (q, K) grades of the hits, 0 for a passage that is not relevant.
        ideal: (q, m) grades of all relevant passages of each question, falling along a row, padded with 0.

    Returns: (q,) float64; 0 for a question without relevant passages, as in trec_eval.
    """
    gain, best = (_discounted(np.asarray(each)[:, : _rank(k)]) for each in (grades, ideal))
    normalised: np.ndarray = np.divide(gain, best, out=np.zeros(len(gain)), where=best > 0)
    return normalised


def _discounted(grades: np.ndarray) -> np.ndarray:
    discounts = np.log2(np.arange(2, grades.shape[1] + 2))
    gains: np.ndarray = (grades / discounts).sum(axis=1)
    return gains


def wilson(successes: float, n: int, level: float = 0.95) -> tuple[float | None, float | None]:
    """Return Wilson's score interval for a proportion (Wilson 1927); (None, None) if n is 0.

    statsmodels' `proportion_confint(method="wilson")` gives the same interval. A page or report shows hundreds of
    intervals: one
    takes 71 microseconds there and 1 here, and the import adds a second to each `blindspot report`. A test compares the
    two.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} trials are impossible")
    if n == 0:
        return None, None
    z2 = _normal_quantile(level) ** 2
    p = successes / n
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (p * (1 - p) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    low, high = centre - half, centre + half
    return 0.0 if successes == 0 else float(low), 1.0 if successes == n else float(high)


def proportion(values: np.ndarray, level: float = 0.95) -> Estimate:
    """Return the share of True with Wilson's interval. (q,) bool."""
    values = np.asarray(values, dtype=bool)
    n, successes = len(values), int(values.sum())
    low, high = wilson(successes, n, level)
    return Estimate(successes / n if n else None, n, low, high, "Wilson")


def summarise(values: np.ndarray, seed: int = 0) -> Estimate:
    """Return the mean over questions: with Wilson's interval for bool values, else with a bootstrap interval."""
    return proportion(values) if values.dtype == np.bool_ else mean(values, seed=seed)


def macro_average(
    values: np.ndarray,
    groups: np.ndarray,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Estimate:
    """Return the mean over groups of each group's mean (EntityQuestions' average over relations).

    The interval is a percentile bootstrap that resamples the questions within each group. A resample of n questions
    varies less than a sample, by (n - 1) / n, so the deviations of a group are scaled by the square root of n / (n -
    1): with groups of two to five questions, the interval covered 0.80 to 0.90 without the factor. A group of one
    question has no variation. All such groups are resampled as one group, which also counts the differences between
    them and is therefore conservative. If every value of every group is the same, the interval is a point.

    Args:
        values: (q,) bool or float, no NaN.
        groups: (q,) any sortable labels, such as relation ids.

    Returns: an Estimate with n_groups; value None without questions.
    """
    values, groups = np.asarray(values), np.asarray(groups)
    if values.shape != groups.shape or values.ndim != 1:
        raise ValueError(f"values {values.shape} and groups {groups.shape} must be one-dimensional and of equal length")
    method = f"stratified bootstrap, {resamples} resamples, seed {seed}"
    if len(values) == 0:
        return Estimate(None, 0, None, None, method, 0)
    names, member = np.unique(groups, return_inverse=True)
    sizes = np.bincount(member)
    means = np.bincount(member, weights=values) / sizes
    rng = np.random.default_rng(seed)
    drawn = np.zeros(resamples)
    single = sizes[member] == 1
    for group in np.flatnonzero(sizes > 1):
        drawn += _resampled_deviations(values[member == group], resamples, rng)
    if single.any():
        drawn += single.sum() * _resampled_deviations(values[single], resamples, rng)
    low, high = means.mean() + np.quantile(drawn / len(names), [(1 - level) / 2, (1 + level) / 2])
    low, high = max(low, values.min()), min(high, values.max())
    return Estimate(float(means.mean()), len(values), float(low), float(high), method, len(names))


def mean(values: np.ndarray, level: float = 0.95, resamples: int = 2000, seed: int = 0) -> Estimate:
    """Return the mean of (q,) float values, such as reciprocal ranks, with a percentile bootstrap interval; value None
    without values.
    """
    macro = macro_average(values, np.zeros(len(values), dtype=int), level, resamples, seed)
    return Estimate(macro.value, macro.n, macro.low, macro.high, f"bootstrap, {resamples} resamples, seed {seed}")


def _resampled_deviations(values: np.ndarray, resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Return deviations of resampled means from the mean, with the variance of a sample's mean. (n,) -> (resamples,)
    float64.

    The counts of the distinct values in a resample are multinomial. Success has two values and a reciprocal rank
    eleven, so drawing the counts gives the same bootstrap much faster.
    """
    n = len(values)
    distinct, counts = np.unique(values, return_counts=True)
    # In blocks, because a measure such as nDCG can have as many distinct values as there are questions.
    rows = max(1, VALUES_PER_BLOCK // len(distinct))
    blocks = [min(rows, resamples - start) for start in range(0, resamples, rows)]
    chances, points = counts / n, distinct.astype(np.float64)
    means = np.concatenate([rng.multinomial(n, chances, size=size) @ points / n for size in blocks])
    deviations: np.ndarray = (means - values.mean()) * np.sqrt(n / max(n - 1, 1))
    return deviations


def _normal_quantile(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"level {level} is not between 0 and 1")
    return NormalDist().inv_cdf((1 + level) / 2)


def _rank(k: int) -> int:
    if k < 1:
        raise ValueError(f"k is {k}; ranks start at 1")
    return k
