"""Compute the rank that an edited passage would have among the passages of a stored index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ROWS_PER_BLOCK = 32_768


@dataclass(frozen=True, slots=True)
class Attempt:
    """A passage to be ranked for a question.

    Attributes:
        question: row among the question vectors.
        passage: (d,) float16.
        without: rows of the index that do not compete, the stored gold passages among them.
        above: the number of passages that count as above whatever their score.
    """

    question: int
    passage: np.ndarray
    without: Sequence[int] = ()
    above: int = 0


@dataclass(frozen=True, slots=True)
class PassageRank:
    """The rank and the score of a passage for a question."""

    rank: int
    score: float


def ranks_of_passages(
    vectors: np.ndarray, questions: np.ndarray, attempts: Sequence[Attempt], similarity: str
) -> list[PassageRank]:
    """Return the rank and score of each attempt's passage. The rank is 1 + the number of stored passages with a higher
    score.

    The index is read once, block by block, for all attempts.

    Args:
        vectors: (n, d) float16, may be a memory map.
        questions: (q, d) float32.
        similarity: "dot" (also for cosine over unit vectors) or "l2" (score: minus the squared distance).
    """
    import torch

    if not attempts:
        return []
    result = np.array([1 + attempt.above for attempt in attempts], np.int64)
    owner = np.array([attempt.question for attempt in attempts])
    passages = np.stack([np.asarray(attempt.passage, np.float16) for attempt in attempts]).astype(np.float32)
    own = _scores(questions[owner], passages, similarity)
    thresholds = torch.from_numpy(own)
    without = [np.unique(np.asarray(attempt.without, np.int64)) for attempt in attempts]
    wanted = torch.from_numpy(np.ascontiguousarray(questions))
    for start in range(0, len(vectors), ROWS_PER_BLOCK):
        rows = torch.from_numpy(np.array(vectors[start : start + ROWS_PER_BLOCK])).float()
        scores = wanted @ rows.T
        if similarity == "l2":
            scores = 2 * scores - (rows * rows).sum(1) - (wanted * wanted).sum(1, keepdim=True)
        for number, question in enumerate(owner.tolist()):
            left_out = without[number]
            here = left_out[(left_out >= start) & (left_out < start + len(rows))] - start
            is_above = scores[question] > thresholds[number]
            result[number] += int(is_above.sum()) - int(is_above[torch.from_numpy(here)].sum())
    return [PassageRank(int(rank), float(score)) for rank, score in zip(result, own, strict=True)]


def _scores(questions: np.ndarray, passages: np.ndarray, similarity: str) -> np.ndarray:
    """Return the score of each pair of question (m, d) and passage (m, d), (m,) float32."""
    if similarity == "l2":
        return -((questions - passages) ** 2).sum(1).astype(np.float32)
    return np.einsum("md,md->m", questions, passages).astype(np.float32)
