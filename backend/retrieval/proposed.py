"""What a first pass over the rows hands on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Proposed:
    """Candidates of each question.

    ordinals: (q, m) int32, -1 where there are fewer; scores: (q, m) float32, exact; at_most: (q,) float64, what no row outside
    the candidates scores above.
    """

    ordinals: np.ndarray
    scores: np.ndarray
    at_most: np.ndarray
