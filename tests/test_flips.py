"""The flip table of two runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blindspot.analysis.flips import BOTH, CELLS, NEITHER, ONLY_A, ONLY_B, FlipTable, flip_cells, flip_table

FIRST_A = np.array([1, 3, 0, 0, 9, 5])
FIRST_B = np.array([2, 0, 4, 0, 9, 6])


def test_by_hand():
    codes = flip_cells(FIRST_A, FIRST_B, 5)
    assert codes.tolist() == [BOTH, ONLY_A, ONLY_B, NEITHER, NEITHER, ONLY_A]
    assert codes.dtype == np.int8
    assert flip_table(FIRST_A, FIRST_B, 5) == FlipTable(both=1, only_a=2, only_b=1, neither=2)
    assert [np.flatnonzero(codes == CELLS.index(name)).tolist() for name in CELLS] == [[0], [1, 5], [2], [3, 4]]


def test_runs_over_different_questions_are_refused():
    with pytest.raises(ValueError, match="different questions"):
        flip_table(FIRST_A, FIRST_B[:3], 5)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6))), st.integers(1, 6))
def test_every_question_is_in_one_cell_and_swapping_runs_swaps_cells(pairs, k):
    a, b = (np.array([pair[i] for pair in pairs], dtype=np.int32) for i in (0, 1))
    table, swapped = flip_table(a, b, k), flip_table(b, a, k)
    assert table.n == len(pairs)
    assert swapped == FlipTable(table.both, table.only_b, table.only_a, table.neither)
    found = [(0 < x <= k, 0 < y <= k) for x, y in pairs]
    assert table == FlipTable(
        *(found.count(cell) for cell in [(True, True), (True, False), (False, True), (False, False)])
    )
