"""The rank that an edited passage would have in a stored index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ROWS_PER_BLOCK = 32_768


@dataclass(frozen=True, slots=True)
class Attempt:
    """A passage to be ranked for a question.

    question: row among the question vectors. passage: (d,) float16. without: rows of the index that do not compete,
    the stored gold passages among them. above: the number of passages that count as above whatever their score.
    """

    question: int
    passage: np.ndarray
    without: Sequence[int] = ()
    above: int = 0


def ranks(vectors: np.ndarray, questions: np.ndarray, attempts: Sequence[Attempt], similarity: str) -> np.ndarray:
    """Return the rank of each attempt's passage, (m,) int64: 1 + the stored passages with a higher score.

    The index is read once, block by block, for all attempts.

    Args:
        vectors: (n, d) float16, may be a memory map.
        questions: (q, d) float32.
        similarity: "dot" (also for cosine over unit vectors) or "l2" (score: minus the squared distance).
    """
    import torch

    result = np.array([1 + attempt.above for attempt in attempts], np.int64)
    if not attempts:
        return result
    owner = np.array([attempt.question for attempt in attempts])
    passages = np.stack([np.asarray(attempt.passage, np.float16) for attempt in attempts]).astype(np.float32)
    thresholds = torch.from_numpy(_scores(questions[owner], passages, similarity))
    without = [np.unique(np.asarray(attempt.without, np.int64)) for attempt in attempts]
    wanted = torch.from_numpy(np.ascontiguousarray(questions.T))
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        rows = torch.from_numpy(np.array(vectors[start : start + ROWS_PER_BLOCK])).float()
        scores = rows @ wanted
        if similarity == "l2":
            scores = 2 * scores - (rows * rows).sum(1, keepdim=True) - (wanted * wanted).sum(0)
        for number, question in enumerate(owner.tolist()):
            column = scores[:, question]
            left_out = without[number]
            here = left_out[(left_out >= start) & (left_out < start + len(rows))] - start
            is_above = column > thresholds[number]
            result[number] += int(is_above.sum()) - int(is_above[torch.from_numpy(here)].sum())
    return result


def _scores(questions: np.ndarray, passages: np.ndarray, similarity: str) -> np.ndarray:
    """Return the scores (m,) float32 of passages (m, d) for questions (m, d), pair by pair."""
    if similarity == "l2":
        return -((questions - passages) ** 2).sum(1).astype(np.float32)
    return np.einsum("md,md->m", questions, passages).astype(np.float32)
