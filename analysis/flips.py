"""The flip table of two runs over the same questions: which of the runs find a relevant passage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blindspot.analysis.accuracy import success_from_ranks

BOTH, ONLY_A, ONLY_B, NEITHER = range(4)
CELLS = ("both", "only_a", "only_b", "neither")
"""Names of the codes 0 to 3 that `flip_cells` returns."""


@dataclass(frozen=True, slots=True)
class FlipTable:
    """The number of questions for which both runs, only run A, only run B, or neither finds a relevant passage within
    the first k."""

    both: int
    only_a: int
    only_b: int
    neither: int

    @property
    def n(self) -> int:
        return self.both + self.only_a + self.only_b + self.neither


def flip_cells(first_ranks_a: np.ndarray, first_ranks_b: np.ndarray, k: int) -> np.ndarray:
    """Return the cell of each question, (q,) int8: 0 both runs, 1 only run A, 2 only run B, 3 neither.

    Args:
        first_ranks_a, first_ranks_b: (q,) ranks of the first relevant passage, 0 for none (`accuracy.first_hit`); one row is one
            question in both.
    """
    first_ranks_a, first_ranks_b = np.asarray(first_ranks_a), np.asarray(first_ranks_b)
    if first_ranks_a.shape != first_ranks_b.shape:
        raise ValueError(f"two runs over different questions: {first_ranks_a.shape} and {first_ranks_b.shape}")
    missed_a, missed_b = ~success_from_ranks(first_ranks_a, k), ~success_from_ranks(first_ranks_b, k)
    codes: np.ndarray = (2 * missed_a + missed_b).astype(np.int8)
    return codes


def count_cells(codes: np.ndarray) -> FlipTable:
    return FlipTable(*np.bincount(codes, minlength=4).tolist())


def flip_table(first_ranks_a: np.ndarray, first_ranks_b: np.ndarray, k: int) -> FlipTable:
    return count_cells(flip_cells(first_ranks_a, first_ranks_b, k))
