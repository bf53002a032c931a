"""Exact nearest neighbours in the original vector space, computed in blocks. The two-dimensional coordinates of a map
are never used here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

Similarity = Literal["dot", "cosine", "l2"]
SIMILARITIES: tuple[str, ...] = get_args(Similarity)
_ROWS = 16_384
_SPARE = 16  # candidates beyond k that are compared in float64


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The nearest rows of each query, nearest first; ties by row.

    Attributes:
        rows: (q, k) int64.
        similarity: (q, k) float32: the product, the cosine, or the negative distance for l2, so that a higher value always means
            nearer.
    """

    rows: np.ndarray
    similarity: np.ndarray


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Return the rows scaled to unit length; a row of zeros stays zero. (n, d) -> (n, d) float32."""
    vectors = np.asarray(vectors, dtype=np.float32)
    scaled: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return scaled


def nearest_rows(
    queries: np.ndarray,
    vectors: np.ndarray,
    k: int,
    similarity: Similarity = "cosine",
    excluded_rows: np.ndarray | None = None,
) -> Neighbours:
    """Return the k nearest rows of `vectors` to each query. Candidates are selected in float32, and then ordered in
    float64.

    Args:
        queries: (q, d) float. vectors: (n, d) float16 or float32, maybe a memory map; read once, in blocks.
        excluded_rows: (q,) int, a row to exclude for query i (the query itself); -1 for none.

    Raises: ValueError if there are fewer than k rows.
    """
    query_vectors, queries = np.asarray(queries), _prepare_vectors(queries, similarity)
    remaining = len(vectors) - (
        0 if excluded_rows is None or not len(excluded_rows) else int(np.max(np.asarray(excluded_rows) >= 0))
    )
    if not 1 <= k <= remaining:
        raise ValueError(f"k is {k}; it must be from 1 to {remaining}, the number of other rows")
    wide = min(k + _SPARE, remaining)
    rows = np.empty((len(queries), 0), np.int64)
    similarities = np.empty((len(queries), 0), np.float32)
    for start in range(0, len(vectors), _ROWS):
        values = _similarities(queries, _prepare_vectors(vectors[start : start + _ROWS], similarity), similarity)
        block_rows = np.broadcast_to(np.arange(start, start + values.shape[1]), values.shape)
        if excluded_rows is not None:
            values[block_rows == np.asarray(excluded_rows)[:, None]] = -np.inf
        rows, similarities = np.concatenate([rows, block_rows], axis=1), np.concatenate([similarities, values], axis=1)
        order = _top_columns(similarities, rows, wide)
        rows, similarities = np.take_along_axis(rows, order, 1), np.take_along_axis(similarities, order, 1)
    exact = np.stack(
        [_exact_similarities(query, np.asarray(vectors[row]), similarity) for query, row in zip(query_vectors, rows)]
    )
    order = _top_columns(exact, rows, k)
    return Neighbours(np.take_along_axis(rows, order, 1), np.take_along_axis(exact, order, 1).astype(np.float32))


def _exact_similarities(query: np.ndarray, vectors: np.ndarray, similarity: Similarity) -> np.ndarray:
    """Return exact similarities, (d,) and (m, d) -> (m,) float64."""
    query, vectors = query.astype(np.float64), vectors.astype(np.float64)
    values: np.ndarray
    if similarity == "l2":
        values = -np.linalg.norm(vectors - query, axis=1)
    elif similarity == "dot":
        values = vectors @ query
    else:
        values = vectors @ query / np.maximum(np.linalg.norm(vectors, axis=1) * np.linalg.norm(query), 1e-24)
    return values


def _similarities(queries: np.ndarray, vectors: np.ndarray, similarity: Similarity) -> np.ndarray:
    """Return similarities, (q, d) and (n, d), at unit length for cosine -> (q, n) float32: the product, or the
    negative l2 distance.
    """
    product: np.ndarray = queries @ vectors.T
    if similarity != "l2":
        return product
    squared = np.sum(queries**2, axis=1)[:, None] + np.sum(vectors**2, axis=1)[None] - 2 * product
    distances: np.ndarray = np.sqrt(np.maximum(squared, 0))
    return -distances


def _prepare_vectors(vectors: np.ndarray, similarity: Similarity) -> np.ndarray:
    if similarity not in SIMILARITIES:
        raise ValueError(f"similarity must be one of {', '.join(SIMILARITIES)}, not {similarity!r}")
    return unit_vectors(vectors) if similarity == "cosine" else np.asarray(vectors, dtype=np.float32)


def _top_columns(values: np.ndarray, rows: np.ndarray, k: int) -> np.ndarray:
    """Return the columns of the k highest values in each row, highest first; ties by column."""
    k = min(k, values.shape[1])
    kth = np.partition(values, values.shape[1] - k, axis=1)[:, values.shape[1] - k]
    order = np.empty((len(values), k), np.int64)
    for line, (value, row, threshold) in enumerate(zip(values, rows, kth)):
        near = np.flatnonzero(value >= threshold)
        order[line] = near[np.lexsort((row[near], -value[near]))[:k]]
    return order
