"""Exact search against brute force in float64."""

import numpy as np
import pytest

from backend.retrieval import search as module
from backend.retrieval.retriever import top_k
from backend.retrieval.search import ExactSearch
from db.errors import Refused


def brute_force(vectors, questions, k, similarity="dot"):
    rows, wanted = vectors.astype(np.float64), questions.astype(np.float64)
    if similarity == "dot":
        scores = wanted @ rows.T
    else:
        scores = -((wanted[:, None, :] - rows[None, :, :]) ** 2).sum(2)
    scores = scores.astype(np.float32)
    order = np.stack([np.lexsort((np.arange(len(rows)), -row)) for row in scores])[:, :k]
    return order, np.take_along_axis(scores, order, 1)


@pytest.mark.parametrize("similarity", ["dot", "l2"])
@pytest.mark.parametrize("scale", [0.05, 3.0])  # unit-like vectors, and dot products near DPR's 80
def test_equals_brute_force(similarity, scale, monkeypatch):
    monkeypatch.setattr(module, "SCORES_PER_BLOCK", 1 << 14)  # several blocks
    rng = np.random.default_rng(1)
    vectors = rng.normal(scale=scale, size=(5000, 48)).astype(np.float16)
    questions = rng.normal(scale=scale, size=(37, 48)).astype(np.float32)
    hits = ExactSearch(vectors, similarity, "cpu").search(questions, 100)
    ordinals, scores = brute_force(vectors, questions, 100, similarity)
    np.testing.assert_array_equal(hits.ordinals, ordinals)
    np.testing.assert_allclose(hits.scores, scores, rtol=1e-6, atol=1e-6)
    assert hits.ordinals.dtype == np.int32 and hits.scores.dtype == np.float32


def test_equal_vectors_are_ordered_by_ordinal_even_beyond_the_margin():
    rng = np.random.default_rng(2)
    distinct = rng.normal(size=(7, 16)).astype(np.float16)
    vectors = distinct[rng.integers(0, 7, size=3000)]  # every vector stands some 400 times
    questions = rng.normal(size=(9, 16)).astype(np.float32)
    hits = ExactSearch(vectors, "dot", "cpu").search(questions, 50)
    np.testing.assert_array_equal(hits.ordinals, brute_force(vectors, questions, 50)[0])


def test_scores_that_differ_by_less_than_float32_can_tell_are_still_in_true_order():
    vectors = np.zeros((600, 8), np.float16)
    vectors[:, 0], vectors[:, 1] = 100, np.arange(600) % 13 * np.float16(1e-3)
    questions = np.array([[1000.0, 1.0, 0, 0, 0, 0, 0, 0]], np.float32)  # 100000 and a thousandth: 17 bits apart
    hits = ExactSearch(vectors, "dot", "cpu").search(questions, 20)
    np.testing.assert_array_equal(hits.ordinals, brute_force(vectors, questions, 20)[0])


def test_more_hits_than_passages_are_padded():
    vectors = np.eye(3, dtype=np.float16)
    hits = ExactSearch(vectors, "dot", "cpu").search(np.ones((2, 3), np.float32), 5)
    assert hits.ordinals.tolist() == [[0, 1, 2, -1, -1]] * 2
    assert np.isneginf(hits.scores[:, 3:]).all()


def test_score_is_the_true_product_and_minus_infinity_for_padding():
    vectors = np.arange(12, dtype=np.float16).reshape(4, 3)
    search = ExactSearch(vectors, "dot", "cpu")
    scores = search.score(np.array([[1, 2, 3]], np.float32), np.array([[3, -1, 0]], np.int32))
    assert scores[0].tolist() == [9 + 20 + 33, -np.inf, 0 + 2 + 6]


@pytest.mark.parametrize("questions, says", [
    (np.ones((1, 4), np.float32), "dimensions"),
    (np.full((1, 3), np.nan, np.float32), "NaN"),
])
def test_bad_questions_are_refused(questions, says):
    with pytest.raises(Refused, match=says):
        ExactSearch(np.eye(3, dtype=np.float16), "dot", "cpu").search(questions, 1)


def test_bad_vectors_are_refused():
    with pytest.raises(Refused, match="float16"):
        ExactSearch(np.eye(3, dtype=np.float32))


def test_top_k_orders_ties_by_ordinal_and_puts_padding_last():
    ordinals = np.array([[9, -1, 4, 7]], np.int32)
    hits = top_k(ordinals, np.array([[1.0, 5.0, 1.0, 2.0]], np.float32), 6)
    assert hits.ordinals.tolist() == [[7, 4, 9, -1, -1, -1]]
    assert hits.scores[0, :3].tolist() == [2, 1, 1]
