"""Handle questions that are themselves passages of the collection. In BEIR's ArguAna and Quora, the queries are
documents and have the documents' ids.

For them, BEIR and MTEB remove the passage with the question's own id from the ranking (`ignore_identical_ids`). The
manifest of a run states whether this was done: `own_passage`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blindspot.db.corpus import Corpus

LEFT_OUT = "left out"
"""The value of `own_passage` in the manifest of such a run."""


def own_rows(corpus: Corpus, question_ids: Sequence[str]) -> np.ndarray:
    """Return for each question the row of the passage with the same id, (q,) int64; -2 if there is none."""
    rows = corpus.ordinals(question_ids)
    return np.array([rows.get(id, -2) for id in question_ids], dtype=np.int64)


def without_own(ordinals: np.ndarray, own_rows: np.ndarray, k: int, *others: np.ndarray) -> list[np.ndarray]:
    """Remove each question's own passage from its hits and cut the lists to k. Other matrices of the same shape, such
    as scores, are cut in the same way.

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
