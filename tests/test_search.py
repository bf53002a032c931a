"""Exact search, compared with brute force in float64."""

import threading

import numpy as np
import pytest
import torch

from blindspot.backend.retrieval.exact import cpu as sieve
from blindspot.backend.retrieval.exact import exhaustive, workers
from blindspot.backend.retrieval.exact.candidate_table import CandidateTable
from blindspot.backend.retrieval.exact.keys import EMPTY, LAST_ROW, keys_of, rows_of, scores_of
from blindspot.backend.retrieval.exact.products import Precision, RoundedQueries, extent_of, merge_extents
from blindspot.backend.retrieval.exact.scores import exact_best
from blindspot.backend.retrieval.retriever import top_k
from blindspot.backend.retrieval.search import ExactSearch
from blindspot.db.errors import Refused
from tests.ties import brute_force


@pytest.mark.parametrize("similarity", ["dot", "l2"])
@pytest.mark.parametrize("scale", [0.05, 3.0])  # unit-like vectors, and dot products near DPR's 80
def test_equals_brute_force(similarity, scale, monkeypatch):
    monkeypatch.setattr(sieve, "BYTES_PER_BLOCK", 1 << 17)  # several blocks
    rng = np.random.default_rng(1)
    vectors = rng.normal(scale=scale, size=(5000, 48)).astype(np.float16)
    questions = rng.normal(scale=scale, size=(37, 48)).astype(np.float32)
    hits = ExactSearch(vectors, similarity, "cpu").search(questions, 100)
    ordinals, scores = brute_force(vectors, questions, 100, similarity)
    np.testing.assert_array_equal(hits.ordinals, ordinals)
    np.testing.assert_allclose(hits.scores, scores, rtol=1e-6, atol=1e-6)
    assert hits.ordinals.dtype == np.int32 and hits.scores.dtype == np.float32


@pytest.mark.parametrize("sixteen_bits", [True, False], ids=["bfloat16", "float32"])
@pytest.mark.parametrize(
    "questions", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(300, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "length", [pytest.param(1.0, marks=pytest.mark.slow), 12.0]
)  # cosines, and DPR's: vectors of length 10 to 13, scores near 80
def test_real_vectors_in_every_precision(real_data, monkeypatch, sixteen_bits, questions, length):
    """Compare with the float32 product, whose order equals that of the true scores except where it cannot distinguish
    two.
    """
    monkeypatch.setattr(sieve, "multiplies_bfloat16", lambda: sixteen_bits)
    stored = np.load(real_data / "minilm_passages.npy", mmap_mode="r")
    vectors = (stored[:30_000].astype(np.float32) * length).astype(np.float16)
    asked = stored[40_000 : 40_000 + 7 * questions : 7].astype(np.float32) * length
    hits = ExactSearch(vectors, "dot", "cpu").search(asked, 100)
    product = asked @ vectors.astype(np.float32).T
    error = 1e-6 * length**2
    kth = np.partition(product, -100, axis=1)[:, -100]
    for row, ordinals, scores, least in zip(product, hits.ordinals, hits.scores, kth):
        np.testing.assert_allclose(row[ordinals], scores, atol=error)
        assert (
            set(np.flatnonzero(row > least + 2 * error)) <= set(ordinals) and (row[ordinals] >= least - 2 * error).all()
        )
    assert (np.diff(hits.scores, axis=1) <= 0).all()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_any_number_of_threads_finds_the_same(monkeypatch, count):
    monkeypatch.setattr(sieve, "BYTES_PER_BLOCK", 1 << 15)
    monkeypatch.setattr(sieve, "threads", lambda: count)
    rng = np.random.default_rng(4)
    vectors, questions = rng.normal(size=(9000, 32)).astype(np.float16), rng.normal(size=(21, 32)).astype(np.float32)
    before = torch.get_num_threads()
    hits = ExactSearch(vectors, "dot", "cpu").search(questions, 30)
    np.testing.assert_array_equal(hits.ordinals, brute_force(vectors, questions, 30)[0])
    assert torch.get_num_threads() == before


def test_searches_at_the_same_time_do_not_mix():
    rng = np.random.default_rng(5)
    vectors = rng.normal(size=(6000, 24)).astype(np.float16)
    asked = [rng.normal(size=(q, 24)).astype(np.float32) for q in (1, 7, 64, 1, 130)]
    search, found = ExactSearch(vectors, "dot", "cpu"), {}
    running = [threading.Thread(target=lambda i=i: found.update({i: search.search(asked[i], 20)})) for i in range(5)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
    for i, questions in enumerate(asked):
        np.testing.assert_array_equal(found[i].ordinals, brute_force(vectors, questions, 20)[0])


def test_an_error_in_one_thread_stops_the_others_and_is_raised():
    taken = []

    def work(items):
        for item in items:
            taken.append(item)
            if item == 3:
                raise Refused("no more")

    with pytest.raises(Refused, match="no more"):
        workers.run_in_threads(range(10_000_000), work, 3)
    assert len(taken) < 10_000_000


@pytest.mark.parametrize("values", [(0, 0), (1, 0), (0, 1)], ids=["all zero", "question zero", "vectors zero"])
def test_scores_that_are_all_equal(values):
    vectors, questions = np.full((5000, 16), values[1], np.float16), np.full((2, 16), values[0], np.float32)
    for asked in (questions, questions[:1]):
        assert ExactSearch(vectors, "dot", "cpu").search(asked, 7).ordinals.tolist() == [list(range(7))] * len(asked)


@pytest.mark.parametrize("magnitude", [1e-30, 1e-4, 1e8, 1e30])
def test_questions_of_any_length(magnitude):
    rng = np.random.default_rng(6)
    vectors, questions = (
        rng.normal(size=(3000, 16)).astype(np.float16),
        (rng.normal(size=(4, 16)) * magnitude).astype(np.float32),
    )
    for asked in (questions, questions[:1]):
        np.testing.assert_array_equal(
            ExactSearch(vectors, "dot", "cpu").search(asked, 40).ordinals, brute_force(vectors, asked, 40)[0]
        )


@pytest.mark.parametrize("k", [1, 2048, 3000])
def test_few_hits_and_many(k):
    rng = np.random.default_rng(7)
    vectors, questions = rng.normal(size=(9000, 16)).astype(np.float16), rng.normal(size=(3, 16)).astype(np.float32)
    np.testing.assert_array_equal(
        ExactSearch(vectors, "dot", "cpu").search(questions, k).ordinals, brute_force(vectors, questions, k)[0]
    )


def test_negative_scores():
    rng = np.random.default_rng(8)
    vectors, questions = (
        np.abs(rng.normal(size=(5000, 16))).astype(np.float16),
        -np.abs(rng.normal(size=(5, 16))).astype(np.float32),
    )
    for asked in (questions, questions[:1]):
        np.testing.assert_array_equal(
            ExactSearch(vectors, "dot", "cpu").search(asked, 40).ordinals, brute_force(vectors, asked, 40)[0]
        )


def test_more_nearly_equal_rows_than_candidates(monkeypatch):
    """600 rows that bfloat16 cannot distinguish: the search without a cut settles them with little memory for pairs."""
    monkeypatch.setattr(exhaustive, "MAX_PAIRS", 50)
    rng = np.random.default_rng(9)
    middle = rng.normal(size=24)
    vectors = (middle + 1e-3 * rng.normal(size=(6000, 24))).astype(np.float16)
    questions = (middle + rng.normal(size=(3, 24))).astype(np.float32)
    for similarity in ("dot", "l2"):
        np.testing.assert_array_equal(
            ExactSearch(vectors, similarity, "cpu").search(questions, 30).ordinals,
            brute_force(vectors, questions, 30, similarity)[0],
        )


def test_no_questions_and_no_hits():
    search = ExactSearch(np.eye(3, dtype=np.float16), "dot", "cpu")
    assert search.search(np.empty((0, 3), np.float32), 2).ordinals.shape == (0, 2)
    assert search.search(np.ones((2, 3), np.float32), 0).ordinals.shape == (2, 0)


def test_equal_vectors_are_ordered_by_ordinal_even_beyond_the_margin():
    rng = np.random.default_rng(2)
    distinct = rng.normal(size=(7, 16)).astype(np.float16)
    vectors = distinct[rng.integers(0, 7, size=3000)]  # every vector occurs about 400 times
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


@pytest.mark.parametrize(
    "questions, says", [(np.ones((1, 4), np.float32), "dimensions"), (np.full((1, 3), np.nan, np.float32), "NaN")]
)
def test_bad_questions_are_refused(questions, says):
    with pytest.raises(Refused, match=says):
        ExactSearch(np.eye(3, dtype=np.float16), "dot", "cpu").search(questions, 1)


def test_bad_vectors_are_refused():
    with pytest.raises(Refused, match="float16"):
        ExactSearch(np.eye(3, dtype=np.float32))
    vectors = np.ones((5000, 4), np.float16)
    vectors[4321, 2] = np.nan
    with pytest.raises(Refused, match="row 4321 contains NaN or infinity; rebuild the index"):
        ExactSearch(vectors, "dot", "cpu").search(np.ones((1, 4), np.float32), 3)


def test_keys_have_the_order_of_scores_and_rows():
    rng = np.random.default_rng(10)
    numbers = [-np.inf, -3e38, -1.5, -1e-40, -0.0, 0.0, 1e-40, 1.5, 3e38, np.inf]
    scores = np.concatenate([np.repeat(numbers, 3), rng.normal(size=1000)]).astype(np.float32)
    rows = rng.permutation(len(scores)).astype(np.int32)
    rows[0], rows[1] = len(scores), np.iinfo(np.int32).max
    keys = keys_of(scores, rows)
    np.testing.assert_array_equal(np.argsort(keys), np.lexsort((rows, -scores)))
    np.testing.assert_array_equal(scores_of(keys), scores)
    np.testing.assert_array_equal(rows_of(keys), rows)
    assert (keys <= keys_of(scores, LAST_ROW)).all() and (keys_of(scores, LAST_ROW) < EMPTY).all()


def test_best_of_lists_with_padding_and_ties():
    vectors = np.array([[2], [0], [2], [1]], np.float16)
    ordinals = np.array([[2, -1, 0, 3], [-1, -1, 1, -1]], np.int32)
    hits = exact_best(vectors, np.array([[1], [-1]], np.float32), ordinals, "dot", 2)
    assert hits.ordinals.tolist() == [[0, 2], [1, -1]]
    assert hits.scores.tolist() == [[2, 2], [0, -np.inf]]
    assert exact_best(vectors, np.ones((1, 1), np.float32), ordinals[:1, :1], "dot", 3).ordinals.tolist() == [
        [2, -1, -1]
    ]


@pytest.fixture
def table_and_products():
    """A table for 5 questions and k = 3, and products (5, 4000) float32; those of question 4 are all equal."""
    rng = np.random.default_rng(11)
    vectors, questions = torch.from_numpy(rng.normal(size=(4000, 8)).astype(np.float16)), rng.normal(size=(5, 8))
    questions[4] = 0
    extent = merge_extents([extent_of(vectors)], False, 8)
    rounded = RoundedQueries(questions.astype(np.float32), "dot", Precision("float32", "float32"), extent)
    return CandidateTable(rounded, 3, 1000), rounded.operand @ vectors.float().T


def test_a_thread_does_not_wait_for_the_table(table_and_products):
    table, products = table_and_products
    with table._in_use:
        adding = threading.Thread(target=table.add, args=(0, products[:, :1000].contiguous()))
        adding.start()
        adding.join(60)
        assert not adding.is_alive()
    for start in (1000, 2000, 3000):
        table.add(start, products[:, start : start + 1000].contiguous())
    candidates, _ = table.result()
    best = products.argsort(dim=1, descending=True)[:4, :3].numpy()
    assert all(set(rows) <= set(row) for rows, row in zip(best.tolist(), candidates.tolist()))


def test_no_row_outside_the_table_is_above_the_floor(table_and_products):
    """More equal products than the table keeps, too: their rows stay outside, and the floor says how good they are."""
    table, products = table_and_products
    table.set_floors(products[:, ::40].numpy())
    for start in range(0, 4000, 500):
        table.add(start, products[:, start : start + 500].contiguous())
    candidates, floors = table.result()
    for row, floor, scores in zip(candidates, floors, products.numpy()):
        outside = np.delete(scores, row[row >= 0])
        assert (outside <= floor).all() and len(outside) > 3000
    assert floors[4] == 0


def test_top_k_orders_ties_by_ordinal_and_puts_padding_last():
    ordinals = np.array([[9, -1, 4, 7]], np.int32)
    hits = top_k(ordinals, np.array([[1.0, 5.0, 1.0, 2.0]], np.float32), 6)
    assert hits.ordinals.tolist() == [[7, 4, 9, -1, -1, -1]]
    assert hits.scores[0, :3].tolist() == [2, 1, 1]
