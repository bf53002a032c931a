"""The bound on a product's error: it holds, and it is tight enough to be useful."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from blindspot.backend.retrieval.exact.gpu import _padded_products
from blindspot.backend.retrieval.exact.products import Precision, RoundedQueries, extent_of, merge_extents
from blindspot.db.errors import Refused

PRECISIONS = [Precision("float32", "float32"), Precision("float16", "float16"), Precision("bfloat16", "bfloat16")]


def products(vectors, rounded):
    """(q, n) products in the precision's own types, float64."""
    rows = torch.from_numpy(vectors)
    if rounded.precision.operands == "float16":
        return _padded_products(rows, rounded.operand, torch.float16)[: len(rows)].T.double().numpy()
    return (rounded.operand @ rows.to(rounded.operand.dtype).T).double().numpy()


def extent(vectors, squares=False):
    norm, lost, found = extent_of(torch.from_numpy(vectors))
    return merge_extents([(norm, lost, found.numpy())], squares, vectors.shape[1])


@pytest.mark.parametrize("precision", PRECISIONS, ids=lambda precision: precision.operands)
@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**31),
    of_rows=st.integers(-6, 4),
    of_questions=st.integers(-12, 12),
    width=st.sampled_from([1, 8, 384, 768]),
)
def test_no_true_score_lies_above_what_its_product_allows(precision, seed, of_rows, of_questions, width):
    rng = np.random.default_rng(seed)
    vectors = (rng.normal(size=(200, width)) * 10.0**of_rows).clip(-60000, 60000).astype(np.float16)
    questions = (rng.normal(size=(5, width)) * 10.0**of_questions).astype(np.float32)
    questions[0] = 0
    rounded = RoundedQueries(questions, "dot", precision, extent(vectors))
    found, true = products(vectors, rounded), questions.astype(np.float64) @ vectors.astype(np.float64).T
    assert np.isfinite(found).all()
    for column in range(len(vectors)):
        assert (true[:, column] <= rounded.score_upper_bound(found[:, column])).all()
        assert (found[:, column] >= rounded.product_lower_bound(true[:, column].astype(np.float32))).all()


@pytest.mark.parametrize("precision, relative", [(PRECISIONS[0], 1e-4), (PRECISIONS[1], 1e-3), (PRECISIONS[2], 5e-3)])
def test_the_bound_is_narrow_for_vectors_of_unit_length(precision, relative):
    rng = np.random.default_rng(1)
    vectors, questions = rng.normal(size=(500, 384)), rng.normal(size=(9, 384))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    questions /= np.linalg.norm(questions, axis=1, keepdims=True)
    rounded = RoundedQueries(questions.astype(np.float32), "dot", precision, extent(vectors.astype(np.float16)))
    assert (rounded.score_upper_bound(np.zeros(9, np.float32)) < relative).all()


def test_squared_distances_keep_their_bound():
    rng = np.random.default_rng(2)
    vectors, questions = (
        rng.normal(3, size=(400, 64)).astype(np.float16),
        rng.normal(3, size=(7, 64)).astype(np.float32),
    )
    measured = extent(vectors, squares=True)
    rounded = RoundedQueries(questions, "l2", PRECISIONS[0], measured)
    found = rounded.operand.numpy() @ vectors.astype(np.float32).T * rounded.factors[:, None] - measured.squares
    true = -((questions[:, None].astype(np.float64) - vectors[None]) ** 2).sum(2)
    for column in range(len(vectors)):
        assert (true[:, column] <= rounded.score_upper_bound(found[:, column])).all()
        assert (found[:, column] >= rounded.product_lower_bound(true[:, column].astype(np.float32))).all()


def test_nothing_outside_is_minus_infinity():
    rounded = RoundedQueries(np.ones((2, 3), np.float32), "dot", PRECISIONS[2], extent(np.ones((4, 3), np.float16)))
    assert np.isneginf(rounded.score_upper_bound(np.full(2, -np.inf, np.float32))).all()


def test_a_row_that_is_not_finite_is_named():
    good, bad = np.ones((10, 4), np.float16), np.ones((10, 4), np.float16)
    bad[3, 1] = np.inf
    parts = [
        (*extent_of(torch.from_numpy(rows))[:2], extent_of(torch.from_numpy(rows))[2].numpy()) for rows in (good, bad)
    ]
    with pytest.raises(Refused, match="row 13 contains NaN or infinity"):
        merge_extents(parts, False, 4)
