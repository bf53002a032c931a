"""The GPU path, on CPU tensors: shards, groups, streaming, short memory."""

import numpy as np
import pytest
import torch

from blindspot.backend.retrieval.exact import gpu as module
from blindspot.backend.retrieval.exact import staging
from blindspot.backend.retrieval.exact.gpu import GPUSearch, GPUShard, best_rows
from blindspot.backend.retrieval.search import ExactSearch
from blindspot.db.errors import Refused
from tests.ties import brute_force


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "SCORES_PER_BLOCK", 1 << 15)
    monkeypatch.setattr(module, "MIN_SCORES", 1 << 12)
    monkeypatch.setattr(module, "ROWS_PER_TRANSFER", 700)
    monkeypatch.setattr(module, "FACTORS_PER_BLOCK", 1 << 14)


def search_on(vectors, similarity, devices):
    search = ExactSearch(vectors, similarity, "cpu")
    search.proposer = GPUSearch(vectors, similarity, devices)
    return search


@pytest.mark.parametrize("devices", [["cpu"], ["cpu", "cpu"], ["cpu"] * 3])
@pytest.mark.parametrize("similarity", ["dot", "l2"])
@pytest.mark.parametrize("scale", [0.05, 3.0])
def test_equals_brute_force(devices, similarity, scale):
    rng = np.random.default_rng(1)
    vectors = rng.normal(scale=scale, size=(5003, 48)).astype(np.float16)
    questions = rng.normal(scale=scale, size=(19, 48)).astype(np.float32)
    hits = search_on(vectors, similarity, devices).search(questions, 100)
    ordinals, scores = brute_force(vectors, questions, 100, similarity)
    np.testing.assert_array_equal(hits.ordinals, ordinals)
    np.testing.assert_allclose(hits.scores, scores, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("k", [1, 2048, 5000])
def test_one_hit_many_hits_and_more_than_there_are(k):
    rng = np.random.default_rng(2)
    vectors, questions = rng.normal(size=(4000, 32)).astype(np.float16), rng.normal(size=(3, 32)).astype(np.float32)
    hits = search_on(vectors, "dot", ["cpu", "cpu"]).search(questions, k)
    np.testing.assert_array_equal(hits.ordinals[:, :4000], brute_force(vectors, questions, min(k, 4000))[0])
    assert hits.k == k and (hits.ordinals[:, 4000:] == -1).all()


def test_equal_vectors_over_two_shards_are_ordered_by_ordinal():
    rng = np.random.default_rng(3)
    distinct = rng.normal(size=(5, 16)).astype(np.float16)
    vectors = distinct[rng.integers(0, 5, size=3000)]
    questions = rng.normal(size=(4, 16)).astype(np.float32)
    np.testing.assert_array_equal(
        search_on(vectors, "dot", ["cpu", "cpu"]).search(questions, 50).ordinals, brute_force(vectors, questions, 50)[0]
    )


@pytest.mark.parametrize("rows, count", [(64, 3), (640, 20), (640, 19), (32, 32)])
def test_best_rows_are_those_of_topk(rows, count):
    product = torch.randn(rows, 7, generator=torch.Generator().manual_seed(rows + count))
    scores, where = best_rows(product, count)
    expected = product.topk(count, dim=0).values.T
    assert torch.equal(scores.sort(1, descending=True).values, expected)
    assert torch.equal(product.T.gather(1, where), scores)


def test_rows_that_do_not_fit_are_streamed_and_it_says_so(monkeypatch):
    rng = np.random.default_rng(4)
    vectors, questions = rng.normal(size=(3000, 24)).astype(np.float16), rng.normal(size=(6, 24)).astype(np.float32)
    real = torch.empty

    def empty(*shape, **settings):
        if shape == ((3000, 24),):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(*shape, **settings)

    monkeypatch.setattr(torch, "empty", empty)
    said, search = [], search_on(vectors, "dot", ["cpu"])
    hits = search.search(questions, 10, lambda done, total, what: said.append(what))
    np.testing.assert_array_equal(hits.ordinals, brute_force(vectors, questions, 10)[0])
    assert any("do not fit in the memory of cpu" in what and "slower" in what for what in said)
    assert not search.proposer._shards[0].resident


def test_memory_that_runs_out_in_a_search_shrinks_the_blocks_then_gives_up_the_rows(monkeypatch):
    rng = np.random.default_rng(5)
    vectors, questions = rng.normal(size=(3000, 24)).astype(np.float16), rng.normal(size=(6, 24)).astype(np.float32)
    real, sizes = module._padded_products, []

    def product(rows, wanted, dtype):
        sizes.append(len(rows))
        if shard.resident:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return real(rows, wanted, dtype)

    monkeypatch.setattr(module, "_padded_products", product)
    said, search = [], search_on(vectors, "dot", ["cpu"])
    shard = search.proposer._shards[0]
    hits = search.search(questions, 10, lambda done, total, what: said.append(what))
    np.testing.assert_array_equal(hits.ordinals, brute_force(vectors, questions, 10)[0])
    assert sizes[0] > sizes[1] > 0 and not shard.resident
    assert any("do not fit" in what for what in said)


def test_a_device_without_any_memory_is_one_line(monkeypatch):
    def product(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(module, "_padded_products", product)
    with pytest.raises(Refused, match="too little memory"):
        search_on(np.ones((100, 8), np.float16), "dot", ["cpu"]).search(np.ones((1, 8), np.float32), 3)


def test_loading_reports_every_row_once(monkeypatch):
    said = []
    vectors = np.random.default_rng(6).normal(size=(3000, 8)).astype(np.float16)
    search_on(vectors, "dot", ["cpu", "cpu"]).search(
        np.ones((1, 8), np.float32), 3, lambda *report: said.append(report)
    )
    loading = [done for done, total, what in said if "loading" in what]
    assert loading == sorted(loading) and loading[-1] == 3000


def test_staging_gives_every_row_in_order(tmp_path):
    np.save(tmp_path / "v.npy", np.arange(5000 * 4).reshape(5000, 4).astype(np.float16))
    vectors = np.load(tmp_path / "v.npy", mmap_mode="r")
    seen = [(start, rows.numpy().copy()) for start, rows in staging.Staging(vectors, 100, 4999, 333, "cpu").blocks()]
    assert [start for start, _ in seen] == list(range(100, 4999, 333))
    np.testing.assert_array_equal(np.concatenate([rows for _, rows in seen]), vectors[100:4999])


def test_a_stored_nan_is_one_line():
    vectors = np.ones((50, 4), np.float16)
    vectors[17, 2] = np.nan
    with pytest.raises(Refused, match="row 17 contains NaN"):
        search_on(vectors, "dot", ["cpu", "cpu"]).search(np.ones((1, 4), np.float32), 3)


def test_no_gpu_is_one_line(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(Refused, match="no GPU found"):
        ExactSearch(np.ones((2, 2), np.float16), "dot", "cuda")


def test_every_gpu_holds_a_share(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert module.devices("cuda") == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"] and module.devices("cuda:2") == ["cuda:2"]
    held = GPUSearch(np.ones((10, 2), np.float16), "dot", module.devices("cuda"))._shards
    assert [shard.device for shard in held] == module.devices("cuda")
    assert [(shard._start, shard._stop) for shard in held] == [(0, 2), (2, 5), (5, 7), (7, 10)]
    assert isinstance(held[0], GPUShard)
