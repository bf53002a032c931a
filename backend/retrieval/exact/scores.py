"""Compute exact scores of given rows: float64 products of the stored float16 vectors, rounded once to float32."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blindspot.backend.retrieval.exact.keys import EMPTY, keys_of, rows_of, scores_of
from blindspot.backend.retrieval.exact.workers import run_in_threads, threads
from blindspot.backend.retrieval.retriever import pad_hits
from blindspot.db.records import Hits

FACTORS_PER_BLOCK = 1 << 17  # float64 factors of one thread: 1 MiB, so that they fit the processor's cache
FACTORS_PER_SHARE = 1 << 19  # of each of several threads: shorter calls would mostly wait for Python's lock


@dataclass(frozen=True, slots=True)
class CandidateHits:
    """The result of the first, low-precision pass over all rows: the k best of each question's candidates by exact
    score, ties ordered by row. upper_bounds: (q,) float64, an upper bound on the score of every row that is not a
    candidate.
    """

    hits: Hits
    upper_bounds: np.ndarray


def exact_scores(vectors: np.ndarray, questions: np.ndarray, ordinals: np.ndarray, similarity: str) -> np.ndarray:
    """Return the exact scores of the rows `ordinals` for their questions; -inf for -1.

    Args:
        vectors: (n, d) float16, may be a memory map.
        questions: (q, d) float32.
        ordinals: (q, m) int32.

    Returns:
        (q, m) float32. Equal rows of `vectors` get equal scores.
    """
    exact = np.empty(ordinals.shape, np.float32)
    factors = FACTORS_PER_BLOCK if threads() == 1 else FACTORS_PER_SHARE
    per_block = max(1, factors // max(1, ordinals.shape[1] * questions.shape[1]))
    starts, present = range(0, len(questions), per_block), ordinals >= 0
    last = (ordinals.shape[1] - present[:, ::-1].argmax(1)) * present.any(1)  # start of the padding of each row

    def score(starts) -> None:
        products = _Products(vectors, similarity)
        for start in starts:
            part = slice(start, start + per_block)
            used = int(last[part].max())
            exact[part, :used] = products(questions[part], ordinals[part, :used])

    run_in_threads(starts, score, min(threads(), len(starts)) or 1)
    exact[~present] = -np.inf
    return exact


def exact_best(vectors: np.ndarray, questions: np.ndarray, ordinals: np.ndarray, similarity: str, k: int) -> Hits:
    """Return the k best of the rows `ordinals` (q, m) by exact score, ties ordered by row, padded with -1 and -inf."""
    keys = keys_of(exact_scores(vectors, questions, ordinals, similarity), ordinals)
    keys[ordinals < 0] = EMPTY
    keys.sort(axis=1)
    best = keys[:, :k]
    hits = Hits(rows_of(best), np.where(best == EMPTY, np.float32(-np.inf), scores_of(best)))
    return hits if hits.k == k else pad_hits(hits, k)


def exact_pairs(
    vectors: np.ndarray, questions: np.ndarray, question_rows: np.ndarray, ordinals: np.ndarray, similarity: str
) -> np.ndarray:
    """Return the scores (m,) float32 of the rows `ordinals` (m,) for the questions `question_rows` (m,)."""
    exact, per_block = np.empty(len(question_rows), np.float32), max(1, FACTORS_PER_BLOCK // questions.shape[1])
    products = _Products(vectors, similarity)
    for start in range(0, len(question_rows), per_block):
        part = slice(start, start + per_block)
        exact[part] = products(questions[question_rows[part]], ordinals[part, None])[:, 0]
    return exact


class _Products:
    """Computes products in float64, in buffers that one thread reuses. Allocating memory for each block would take as
    much time as the products.
    """

    def __init__(self, vectors: np.ndarray, similarity: str):
        self._vectors, self._similarity = vectors, similarity
        self._stored = np.empty(0, np.float16)

    def __call__(self, questions: np.ndarray, ordinals: np.ndarray) -> np.ndarray:
        """Return the products (q, m) float64 of questions (q, d) with the rows (q, m)."""
        shape = (*ordinals.shape, self._vectors.shape[1])
        rows, asked = self._rows_as_float64(ordinals.reshape(-1)).reshape(shape), questions.astype(np.float64)
        if self._similarity == "dot":
            return np.einsum("qmd,qd->qm", rows, asked)
        rows -= asked[:, None, :]
        return -np.einsum("qmd,qmd->qm", rows, rows)

    def _rows_as_float64(self, ordinals: np.ndarray) -> np.ndarray:
        """Return the rows (m, d) in float64. The next call overwrites them. The conversion goes through float32,
        because torch converts float16 to float64 fastest in this way.
        """
        import torch

        if len(self._stored) < len(ordinals):
            self._stored = np.empty((len(ordinals), self._vectors.shape[1]), np.float16)
            self._single, self._double = torch.empty(self._stored.shape), torch.empty(self._stored.shape).double()
        count = len(ordinals)
        stored = np.take(self._vectors, ordinals, axis=0, mode="clip", out=self._stored[:count])
        return self._double[:count].copy_(self._single[:count].copy_(torch.from_numpy(stored))).numpy()
