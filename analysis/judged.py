"""How much of a run was judged, and its accuracy before and after labels correct what counts as relevant.

Arrays are (q, k): row i is a question, column j is rank j + 1. `labels` holds codes: what is settled of a pair, by adjudication or
because all who judged it agree. Unsure and disputed pairs are not settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.accuracy import Estimate, mean, proportion, success_at

NONE, POSITIVE, OTHER = 0, 1, 2
"""Codes of labels: not settled; answers the question; settled as related or negative, which does not answer it."""


@dataclass(frozen=True, slots=True)
class JudgedFigures:
    """A run at one cut-off. All but `judged` are Success@k with Wilson's interval, over the same questions.

    judged: Judged@k, the mean over questions, with a bootstrap interval; its n leaves out questions without a hit.
    original: by the relevance that was there before labels. corrected: with labels.
    least, most: corrected, were every passage that nobody judged not relevant, or relevant. They bound what labels can still
        change; they are no confidence interval.
    """

    k: int
    judged: Estimate
    original: Estimate
    corrected: Estimate
    least: Estimate
    most: Estimate


def is_judged(gold: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Whether anybody has said what a hit is: it is gold, or its label is settled. (q, k) bool."""
    judged: np.ndarray = np.asarray(gold, bool) | (np.asarray(labels) != NONE)
    return judged


def judged_at(judged: np.ndarray, present: np.ndarray, k: int) -> np.ndarray:
    """Judged@k: the share of a question's first k hits that were judged.

    A row shorter than k is measured by the hits that it has, as ir_measures does.

    Args:
        judged: (q, K) bool. present: (q, K) bool, False where a row is padded.

    Returns: (q,) float64, NaN for a row without hits.
    """
    if k < 1:
        raise ValueError(f"k is {k}; ranks start at 1")
    present = np.asarray(present, bool)[:, :k]
    counts = present.sum(axis=1)
    found = (np.asarray(judged, bool)[:, :k] & present).sum(axis=1)
    shares: np.ndarray = np.divide(found, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return shares


def corrected(relevant: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Relevance as corrected by labels: a settled label counts, else what was there before. (q, k) bool.

    Args:
        relevant: (q, k) bool, by gold or by answers. A passage that holds an answer by chance and was judged so is taken out.
    """
    labels = np.asarray(labels)
    result: np.ndarray = (np.asarray(relevant, bool) & (labels != OTHER)) | (labels == POSITIVE)
    return result


def bounds(
    relevant: np.ndarray, gold: np.ndarray, labels: np.ndarray, present: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Corrected relevance, were everything that nobody judged not relevant, and were it relevant. Two (q, k) bool.

    A passage that holds an answer and is neither gold nor judged counts as not judged. A gold passage without an answer is
    judged, and is relevant only where relevance is gold.
    """
    known, right = is_judged(gold, labels), corrected(relevant, labels)
    return right & known, right | (~known & np.asarray(present, bool))


def figures(
    relevant: np.ndarray, gold: np.ndarray, labels: np.ndarray, present: np.ndarray, ks: Sequence[int], seed: int = 0
) -> list[JudgedFigures]:
    """All of these at each cut-off, which must not be deeper than the run. (q, K) arrays, as above."""
    known, right = is_judged(gold, labels), corrected(relevant, labels)
    least, most = bounds(relevant, gold, labels, present)
    made = []
    for k in ks:
        shares = judged_at(known, present, k)
        made.append(
            JudgedFigures(
                k,
                mean(shares[np.isfinite(shares)], seed=seed),
                *(proportion(success_at(each, k)) for each in (relevant, right, least, most)),
            )
        )
    return made
