"""FAISS indexes, compared with exact search."""

import sys
from pathlib import Path

import numpy as np
import pytest

from blindspot.backend.core.settings import add_encoder
from blindspot.backend.retrieval import approximate, dense
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.errors import BadInput, Missing, Refused
from tests.studies import births, make_study, people, tiny_bert


@pytest.fixture(scope="module", params=["dot", "l2"])
def study(request, tmp_path_factory):
    passages = people(300)
    study = make_study(tmp_path_factory.mktemp("studies") / request.param, passages, births(passages)[:40])
    tiny_bert(study.folder / "tiny")
    add_encoder(
        study.settings_path,
        "tiny",
        {"model": str(study.folder / "tiny"), "pooling": "mean", "similarity": request.param, "max_tokens": 64},
    )
    dense.build_index(study, "tiny", device="cpu")
    return study


def test_hnsw_finds_nearly_all_and_is_used_by_retrieve(study):
    manifest = approximate.build(study, "tiny", "hnsw", {"links": 16, "search_effort": 300})
    assert manifest["recall"]["20"] > 0.9 and manifest["options"]["links"] == 16
    run = retrieve(study, "dense", encoder="tiny", approximate="hnsw", k=20, device="cpu")
    assert run.name == "tiny-hnsw" and run.manifest["approximate"]["recall"] == manifest["recall"]
    with pytest.raises(Refused, match="--approximate works with --with dense, not with --with bm25"):
        retrieve(study, "bm25", approximate="hnsw", k=20)


def test_recall_is_what_brute_force_says(study):
    approximate.build(study, "tiny", "hnsw", {"links": 2, "build_effort": 4, "search_effort": 4})
    poor = Dense(study, "tiny", "cpu", "hnsw")
    texts = [question.text for question in study.questions.all()]
    exact, found = Dense(study, "tiny", "cpu").search(texts, 20).ordinals, poor.search(texts, 20).ordinals
    expected = np.mean([len(set(a) & set(b)) / 20 for a, b in zip(exact.tolist(), found.tolist(), strict=True)])
    assert poor.settings["approximate"]["recall"]["20"] == pytest.approx(expected, abs=1e-3)


def test_too_few_vectors_for_ivfpq_and_unknown_kinds(study):
    with pytest.raises(Refused, match="too few"):
        approximate.build(study, "tiny", "ivfpq", {"code_bytes": 8})
    with pytest.raises(Refused, match="must divide"):
        approximate.build(study, "tiny", "ivfpq", {"code_bytes": 7})
    with pytest.raises(Refused, match="one of hnsw, ivfpq"):
        approximate.build(study, "tiny", "annoy")
    with pytest.raises(Missing, match="blindspot index faiss"):
        Dense(study, "tiny", "cpu", "ivfpq")


def test_settings_that_are_none(study):
    for options, says in (
        ({"link": 3}, "unknown setting link; known: links, build_effort"),
        ({"code_bytes": 0}, "code_bytes must be a whole number of at least 1, not 0"),
        ({"links": 2.5}, "links must be a whole number of at least 2, not 2.5"),
        ({"lists": -1}, "lists must be"),
    ):
        with pytest.raises(BadInput, match=says):
            approximate.build(study, "tiny", "hnsw", options)


def test_bad_questions_and_more_hits_than_passages(study):
    approximate.build(study, "tiny", "hnsw")
    opened = Dense(study, "tiny", "cpu", "hnsw")
    n, width = opened.vectors.shape
    for vectors, says in (
        (np.ones((1, width + 1), np.float32), "dimensions"),
        (np.full((1, width), np.nan, np.float32), "NaN"),
    ):
        with pytest.raises(Refused, match=says):
            opened.search_vectors(vectors, 3)
    hits = opened.search_vectors(np.ones((2, width), np.float32), n + 5)
    assert hits.k == n + 5 and (hits.ordinals[:, n:] == -1).all()


def test_a_broken_file_is_one_line(study):
    approximate.build(study, "tiny", "hnsw")
    path = study.folder / "indexes" / "tiny" / "faiss-hnsw.index"
    whole = path.read_bytes()
    for content in (whole[:100], b""):
        path.unlink()  # a new file: the old one may be mapped
        path.write_bytes(content)
        with pytest.raises(Refused, match="missing or broken; build it again"):
            Dense(study, "tiny", "cpu", "hnsw")


def test_hnsw_keeps_the_vectors_as_they_are_stored_and_maps_them(study):
    """Its scores equal those of exact search for the passages that it finds."""
    approximate.build(study, "tiny", "hnsw")
    opened = Dense(study, "tiny", "cpu", "hnsw")
    vectors = opened.encode([question.text for question in study.questions.all()])
    hits = opened.search_vectors(vectors, 10)
    np.testing.assert_allclose(hits.scores, opened.score_vectors(vectors, hits.ordinals), rtol=1e-5, atol=1e-5)
    if sys.platform == "linux":
        assert "tiny/faiss-hnsw.index" in Path("/proc/self/maps").read_text()
    assert opened._approximate.manifest["bytes"] < opened.vectors.nbytes + len(opened.vectors) * 9 * 32 + 10_000


def test_training_reports_while_it_runs(monkeypatch):
    monkeypatch.setattr(approximate, "SECONDS_BETWEEN_REPORTS", 0.01)
    said, rng = [], np.random.default_rng(0)

    class Known:
        manifest, vectors = {"similarity": "dot"}, rng.normal(size=(12_000, 16)).astype(np.float16)

    options = approximate.FaissOptions(lists=64, code_bytes=8)
    index = approximate.train_ivfpq(Known, options, 0, lambda done, total, what: said.append(what))
    assert index.is_trained and any("on 12,000 vectors" in what and "s so far" in what for what in said)


def test_an_index_over_older_vectors_is_refused(study):
    approximate.build(study, "tiny", "hnsw")
    manifest = study.folder / "indexes" / "tiny" / "manifest.json"
    text = manifest.read_text()
    try:
        manifest.write_text(text.replace('"made": "20', '"made": "19'))
        with pytest.raises(Refused, match="other vectors"):
            Dense(study, "tiny", "cpu", "hnsw")
    finally:
        manifest.write_text(text)


def test_ivfpq_on_real_vectors_in_blocks(tmp_path, real_data, monkeypatch):
    """12,000 real vectors, 256 lists, with enough probes that its top 100 contain most of the exact top 20."""
    monkeypatch.setattr(approximate, "ROWS_PER_BLOCK", 5000)
    vectors = np.load(real_data / "minilm_passages.npy", mmap_mode="r")[:12_000]

    class Known:
        manifest = {"similarity": "dot"}

    Known.vectors = vectors
    options = approximate.FaissOptions(lists=256, code_bytes=48, probes=64)
    index = approximate.train_ivfpq(Known, options, seed=3, rounds=4)  # 4 rounds are enough for a test
    approximate._add_in_blocks(index, vectors, "adding")
    assert index.ntotal == 12_000
    import faiss

    faiss.write_index(index, str(tmp_path / "i.index"))
    opened = approximate.ApproximateIndex(
        tmp_path / "i.index", {"kind": "ivfpq", "options": {"lists": 256, "probes": 64}}, Known
    )
    questions = np.asarray(vectors[::300], np.float32)
    found = opened.search(questions, 100).ordinals
    exact = np.argsort(-(questions @ np.asarray(vectors, np.float32).T), axis=1)[:, :20]
    assert np.mean([len(set(a) & set(b)) / 20 for a, b in zip(exact.tolist(), found.tolist(), strict=True)]) > 0.8
