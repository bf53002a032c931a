"""The result of the first, low-precision pass over all rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blindspot.db.records import Hits


@dataclass(frozen=True, slots=True)
class CandidateHits:
    """The k best of each question's candidates by exact score, ties ordered by row. upper_bounds: (q,) float64, an upper
    bound on the score of every row that is not a candidate.
    """

    hits: Hits
    upper_bounds: np.ndarray
