"""Questions that are passages themselves: BEIR's ArguAna and Quora ask with documents, under the documents' ids.

Their convention leaves the passage with the question's own id out of the question's list (`ignore_identical_ids` in BEIR
and MTEB). A run that follows it says so in its manifest: `own_passage`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from blindspot.db.corpus import Corpus

LEFT_OUT = "left out"
"""The value of `own_passage` in the manifest of such a run."""


def own_rows(corpus: Corpus, question_ids: Sequence[str]) -> np.ndarray:
    """Return the row of the passage that has each question's own id, (q,) int64; -2 where there is none."""
    rows = corpus.ordinals(question_ids)
    return np.array([rows.get(id, -2) for id in question_ids], dtype=np.int64)


def without_own(ordinals: np.ndarray, own_rows: np.ndarray, k: int, *others: np.ndarray) -> list[np.ndarray]:
    """Return the lists without own passages, cut to k, and other matrices of the same shape alike.

    Args:
        ordinals: (q, k') passage rows, -1 where padded. own_rows: (q,) of `own_rows`.
    """
    is_own = ordinals == own_rows[:, None]
    order = np.argsort(is_own, axis=1, kind="stable")
    cut = order[:, :k]
    kept = np.take_along_axis(is_own, cut, axis=1)
    result = []
    for number, matrix in enumerate((ordinals, *others)):
        padding = -1 if number == 0 or matrix.dtype.kind == "i" else -np.inf
        result.append(np.where(kept, np.array(padding, matrix.dtype), np.take_along_axis(matrix, cut, axis=1)))
    return result
