"""Intervals for figures whose unit is the question.

Labels of one question are alike: its passages are about one thing, and one person judges them in one go. So what is drawn
again is whole questions (a cluster bootstrap); drawing single labels again would make intervals far too narrow.
"""

from __future__ import annotations

import math

import numpy as np

from analysis.accuracy import wilson

RESAMPLES = 2000
LEVEL = 0.95
_DRAWS_PER_BLOCK = 1 << 22


def summed(values: np.ndarray, questions: np.ndarray) -> np.ndarray:
    """Sums by question. values (n,) or (n, f), questions (n,) any sortable labels -> (q,) or (q, f) float64."""
    values = np.asarray(values, np.float64)
    names, member = np.unique(np.asarray(questions), return_inverse=True)
    sums = np.zeros((len(names), *values.shape[1:]))
    np.add.at(sums, member, values)
    return sums


def resampled(sums: np.ndarray, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """Totals of questions that are drawn again with replacement. (q, f) float -> (resamples, f) float64."""
    rng = np.random.default_rng(seed)
    questions = len(sums)
    if questions == 0:
        return np.zeros((resamples, *sums.shape[1:]))
    rows = max(1, _DRAWS_PER_BLOCK // questions)
    blocks = [min(rows, resamples - start) for start in range(0, resamples, rows)]
    return np.concatenate(
        [rng.multinomial(questions, np.full(questions, 1 / questions), size=count) @ sums for count in blocks]
    )


def percentiles(drawn: np.ndarray, level: float = LEVEL) -> tuple[float | None, float | None]:
    """The middle `level` of bootstrap values. NaN, where a resample has no value, are left out; (None, None) where all are."""
    drawn = drawn[np.isfinite(drawn)]
    if not len(drawn):
        return None, None
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def ratio_error(top: np.ndarray, bottom: np.ndarray, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Standard error of sum(top) / sum(bottom) by drawing questions again, times sqrt(q / (q - 1)).

    The factor takes out that a resample varies less than a sample does (Efron and Tibshirani 1993, section 5.3).

    Args:
        top, bottom: (q,) sums by question, q >= 2.
    """
    top, bottom = np.asarray(top, np.float64), np.asarray(bottom, np.float64)
    drawn = resampled(np.stack([top, bottom], axis=1), resamples, seed)
    # Of few questions with small weights, a resample may be all but empty; none has a bottom of 0, for every question has items.
    return float(np.std(drawn[:, 0] / drawn[:, 1]) * math.sqrt(len(top) / (len(top) - 1)))


def share_interval(
    share: float, error: float, questions: int, level: float = LEVEL
) -> tuple[float | None, float | None]:
    """The interval of a share: Student's t with questions - 1 degrees of freedom on the scale of log odds.

    Chosen because it covers: in simulations with 10 to 80 questions and true shares from 0.02 to 0.7 it held the truth in 94
    to 98 of 100, where the percentile bootstrap fell to 88, and the studentised one to 69, with few questions or small shares.
    Where every question has the same share, 0 for instance, the bootstrap sees no spread; then it is Wilson's interval as if
    each question were a single observation.

    Args:
        error: standard error of the share, see `ratio_error`.
        questions: how many; (None, None) for fewer than 2.
    """
    from scipy.stats import t

    if questions < 2:
        return None, None
    if error <= 1e-12 or not 0 < share < 1:
        return wilson(share * questions, questions, level)
    centre = math.log(share / (1 - share))
    reach = float(t.ppf((1 + level) / 2, questions - 1)) * error / (share * (1 - share))
    return _from_log_odds(centre - reach), _from_log_odds(centre + reach)


def _from_log_odds(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0
