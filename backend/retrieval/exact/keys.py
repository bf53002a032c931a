"""Pack a score and its row into one int64 key, so that a single sort orders by score and then by row.

Ascending keys mean descending scores and, for equal scores, ascending rows. NumPy sorts int64 with vector instructions,
which is several times as fast as sorting by two arrays.
"""

from __future__ import annotations

import numpy as np

EMPTY = np.iinfo(np.int64).max  # sorts after every key
LAST_ROW = (1 << 32) - 1


def keys_of(scores: np.ndarray, rows: np.ndarray | int) -> np.ndarray:
    """Return the int64 keys of float32 scores and their rows (from 0 to LAST_ROW)."""
    without_minus_zero = scores + np.float32(0)
    return (~_order_preserving(without_minus_zero.view(np.int32))).astype(np.int64) << 32 | rows


def scores_of(keys: np.ndarray) -> np.ndarray:
    """Return the float32 scores in the keys."""
    return _order_preserving(~(keys >> 32).astype(np.int32)).view(np.float32)


def rows_of(keys: np.ndarray) -> np.ndarray:
    """Return the int32 rows in the keys."""
    return (keys & LAST_ROW).astype(np.int32)


def _order_preserving(bits: np.ndarray) -> np.ndarray:
    """Map the bits (int32) of float32 numbers to integers with the same order as the numbers. The mapping is its own
    inverse.

    Positive floats have the same order as their bits, and negative floats the reverse order.
    """
    return bits ^ ((bits >> 31) & np.int32(0x7FFFFFFF))
