"""Intervals for measures whose sampling unit is the question.

The labels of one question resemble each other: its passages share a topic, and one person judges them together.
The bootstrap therefore resamples whole questions (a cluster bootstrap). Resampling single labels would give intervals
that are far too narrow.
"""

from __future__ import annotations

import math

import numpy as np

from blindspot.analysis.intervals import LEVEL, wilson

RESAMPLES = 2000
_DRAWS_PER_BLOCK = 1 << 22


def sums_by_question(values: np.ndarray, questions: np.ndarray) -> np.ndarray:
    """Return sums by question. values (n,) or (n, f), questions (n,) any sortable labels -> (q,) or (q, f) float64."""
    values = np.asarray(values, np.float64)
    names, member = np.unique(np.asarray(questions), return_inverse=True)
    sums = np.zeros((len(names), *values.shape[1:]))
    np.add.at(sums, member, values)
    return sums


def bootstrap_sums(sums: np.ndarray, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """Return the totals of bootstrap resamples of the questions. (q, f) float -> (resamples, f) float64."""
    rng = np.random.default_rng(seed)
    questions = len(sums)
    if questions == 0:
        return np.zeros((resamples, *sums.shape[1:]))
    rows = max(1, _DRAWS_PER_BLOCK // questions)
    blocks = [min(rows, resamples - start) for start in range(0, resamples, rows)]
    return np.concatenate(
        [rng.multinomial(questions, np.full(questions, 1 / questions), size=count) @ sums for count in blocks]
    )


def percentile_interval(draws: np.ndarray, confidence: float = LEVEL) -> tuple[float | None, float | None]:
    """Return the central interval of bootstrap values, ignoring NaN; (None, None) if all are NaN."""
    draws = draws[np.isfinite(draws)]
    if not len(draws):
        return None, None
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def ratio_error(numerator: np.ndarray, denominator: np.ndarray, resamples: int = RESAMPLES) -> float:
    """Return the bootstrap standard error of sum(top) / sum(bottom) when questions are resampled, times sqrt(q / (q -
    1)).

    The factor corrects for the fact that a resample varies less than a sample (Efron and Tibshirani 1993, section 5.3).

    Args:
        numerator, denominator: (q,) sums by question, q >= 2.
    """
    numerator, denominator = np.asarray(numerator, np.float64), np.asarray(denominator, np.float64)
    drawn = bootstrap_sums(np.stack([numerator, denominator], axis=1), resamples)
    # Every question has items, so no resample has a denominator of 0, even if few questions with small weights are
    # drawn.
    return float(np.std(drawn[:, 0] / drawn[:, 1]) * math.sqrt(len(numerator) / (len(numerator) - 1)))


def share_interval(
    share: float, error: float, question_count: int, confidence: float = LEVEL
) -> tuple[float | None, float | None]:
    """Return the interval of a share: Student's t with questions - 1 degrees of freedom on the log-odds scale.

    In simulations with 10 to 80 questions and true shares from 0.02 to 0.7, this interval covered the true share in 94
    to 98% of cases. With few questions or small shares, the percentile bootstrap covered as little as 88% and the
    studentised bootstrap 69%. If every question has the same share, 0 for instance, the bootstrap has no variance. The
    interval is then Wilson's, with each question as one observation.

    Args:
        error: standard error of the share, see `ratio_error`.
        question_count: number of questions; with fewer than 2 the interval is (None, None).
    """
    from scipy.stats import t

    if question_count < 2:
        return None, None
    if error <= 1e-12 or not 0 < share < 1:
        return wilson(share * question_count, question_count, confidence)
    centre = math.log(share / (1 - share))
    reach = float(t.ppf((1 + confidence) / 2, question_count - 1)) * error / (share * (1 - share))
    return _from_log_odds(centre - reach), _from_log_odds(centre + reach)


def _from_log_odds(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0
