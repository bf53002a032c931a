"""The order of passages with equal scores. Evaluation tools break ties differently, so their measures can differ."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blindspot.db.errors import Refused

TIES = {
    "id": "equal scores are ordered by passage id",
    "row": "equal scores are ordered by the passage's row in the collection",
    "file": "equal scores keep the order of the file",
}


def check_ties(ties: str) -> None:
    """Raise Refused for an unknown tie-breaking order."""
    if ties not in TIES:
        raise Refused(f"--ties must be one of {', '.join(TIES)}, not {ties!r}")


def tied_order(scores: np.ndarray, rows: np.ndarray, ids: Sequence[str], ties: str) -> np.ndarray:
    """Return the positions of hits sorted by descending score, with ties broken as `ties` says.

    Args:
        scores, rows: (k,) of one question's hits: scores, and rows of the collection.
        ids: their passage ids, compared as text, character by character.
    """
    if ties == "file":
        return np.argsort(-scores, kind="stable")
    keys = rows if ties == "row" else np.argsort(np.argsort(np.array(ids, dtype=object), kind="stable"), kind="stable")
    return np.lexsort((keys, -scores))
