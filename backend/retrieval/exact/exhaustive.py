"""Exhaustive search: compute the exact score of every row that could reach the k-th score.

The search is used for a question if its candidates are not proven to contain the true top k. Such questions have many
equal vectors, or more nearly equal vectors than candidates, near the k-th score.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from blindspot.backend.retrieval.exact.products import RoundedQueries
from blindspot.backend.retrieval.exact.scores import exact_pairs

if TYPE_CHECKING:
    import torch

MAX_PAIRS = 1 << 22  # pairs of question and row held for all questions together, beyond k for each question
PAIRS_PER_BLOCK = 1 << 24  # products compared at once, and numbers of the rows widened for them: 64 MiB each


@dataclass(frozen=True, slots=True)
class PassageBlock:
    """Rows (m, d) float16 on some device, from row `start` on; for l2 also their |p|^2 (m,) float32."""

    start: int
    rows: torch.Tensor
    squares: torch.Tensor | None


def search_exhaustively(
    blocks: Iterable[PassageBlock],
    vectors: np.ndarray,
    questions: np.ndarray,
    queries: RoundedQueries,
    k: int,
    minimum: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best rows of each question by exact score, ties by row: (q, k) int32 and float32.

    Args:
        blocks: all rows, in order.
        vectors: the same rows, (n, d) float16, n at least k.
        queries: the questions, rounded for a product in float32.
        minimum: (q,) float32, a score that at least k rows of each question reach.
    """
    import torch

    with torch.inference_mode():
        return _exact_best(blocks, vectors, questions, queries, k, minimum)


def _exact_best(blocks, vectors, questions, queries, k, minimum):
    import torch

    held, waiting, floors, wanted = _empty_pairs(), [], queries.product_lower_bound(minimum), queries.operand
    for block in blocks:
        per_piece = max(1, PAIRS_PER_BLOCK // max(len(questions), questions.shape[1]))
        for first in range(0, len(block.rows), per_piece):
            rows = block.rows[first : first + per_piece].float()
            wanted = wanted.to(rows.device)
            products = wanted @ rows.T
            if block.squares is not None:
                factors = torch.from_numpy(queries.factors).to(rows.device)
                products.mul_(factors[:, None]).sub_(block.squares[first : first + per_piece].to(rows.device))
            reached = products >= torch.from_numpy(_float32_below(floors)).to(rows.device)[:, None]
            which, columns = (part.cpu().numpy() for part in reached.nonzero(as_tuple=True))
            ordinals = (columns + block.start + first).astype(np.int32)
            waiting.append(
                (which.astype(np.int32), ordinals, exact_pairs(vectors, questions, which, ordinals, queries.similarity))
            )
            if sum(len(part[0]) for part in waiting) > MAX_PAIRS:
                held, waiting = _best_pairs([held, *waiting], k, len(questions)), []
                floors = np.maximum(floors, queries.product_lower_bound(_kth_score(held, k, minimum)))
    _, ordinals, scores = _best_pairs([held, *waiting], k, len(questions))
    return ordinals.reshape(-1, k), scores.reshape(-1, k)


def _best_pairs(parts: list[tuple[np.ndarray, ...]], k: int, question_count: int) -> tuple[np.ndarray, ...]:
    """Return question, row and score of the k best pairs of each question, in order."""
    which, ordinals, scores = (np.concatenate(part) for part in zip(*parts))
    order = np.lexsort((ordinals, -scores, which))
    which, ordinals, scores = which[order], ordinals[order], scores[order]
    counts = np.bincount(which, minlength=question_count)
    kept = np.arange(len(which)) - np.repeat(counts.cumsum() - counts, counts) < k
    return which[kept], ordinals[kept], scores[kept]


def _kth_score(best_pairs: tuple[np.ndarray, ...], k: int, minimum: np.ndarray) -> np.ndarray:
    """Return the k-th score of each question, (q,) float32, or `minimum` if the question has fewer scores."""
    which, _, scores = best_pairs
    counts = np.bincount(which, minlength=len(minimum))
    full, found = np.flatnonzero(counts >= k), minimum.copy()
    found[full] = scores[counts.cumsum()[full] - counts[full] + k - 1]
    return found


def _empty_pairs() -> tuple[np.ndarray, ...]:
    return np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32)


def _float32_below(values: np.ndarray) -> np.ndarray:
    near = values.astype(np.float32)
    return np.where(near > values, np.nextafter(near, np.float32(-np.inf)), near)
