"""How far people agree: Krippendorff's alpha over all of them, Cohen's kappa of two.

Both say how much of the disagreement that chance would bring is absent: 1 is none left, 0 is no better than chance, below 0 is
worse. Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability"; Cohen (1960), "A coefficient of agreement for nominal
scales". Intervals draw questions again (see `analysis.by_question`): they say what the figure may be over other questions, judged
by the same people. How other people would agree, they do not say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.by_question import LEVEL, RESAMPLES, percentiles, resampled, summed


@dataclass(frozen=True, slots=True)
class Agreement:
    """Alpha or kappa with its interval.

    value: None where it is not defined: nothing was judged twice, or all labels are the same, so that chance agrees as well.
    low, high: percentile bootstrap; None where value is None. With fewer than about 20 questions it is too narrow. Where there
        was no disagreement at all it is the point 1: the bootstrap cannot see more.
    passages: (question, passage) pairs that count, each judged by two people or more. questions: of how many questions.
    agreed: share of these on which everybody gave the same label; None where there are none.
    """

    value: float | None
    low: float | None
    high: float | None
    passages: int
    questions: int
    agreed: float | None
    method: str


def alpha(
    counts: np.ndarray, questions: np.ndarray, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
) -> Agreement:
    """Krippendorff's alpha for nominal labels; people may be missing anywhere.

    Args:
        counts: (n, v) int, how many people gave passage n the label v. Passages that fewer than two judged do not count.
        questions: (n,) the question of each passage, any sortable labels.
    """
    counts, questions = np.asarray(counts), np.asarray(questions)
    paired = counts.sum(axis=1) >= 2
    counts, questions = counts[paired], questions[paired]
    agreed = float(((counts > 0).sum(axis=1) == 1).mean()) if len(counts) else None
    method = f"Krippendorff's alpha, nominal; questions drawn again {resamples} times, seed {seed}"
    about = (len(counts), len(np.unique(questions)), agreed, method)
    if (counts.sum(axis=0) > 0).sum() < 2:
        return Agreement(None, None, None, *about)
    import krippendorff

    value = float(krippendorff.alpha(value_counts=counts, level_of_measurement="nominal"))
    drawn = _alpha_of(resampled(summed(_coincidences(counts), questions), resamples, seed))
    low, high = percentiles(drawn, level)
    return Agreement(value, low, high, *about)


def kappa(
    a: np.ndarray, b: np.ndarray, questions: np.ndarray, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
) -> Agreement:
    """Cohen's kappa of two people, not weighted.

    Args:
        a, b: (n,) labels as whole numbers from 0, one row for each passage that both judged.
        questions: (n,) the question of each.
    """
    a, b, questions = np.asarray(a, np.int64), np.asarray(b, np.int64), np.asarray(questions)
    method = f"Cohen's kappa, unweighted; questions drawn again {resamples} times, seed {seed}"
    about = (len(a), len(np.unique(questions)), float((a == b).mean()) if len(a) else None, method)
    if len(np.unique(np.concatenate([a, b]))) < 2:
        return Agreement(None, None, None, *about)
    from statsmodels.stats.inter_rater import cohens_kappa

    width = int(max(a.max(), b.max())) + 1
    cells = np.eye(width * width)[a * width + b]
    value = float(cohens_kappa(cells.sum(axis=0).reshape(width, width), return_results=False))
    drawn = _kappa_of(resampled(summed(cells, questions), resamples, seed).reshape(-1, width, width))
    low, high = percentiles(drawn, level)
    return Agreement(value, low, high, *about)


def _coincidences(counts: np.ndarray) -> np.ndarray:
    """(n, 1 + v): what a passage adds to the diagonal of the coincidence matrix, and to each of its margins."""
    people = counts.sum(axis=1)
    alike = (counts * (counts - 1)).sum(axis=1) / (people - 1)
    return np.column_stack([alike, counts])


def _alpha_of(totals: np.ndarray) -> np.ndarray:
    """Alpha of each row of totals, (m, 1 + v) -> (m,); NaN where all labels are the same."""
    alike, margins = totals[:, 0], totals[:, 1:]
    n = margins.sum(axis=1)
    by_chance = n**2 - (margins**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(by_chance > 0, 1 - (n - 1) * (n - alike) / by_chance, np.nan)


def _kappa_of(tables: np.ndarray) -> np.ndarray:
    """Kappa of each table, (m, v, v) -> (m,); NaN where all labels are the same."""
    n = tables.sum(axis=(1, 2))
    alike = np.trace(tables, axis1=1, axis2=2) / n
    by_chance = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1) / n**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(by_chance < 1, (alike - by_chance) / (1 - by_chance), np.nan)
