"""Fusion of two lists: published cases, cases worked by hand, and brute force over all passages."""

import json

import numpy as np
import pytest

from blindspot.backend.retrieval.bm25 import BM25
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.hybrid import (
    Candidates,
    Hybrid,
    lowest_scores,
    reciprocal_rank_fusion,
    scores_of_rows,
    union_rows,
    weighted_fusion,
)
from blindspot.db.errors import Refused
from blindspot.db.records import Hits
from tests.ties import near_equal_best


def hits(*rows):
    ordinals = np.array([[ordinal for ordinal, _ in row] for row in rows], np.int32)
    return Hits(ordinals, np.array([[score for _, score in row] for row in rows], np.float32))


A = hits([(3, 9.0), (1, 7.0), (8, 2.0)])
B = hits([(1, 0.9), (5, 0.8), (-1, -np.inf)])


def test_rrf_by_hand():
    fused = reciprocal_rank_fusion([A, B], 5, 60)
    assert fused.ordinals.tolist() == [[1, 3, 5, 8, -1]]
    np.testing.assert_allclose(fused.scores[0, :4], [1 / 62 + 1 / 61, 1 / 61, 1 / 62, 1 / 63], rtol=1e-6)


def test_rrf_ties_are_ordered_by_ordinal():
    fused = reciprocal_rank_fusion([hits([(7, 2.0)]), hits([(2, 5.0)])], 2, 60)
    assert fused.ordinals.tolist() == [[2, 7]]


def test_rrf_of_three_lists():
    lists = [hits([(1, 3.0), (2, 2.0)]), hits([(2, 3.0), (3, 2.0)]), hits([(2, 1.0), (1, 0.5)])]
    fused = reciprocal_rank_fusion(lists, 3, 60)
    assert fused.ordinals.tolist() == [[2, 1, 3]]
    np.testing.assert_allclose(fused.scores[0], [1 / 62 + 2 / 61, 1 / 61 + 1 / 62, 1 / 62], rtol=1e-6)


def test_long_padding_takes_no_more_steps(monkeypatch):
    """BM25 finds few passages, and its list is padded to the depth: the padding is no passage with many places."""
    calls, where = [], np.where
    monkeypatch.setattr(np, "where", lambda *arguments: calls.append(1) or where(*arguments))
    steps = []
    for padding in (1, 300):
        calls.clear()
        fused = reciprocal_rank_fusion([hits([(1, 2.0), *[(-1, -np.inf)] * padding])] * 2, 2, 60)
        assert fused.ordinals.tolist() == [[1, -1]]
        steps.append(len(calls))
    assert steps[0] == steps[1]


def test_published_rrf_cases(real_data):
    cases = json.loads((real_data / "published_results.json").read_text())["rrf_k60_cases"]
    first, second = hits([(4, 2.0), (6, 1.0), (9, 0.5)]), hits([(4, 8.0), (9, 7.0), (6, 6.0)])
    fused = reciprocal_rank_fusion([first, second], 3, 60)
    assert fused.ordinals.tolist() == [[4, 6, 9]]
    expected = [cases["two_rank_1_hits"], cases["ranks_2_and_3"], cases["ranks_2_and_3"]]
    np.testing.assert_allclose(fused.scores[0], expected, rtol=1e-6)
    alone = reciprocal_rank_fusion([hits([(1, 1.0)]), hits([(-1, -np.inf)])], 1, 60)
    np.testing.assert_allclose(alone.scores, [[cases["one_rank_1_hit"]]], rtol=1e-6)


def test_union_and_scores_in():
    assert union_rows(A, B).tolist() == [[-1, -1, 1, 3, 5, 8]]
    np.testing.assert_array_equal(scores_of_rows(union_rows(A, B), A)[0, 2:], np.array([7, 9, np.nan, 2], np.float32))
    np.testing.assert_array_equal(
        scores_of_rows(union_rows(A, B), B)[0, 2:], np.array([0.9, np.nan, 0.8, np.nan], np.float32)
    )
    assert lowest_scores(B).tolist() == [[pytest.approx(0.8)]]
    assert lowest_scores(hits([(-1, -np.inf)])).tolist() == [[0]]


def test_weighted_by_hand():
    candidates = Candidates(
        np.array([[-1, 4, 6]], np.int32), np.array([[0, 10, 2]], np.float32), np.array([[0, 1, 9]], np.float32)
    )
    fused = weighted_fusion(candidates, 1.1, 2)
    assert fused.ordinals.tolist() == [[6, 4]]
    np.testing.assert_allclose(fused.scores, [[2 + 1.1 * 9, 10 + 1.1]], rtol=1e-6)


def test_weighted_with_exact_scores_equals_scoring_every_passage(indexed_study):
    """Lists of 7: whatever one list lacks is scored by the other retriever, so the order is that of the full sums."""
    texts = [question.text for question in indexed_study.questions.all()[:12]]
    hybrid = Hybrid(indexed_study, "tiny", "weighted", weight=0.3, device="cpu")
    hybrid.depth = 7
    everything = np.tile(np.arange(len(indexed_study.corpus), dtype=np.int32), (len(texts), 1))
    dense = Dense(indexed_study, "tiny", "cpu")
    by_dense = dense.score_vectors(dense.encode(texts), everything)
    full = BM25(indexed_study).score(texts, everything) + np.float32(0.3) * by_dense
    joined = union_rows(*hybrid.both_lists(texts))
    found = hybrid.search(texts, 5)
    for row in range(len(texts)):
        pool = joined[row][joined[row] >= 0]
        near_equal_best(full[None, row, pool], np.searchsorted(pool, found.ordinals[[row]]), 5)
        np.testing.assert_allclose(found.scores[row], full[row, found.ordinals[row]], rtol=1e-5)


def test_minimum_gives_a_missing_passage_the_least_score_of_the_list(indexed_study):
    texts = [indexed_study.questions.all()[0].text]
    hybrid = Hybrid(indexed_study, "tiny", "weighted", missing="minimum", device="cpu")
    hybrid.depth = 5
    sparse, dense = hybrid.both_lists(texts)
    candidates = hybrid.candidates(texts)
    only_dense = (
        np.isin(candidates.ordinals, dense.ordinals)
        & ~np.isin(candidates.ordinals, sparse.ordinals)
        & (candidates.ordinals >= 0)
    )
    assert only_dense.any()
    assert (candidates.sparse[only_dense] == sparse.scores[0].min()).all()


@pytest.mark.parametrize("unit_length, method", [(True, "rrf"), (False, "weighted")])
def test_auto_takes_rrf_for_vectors_of_unit_length(indexed_study, monkeypatch, unit_length, method):
    monkeypatch.setattr(Dense, "unit_length", unit_length)
    assert Hybrid(indexed_study, "tiny", device="cpu").method == method


def test_unknown_settings_are_refused(indexed_study):
    with pytest.raises(Refused, match="auto, weighted or rrf"):
        Hybrid(indexed_study, "tiny", "sum")
    with pytest.raises(Refused, match="exact, minimum"):
        Hybrid(indexed_study, "tiny", "weighted", missing="zero")
