"""What a first pass over the rows hands on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from db.records import Hits


@dataclass(frozen=True, slots=True)
class Proposed:
    """The best k of each question's candidates by exact score, ties by ordinal, and at_most (q,) float64: what no row outside the
    candidates scores above."""

    hits: Hits
    at_most: np.ndarray
