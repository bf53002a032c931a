"""The result of a first pass over the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blindspot.db.records import Hits


@dataclass(frozen=True, slots=True)
class CandidateHits:
    """The best k of each question's candidates by exact score, ties by row. at_most (q,) float64 is an upper bound on
    the score of every row outside the candidates.
    """

    hits: Hits
    at_most: np.ndarray
