"""What a retriever is. BM25, dense, hybrid, an imported run and a remote engine all look the same from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from db.records import Hits


@runtime_checkable
class Retriever(Protocol):
    name: str

    def search(self, questions: Sequence[str], k: int) -> Hits:
        """The k best passages of each question, best first, ties by ordinal; short rows padded with -1."""
        ...


@runtime_checkable
class Scorer(Retriever, Protocol):
    """A retriever that can also score any passage, which exact fusion needs."""

    def score(self, questions: Sequence[str], ordinals: np.ndarray) -> np.ndarray:
        """Exact scores (q, m) float32 of the passages `ordinals` (q, m) int32; 0 rows of -1 score -inf."""
        ...


def top_k(ordinals: np.ndarray, scores: np.ndarray, k: int) -> Hits:
    """Order each row by score, ties by ordinal, and keep k.

    Args:
        ordinals: (q, m) int32, -1 where empty, no ordinal twice in a row.
        scores: (q, m) float32.

    Returns:
        Hits of width k; rows shorter than k end in -1 and -inf.
    """
    scores = np.where(ordinals < 0, -np.inf, scores).astype(np.float32)
    last = np.where(ordinals < 0, np.iinfo(np.int32).max, ordinals)
    order = np.lexsort((last, -scores), axis=1)[:, :k]
    hits = Hits(np.take_along_axis(ordinals, order, 1).astype(np.int32), np.take_along_axis(scores, order, 1))
    return hits if hits.k == k else pad(hits, k)


def pad(hits: Hits, k: int) -> Hits:
    """Widen to k columns with -1 and -inf."""
    missing = ((0, 0), (0, k - hits.k))
    return Hits(
        np.pad(hits.ordinals, missing, constant_values=-1), np.pad(hits.scores, missing, constant_values=-np.inf)
    )
