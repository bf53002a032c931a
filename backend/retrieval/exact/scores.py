"""True scores of given rows: float64 products of the stored float16 vectors, rounded once to float32."""

from __future__ import annotations

import numpy as np

from backend.retrieval.exact.workers import share_out, threads

FACTORS_PER_BLOCK = 1 << 17  # float64 factors per thread: 1 MiB, so that they fit the processor's cache


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
    per_block = max(1, FACTORS_PER_BLOCK // max(1, ordinals.shape[1] * questions.shape[1]))

    def score(starts) -> None:
        for start in starts:
            rows = slice(start, start + per_block)
            used = int(last[rows].max())
            exact[rows, :used] = _products(
                vectors, questions[rows].astype(np.float64), ordinals[rows, :used], similarity
            )

    starts, present = range(0, len(questions), per_block), ordinals >= 0
    last = (ordinals.shape[1] - present[:, ::-1].argmax(1)) * present.any(1)  # start of the padding of each row
    share_out(starts, score, min(threads(), len(starts)) or 1)
    exact[~present] = -np.inf
    return exact


def exact_pairs(
    vectors: np.ndarray, questions: np.ndarray, which: np.ndarray, ordinals: np.ndarray, similarity: str
) -> np.ndarray:
    """Return the scores (m,) float32 of the rows `ordinals` (m,) for the questions `which` (m,)."""
    exact, per_block = np.empty(len(which), np.float32), max(1, FACTORS_PER_BLOCK // questions.shape[1])
    for start in range(0, len(which), per_block):
        part = slice(start, start + per_block)
        exact[part] = _products(vectors, questions[which[part]].astype(np.float64), ordinals[part, None], similarity)[
            :, 0
        ]
    return exact


def _products(vectors: np.ndarray, questions: np.ndarray, ordinals: np.ndarray, similarity: str) -> np.ndarray:
    """Return the products (q, m) float64 of float64 questions (q, d) with the rows (q, m)."""
    import torch

    found = np.take(vectors, ordinals, axis=0, mode="clip")
    found = torch.from_numpy(found).float().double().numpy()
    if similarity == "dot":
        return np.einsum("qmd,qd->qm", found, questions)
    found -= questions[:, None, :]
    return -np.einsum("qmd,qmd->qm", found, found)
