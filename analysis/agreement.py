"""The agreement of annotators: Krippendorff's alpha for any number of annotators, Cohen's kappa for two.

Both measure agreement beyond chance: 1 is perfect agreement, 0 is agreement by chance, and a negative value is worse
than chance. Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability"; Cohen (1960), "A coefficient of
agreement for nominal scales". The intervals resample questions (see `blindspot.analysis.by_question`). They describe
the same annotators on other questions, not other annotators.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blindspot.analysis.by_question import RESAMPLES, bootstrap_sums, percentile_interval, sums_by_question
from blindspot.analysis.intervals import LEVEL


@dataclass(frozen=True, slots=True)
class Agreement:
    """Krippendorff's alpha or Cohen's kappa with its interval.

    value: None if it is undefined: no pair was judged twice, or all labels are the same.
    low, high: percentile bootstrap interval; None if value is None. It is too narrow with fewer than about 20
        questions. Without any disagreement it is the point 1, because every resample agrees as well.
    passages: number of (question, passage) pairs judged by two or more annotators. questions: number of their
        questions.
    agreed: share of these pairs on which all annotators gave the same label; None if there are no such pairs.
    """

    value: float | None
    low: float | None
    high: float | None
    passages: int
    questions: int
    agreed: float | None
    method: str


def alpha(
    counts: np.ndarray,
    questions: np.ndarray,
    units: np.ndarray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Agreement:
    """Return Krippendorff's alpha for nominal labels. An annotator need not judge every passage.

    Args:
        counts: (n, v) int, how many annotators gave passage n the label v. Passages with fewer than two judgements do
        not count.
        questions: (n,) the question of each passage, any sortable labels. units: (n,) the unit of observation of each
            question; None if each is its own.
    """
    counts, questions = np.asarray(counts), np.asarray(questions)
    units = questions if units is None else np.asarray(units)
    paired = counts.sum(axis=1) >= 2
    counts, questions, units = counts[paired], questions[paired], units[paired]
    agreed = float(((counts > 0).sum(axis=1) == 1).mean()) if len(counts) else None
    method = f"Krippendorff's alpha, nominal; units of questions drawn again {resamples} times, seed {seed}"
    about = (len(counts), len(np.unique(questions)), agreed, method)
    if (counts.sum(axis=0) > 0).sum() < 2:
        return Agreement(None, None, None, *about)
    import krippendorff

    value = float(krippendorff.alpha(value_counts=counts, level_of_measurement="nominal"))
    drawn = _alpha_of(bootstrap_sums(sums_by_question(_coincidences(counts), units), resamples, seed))
    low, high = percentile_interval(drawn, LEVEL)
    return Agreement(value, low, high, *about)


def kappa(
    labels_a: np.ndarray,
    labels_b: np.ndarray,
    questions: np.ndarray,
    units: np.ndarray | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Agreement:
    """Return Cohen's kappa of two annotators, unweighted.

    Args:
        labels_a, labels_b: (n,) labels as whole numbers from 0, one row for each passage that both judged.
        questions: (n,) the question of each. units: as in `alpha`.
    """
    labels_a, labels_b, questions = (
        np.asarray(labels_a, np.int64),
        np.asarray(labels_b, np.int64),
        np.asarray(questions),
    )
    units = questions if units is None else np.asarray(units)
    method = f"Cohen's kappa, unweighted; units of questions drawn again {resamples} times, seed {seed}"
    about = (
        len(labels_a),
        len(np.unique(questions)),
        float((labels_a == labels_b).mean()) if len(labels_a) else None,
        method,
    )
    if len(np.unique(np.concatenate([labels_a, labels_b]))) < 2:
        return Agreement(None, None, None, *about)
    width = int(max(labels_a.max(), labels_b.max())) + 1
    cells = np.eye(width * width)[labels_a * width + labels_b]
    value = float(_kappa_of(cells.sum(axis=0).reshape(1, width, width))[0])
    drawn = _kappa_of(bootstrap_sums(sums_by_question(cells, units), resamples, seed).reshape(-1, width, width))
    low, high = percentile_interval(drawn, LEVEL)
    return Agreement(value, low, high, *about)


def _coincidences(counts: np.ndarray) -> np.ndarray:
    """Return what each passage adds to the diagonal and to the margins of the coincidence matrix, (n, 1 + v)."""
    annotators = counts.sum(axis=1)
    alike = (counts * (counts - 1)).sum(axis=1) / (annotators - 1)
    return np.column_stack([alike, counts])


def _alpha_of(totals: np.ndarray) -> np.ndarray:
    """Return the alpha of each row of totals, (m, 1 + v) -> (m,); NaN where all labels are the same."""
    alike, margins = totals[:, 0], totals[:, 1:]
    n = margins.sum(axis=1)
    by_chance = n**2 - (margins**2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(by_chance > 0, 1 - (n - 1) * (n - alike) / by_chance, np.nan)


def _kappa_of(tables: np.ndarray) -> np.ndarray:
    """Return the kappa of each table, (m, v, v) -> (m,); NaN where all labels are the same."""
    n = tables.sum(axis=(1, 2))
    alike = np.trace(tables, axis1=1, axis2=2) / n
    by_chance = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1) / n**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(by_chance < 1, (alike - by_chance) / (1 - by_chance), np.nan)
