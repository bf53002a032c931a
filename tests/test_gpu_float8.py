"""Candidates from 8-bit floats, on CPU tensors: the bound holds for every pair, and the hits are those of exact search."""

import numpy as np
import pytest
import torch

from benchmarks.gpu import float8
from benchmarks.gpu.float8 import Float8Search, on_one_device, power_of_two, products
from blindspot.backend.retrieval.exact.gpu import GPUSearch
from blindspot.backend.retrieval.search import ExactSearch
from blindspot.db.errors import Refused


def topics(rows, questions, width=64, noise=0.3, scale=1.0, seed=0):
    """Vectors around a few directions, as an encoder makes them, and questions near some of the vectors."""
    rng = np.random.default_rng(seed)
    middles = rng.normal(size=(40, width))
    vectors = middles[rng.integers(0, 40, rows)] + noise * rng.normal(size=(rows, width))
    asked = vectors[rng.integers(0, rows, questions)] + 0.1 * rng.normal(size=(questions, width))
    return (scale * vectors).astype(np.float16), (scale * asked).astype(np.float32)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 300.0])
@pytest.mark.parametrize("kind", ["normal", "one large number", "subnormal numbers", "zeros"])
def test_no_product_is_further_from_the_true_one_than_the_bound(kind, scale):
    rng = np.random.default_rng(3)
    vectors, questions = rng.normal(size=(300, 48)), rng.normal(size=(20, 48))
    if kind == "one large number":
        vectors[7, 3], questions[:, 5] = 60, 60
    elif kind == "subnormal numbers":
        vectors[:, 1:] *= 1e-3
        questions[:, 1:] *= 1e-3
    elif kind == "zeros":
        vectors[:5], questions[:2] = 0, 0
    vectors, questions = (scale * vectors).astype(np.float16), (scale * questions).astype(np.float32)
    search = Float8Search(on_one_device(vectors, "cpu"))
    operand, shift, error = search.rounded(questions)
    found = products(search.rows[:300], operand, fine=True)[:, :20].double().numpy()
    true = vectors.astype(np.float64) @ questions.astype(np.float64).T
    assert (np.abs(true * shift - found) <= error).all()
    assert (error <= 0.2 * shift * search.norm * np.linalg.norm(questions, axis=1) + 1e-9).all()  # and says something


def test_hits_are_those_of_exact_search_whether_settled_or_not(monkeypatch):
    monkeypatch.setattr(float8, "CANDIDATES", 50)
    monkeypatch.setattr(float8, "SCORES_PER_BLOCK", 1 << 13)
    monkeypatch.setattr(float8, "QUESTIONS_PER_BLOCK", 16)
    rng, shares = np.random.default_rng(1), []
    isotropic = rng.normal(size=(2011, 64)).astype(np.float16), rng.normal(size=(20, 64)).astype(np.float32)
    for vectors, questions in (topics(2011, 37), topics(2011, 5, scale=50), isotropic):
        hits, settled = Float8Search(on_one_device(vectors, "cpu")).search(questions, 10)
        expected = ExactSearch(vectors, "dot", "cpu").search(questions, 10)
        np.testing.assert_array_equal(hits.ordinals, expected.ordinals)
        np.testing.assert_array_equal(hits.scores, expected.scores)
        shares.append(settled)
    assert shares[0] > 0.5 and shares[2] < 1, "some are settled, and some are searched again"


def test_equal_rows_and_more_candidates_than_rows():
    vectors = np.repeat(topics(20, 1)[0], 100, axis=0)
    questions = topics(20, 4)[1]
    for rows in (vectors, vectors[:77]):
        hits, _ = Float8Search(on_one_device(rows, "cpu")).search(questions, 30)
        np.testing.assert_array_equal(hits.ordinals, ExactSearch(rows, "dot", "cpu").search(questions, 30).ordinals)


def test_a_candidate_is_no_worse_than_what_the_bound_lets_outside():
    vectors, questions = topics(3000, 9, seed=5)
    found = Float8Search(on_one_device(vectors, "cpu")).propose(questions, 10)
    true = np.sort(vectors.astype(np.float64) @ questions.astype(np.float64).T, axis=0)
    assert (found.upper_bounds >= true[-float8.CANDIDATES - 1]).all(), "the best row outside is within the bound"


def test_a_chip_whose_sums_are_less_exact_makes_no_candidates(monkeypatch):
    monkeypatch.setattr(float8, "products", lambda rows, operand, fine=False: 0.9 * products(rows, operand, fine))
    with pytest.raises(Refused, match="sums of 8-bit products are wrong by 1.0e-01 on cpu; the bound says"):
        Float8Search(on_one_device(topics(40, 1)[0], "cpu"))


def test_rows_on_two_devices_are_refused():
    vectors = topics(40, 1)[0]
    search = on_one_device(vectors, "cpu")
    search.proposer = GPUSearch(vectors, "dot", ["cpu", "cpu"])
    for each in (search, ExactSearch(vectors, "dot", "cpu")):
        with pytest.raises(Refused, match="all rows on one GPU"):
            Float8Search(each)


def test_powers_of_two_use_the_range_of_e4m3():
    largest = torch.tensor([448.0, 449.0, 0.0, 1.0, 3e-5], dtype=torch.float64)
    factors = power_of_two(largest)
    assert factors[:4].tolist() == [1.0, 0.5, 1.0, 256.0]
    assert 224 < (largest * factors)[4] <= 448
