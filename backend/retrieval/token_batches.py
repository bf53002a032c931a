"""Make batches of tokenised texts of similar length, padded to the longest text of each batch."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

Ids = list[list[int]]
"""The token ids of each text."""


def batch_rows(ids: Ids, tokens_per_batch: int) -> Iterator[np.ndarray]:
    """Yield the rows of each batch: texts of similar length, longest first, with about `tokens_per_batch` tokens in total."""
    lengths = np.array([len(row) for row in ids])
    order, done = np.argsort(-lengths, kind="stable"), 0
    while done < len(order):
        rows = order[done : done + max(1, tokens_per_batch // max(1, int(lengths[order[done]])))]
        yield rows
        done += len(rows)


def pad_tokens(ids: Ids, names: Collection[str], padding: int) -> dict[str, np.ndarray]:
    """Return the inputs `names` of a transformer for one batch, each (n, t) int64, padded on the right.

    Args:
        ids: the longest text first.
        names: of "input_ids", "attention_mask" and "token_type_ids".
        padding: the token id of padding.
    """
    mask = np.arange(len(ids[0])) < np.array([len(row) for row in ids])[:, None]
    tokens = np.full(mask.shape, padding, np.int64)
    tokens[mask] = [token for row in ids for token in row]
    inputs = {"input_ids": tokens, "attention_mask": mask.astype(np.int64), "token_type_ids": np.zeros_like(tokens)}
    return {name: inputs[name] for name in names}


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Return vectors (n, d) scaled to length 1; zero vectors stay unchanged."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
