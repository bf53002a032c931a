"""Rank-biased overlap, compared with a plain implementation and values worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blindspot.analysis.overlap import rank_biased_overlap


def plain(a, b, p):
    """RBO_ext of two lists, term by term, down to the end of the shorter."""
    a, b = [x for x in a if x >= 0], [x for x in b if x >= 0]
    if not a and not b:
        return 1.0
    depth = min(len(a), len(b))
    if depth == 0:
        return np.nan
    agreement = [len(set(a[:d]) & set(b[:d])) / d for d in range(1, depth + 1)]
    return agreement[-1] * p**depth + (1 - p) / p * sum(value * p ** (d + 1) for d, value in enumerate(agreement))


def padded(rows, depth):
    return np.array([list(row) + [-1] * (depth - len(row)) for row in rows], dtype=np.int32).reshape(len(rows), depth)


@given(
    st.lists(st.tuples(*(st.lists(st.integers(0, 12), unique=True, max_size=9) for _ in "ab")), min_size=1, max_size=5),
    st.floats(0.05, 0.95),
)
def test_equals_the_plain_implementation(pairs, p):
    ours = rank_biased_overlap(padded([a for a, _ in pairs], 9), padded([b for _, b in pairs], 9), p)
    assert ours == pytest.approx([plain(a, b, p) for a, b in pairs], nan_ok=True)


def test_by_hand():
    same, other, turned = np.array([[1, 2]]), np.array([[3, 4]]), np.array([[2, 1]])
    assert rank_biased_overlap(same, same) == pytest.approx([1.0])
    assert rank_biased_overlap(same, other) == pytest.approx([0.0])
    # nothing shared at depth 1, everything at 2: (1 - p) / p * (1 * p^2) + p^2 = p
    assert rank_biased_overlap(same, turned, 0.9) == pytest.approx([0.9])


def test_runs_of_different_depth_and_many_rows():
    rng = np.random.default_rng(0)
    a, b = (np.argsort(rng.random((5000, 40)), axis=1)[:, :depth].astype(np.int32) for depth in (30, 20))
    ours = rank_biased_overlap(a, b)
    assert ours[[0, 4095, 4096, 4999]] == pytest.approx(
        [plain(a[i, :20].tolist(), b[i].tolist(), 0.9) for i in (0, 4095, 4096, 4999)]
    )


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="different questions"):
        rank_biased_overlap(np.zeros((2, 1), int), np.zeros((3, 1), int))
    with pytest.raises(ValueError, match="between 0 and 1"):
        rank_biased_overlap(np.zeros((1, 1), int), np.zeros((1, 1), int), 1.0)
    assert len(rank_biased_overlap(np.zeros((0, 5), int), np.zeros((0, 5), int))) == 0
