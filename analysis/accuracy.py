"""Measures of a run, computed from arrays alone.

Success@k is the share of questions with at least one relevant passage in the top k. DPR calls it "top-k retrieval
accuracy", and DPR and RocketQA also call it "recall". Recall@k here is the share of a question's relevant passages that
are in the top k. In every array, column j is rank j + 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blindspot.analysis.intervals import LEVEL, mean_interval


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval.

    `value`, `low` and `high` are None if `n` is 0. `low` and `high` are also None where there are too few observations
    for an interval. `n` is the number of questions. `units` is the number of units of observation, such as facts; it is
    None if each question is a unit. `n_groups` is the number of groups in a macro average. `method` names the method of
    the interval.
    """

    value: float | None
    n: int
    low: float | None
    high: float | None
    method: str
    n_groups: int | None = None
    units: int | None = None

    @property
    def n_units(self) -> int:
        """The number of independent observations."""
        return self.n if self.units is None else self.units

    @property
    def percent(self) -> tuple[float, float, float]:
        """Return the value and its interval in per cent (for a difference, in percentage points). Raises ValueError if
        n is 0, or if there are too few observations for an interval.
        """
        if self.value is None or self.low is None or self.high is None:
            raise ValueError("an estimate without an interval has none in percent")
        return 100 * self.value, 100 * self.low, 100 * self.high


def first_hit(relevant: np.ndarray) -> np.ndarray:
    """Return the rank (from 1) of the first relevant passage in each row, and 0 for a row without one. (q, k) bool ->
    (q,) int32.
    """
    relevant = np.asarray(relevant, dtype=bool)
    if relevant.shape[1] == 0:
        return np.zeros(len(relevant), dtype=np.int32)
    return np.where(relevant.any(axis=1), relevant.argmax(axis=1) + 1, 0).astype(np.int32)


def success_from_ranks(first_ranks: np.ndarray, k: int) -> np.ndarray:
    """Return Success@k from `first_hit`'s ranks. (q,) int -> (q,) bool."""
    ranks = np.asarray(first_ranks)
    return np.asarray((ranks > 0) & (ranks <= _checked_cutoff(k)))


def success_at(relevant: np.ndarray, k: int) -> np.ndarray:
    """Return whether each question has a relevant passage among the first k. (q, K) bool -> (q,) bool."""
    return np.asarray(np.asarray(relevant, dtype=bool)[:, : _checked_cutoff(k)].any(axis=1))


def reciprocal_rank(relevant: np.ndarray, k: int = 10) -> np.ndarray:
    """Return 1 / rank of the first relevant passage if that rank is at most k, else 0. (q, K) bool -> (q,) float64."""
    first = first_hit(np.asarray(relevant)[:, : _checked_cutoff(k)])
    reciprocal: np.ndarray = np.divide(1.0, first, out=np.zeros(len(first)), where=first > 0)
    return reciprocal


def recall_at(relevant: np.ndarray, n_relevant: np.ndarray, k: int) -> np.ndarray:
    """Return the share of a question's relevant passages that are in the top k.

    Args:
        relevant: (q, K) bool. No passage may occur twice in a row.
        n_relevant: (q,) int, the number of relevant passages of each question in the whole collection.

    Returns: (q,) float64; 0 for a question without relevant passages, as in trec_eval.
    """
    hits = np.asarray(relevant, dtype=bool)[:, : _checked_cutoff(k)].sum(axis=1)
    n_relevant = np.asarray(n_relevant)
    shares: np.ndarray = np.divide(hits, n_relevant, out=np.zeros(len(hits)), where=n_relevant > 0)
    return shares


def average_precision(relevant: np.ndarray, n_relevant: np.ndarray, k: int) -> np.ndarray:
    """Return the average precision of each question: the sum of the precision at the rank of each relevant passage in
    the top k, divided by the number of relevant passages (trec_eval's `map_cut`). Its mean over questions is MAP@k.

    Arguments as in `recall_at`. Returns: (q,) float64.
    """
    relevant = np.asarray(relevant, dtype=bool)[:, : _checked_cutoff(k)]
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
    gain, best = (_discounted_gain(np.asarray(each)[:, : _checked_cutoff(k)]) for each in (grades, ideal))
    normalised: np.ndarray = np.divide(gain, best, out=np.zeros(len(gain)), where=best > 0)
    return normalised


def _discounted_gain(grades: np.ndarray) -> np.ndarray:
    discounts = np.log2(np.arange(2, grades.shape[1] + 2))
    gains: np.ndarray = (grades / discounts).sum(axis=1)
    return gains


def proportion(values: np.ndarray, units: np.ndarray | None = None, confidence: float = LEVEL) -> Estimate:
    """Return the share of values that are True. values: (q,) bool; units: (q,) int, see `blindspot.analysis.intervals`."""
    return mean(np.asarray(values, dtype=bool), units, confidence)


def mean(values: np.ndarray, units: np.ndarray | None = None, confidence: float = LEVEL) -> Estimate:
    """Return the mean of values from 0 to 1, such as successes or reciprocal ranks. The value is None if there are no
    values.

    Args:
        values: (q,) bool or float. units: (q,) int, the unit of observation of each question; None if each question is
            its own.
    """
    return _estimate(values, units, None, False, confidence)


def macro_average(values: np.ndarray, groups: np.ndarray, units: np.ndarray | None = None) -> Estimate:
    """Return the mean over groups of each group's mean (EntityQuestions' average over relations).

    The interval describes the mean over exactly these groups: only the questions within each group count as sampled. If
    each group lies within one unit of observation, the groups themselves count as sampled, and the interval describes
    groups of this kind.

    Args:
        values: (q,) bool or float from 0 to 1, no NaN. units: (q,) int.
        groups: (q,) any sortable labels, such as relation ids.

    Returns: an Estimate with n_groups; value None without questions.
    """
    return _estimate(values, units, groups, False, LEVEL)


def mean_difference(
    values: np.ndarray, units: np.ndarray | None = None, groups: np.ndarray | None = None, confidence: float = LEVEL
) -> Estimate:
    """Return the mean of paired differences from -1 to 1; with groups, the difference of the macro averages."""
    return _estimate(values, units, groups, True, confidence)


def _estimate(
    values: np.ndarray, units: np.ndarray | None, groups: np.ndarray | None, is_signed: bool, confidence: float
) -> Estimate:
    values = np.asarray(values)
    if groups is not None and (values.shape != np.shape(groups) or values.ndim != 1):
        raise ValueError(
            f"values {values.shape} and groups {np.shape(groups)} must be one-dimensional and of equal length"
        )
    n_groups = None if groups is None else len(np.unique(groups))
    if not len(values):
        return Estimate(None, 0, None, None, "none: no questions", n_groups, 0)
    found = mean_interval(values, units, groups, is_signed, confidence)
    return Estimate(found.mean, len(values), found.low, found.high, found.method, n_groups, found.units)


def _checked_cutoff(k: int) -> int:
    if k < 1:
        raise ValueError(f"k is {k}; ranks start at 1")
    return k
