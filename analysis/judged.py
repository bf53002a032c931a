"""How much of a run is judged, and its accuracy by the original relevance and by the relevance corrected with labels.

Arrays are (q, k): row i is a question, column j is rank j + 1. `labels` holds codes of settled labels. A label is
settled by adjudication or because all annotators agree. Unsure and disputed pairs are not settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.accuracy import Estimate, mean, proportion, success_at

NONE, POSITIVE, OTHER = 0, 1, 2
"""Codes of labels: not settled; positive (the passage answers the question); settled as related or negative, so the
passage does not answer.
"""


@dataclass(frozen=True, slots=True)
class JudgedFigures:
    """The figures of a run at one cut-off k. All of them except `judged` are Success@k with Wilson's interval, over the
    same questions.

    judged: Judged@k, the mean over questions with its interval; questions without hits do not count in its n. original:
    Success@k by the relevance before labels. corrected: Success@k by the corrected relevance. lower_bound, upper_bound:
    corrected Success@k if no unjudged passage were relevant, and if every one were. Further
        labels cannot move the figure beyond them. They are not a confidence interval.
    """

    k: int
    judged: Estimate
    original: Estimate
    corrected: Estimate
    lower_bound: Estimate
    upper_bound: Estimate


def is_judged(gold: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return whether each hit is judged: it is gold, or its label is settled. (q, k) bool."""
    judged: np.ndarray = np.asarray(gold, bool) | (np.asarray(labels) != NONE)
    return judged


def judged_at(judged_mask: np.ndarray, present: np.ndarray, k: int) -> np.ndarray:
    """Return Judged@k: the share of a question's first k hits that are judged.

    For a question with fewer than k hits, it is the share of the hits that the question has, as in ir_measures.

    Args:
        judged_mask: (q, K) bool. present: (q, K) bool, False where a row is padded.

    Returns: (q,) float64, NaN for a row without hits.
    """
    if k < 1:
        raise ValueError(f"k is {k}; ranks start at 1")
    present = np.asarray(present, bool)[:, :k]
    counts = present.sum(axis=1)
    n_judged = (np.asarray(judged_mask, bool)[:, :k] & present).sum(axis=1)
    shares: np.ndarray = np.divide(n_judged, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return shares


def corrected_relevance(relevant: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the relevance corrected by labels: the settled label if there is one, else the original relevance. (q, k)
    bool.

    Args:
        relevant: (q, k) bool, by gold or by answers. A label can remove a passage that contains an answer only by
        chance.
    """
    labels = np.asarray(labels)
    result: np.ndarray = (np.asarray(relevant, bool) & (labels != OTHER)) | (labels == POSITIVE)
    return result


def relevance_bounds(
    relevant: np.ndarray, gold: np.ndarray, labels: np.ndarray, present: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the corrected relevance if no unjudged passage were relevant, and if every one were. Two (q, k) bool.

    A passage that contains an answer but is neither gold nor labelled counts as unjudged. A gold passage without an
    answer counts as judged. It is relevant only if relevance is by gold.
    """
    known, right = is_judged(gold, labels), corrected_relevance(relevant, labels)
    return right & known, right | (~known & np.asarray(present, bool))


def judged_figures(
    relevant: np.ndarray,
    gold: np.ndarray,
    labels: np.ndarray,
    present: np.ndarray,
    ks: Sequence[int],
    units: np.ndarray | None = None,
) -> list[JudgedFigures]:
    """Return the figures at each cut-off; a cut-off must not be deeper than the run. (q, K) arrays, as above; units (q,)
    int, the unit of observation of each question.
    """
    units = np.arange(len(labels)) if units is None else units
    known, right = is_judged(gold, labels), corrected_relevance(relevant, labels)
    lower, upper = relevance_bounds(relevant, gold, labels, present)
    result = []
    for k in ks:
        shares = judged_at(known, present, k)
        result.append(
            JudgedFigures(
                k,
                mean(shares[np.isfinite(shares)], units[np.isfinite(shares)]),
                *(proportion(success_at(each, k), units) for each in (relevant, right, lower, upper)),
            )
        )
    return result
