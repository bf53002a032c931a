"""int8 and binary vectors: the library's own copies and candidates; with enough candidates, the hits of exact search."""

import shutil

import numpy as np
import pytest

from blindspot.backend.core.study import Study
from blindspot.backend.retrieval import live, quantised
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.quantised import Int8Kind, Quantised
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.errors import Missing, Refused
from tests.ties import near_equal_best

QUESTIONS = ["Where was Arve Aurset0 born?", "a weaver from Oslo", "who was raised by an aunt in Bodo", "the harbour"]


@pytest.fixture(scope="module")
def study(tmp_path_factory, indexed_study):
    folder = tmp_path_factory.mktemp("quantised") / "s"
    shutil.copytree(indexed_study.folder, folder)
    made = Study.open(folder)
    with pytest.raises(Missing, match="no int8 vectors of 'tiny'; run 'blindspot index quantised"):
        retrieve(made, "int8", encoder="tiny", k=3, name="none")
    for precision in quantised.PRECISIONS:
        quantised.build(made, "tiny", precision)
    return made


def copies(study, precision):
    return np.load(study.path("indexes", "tiny", f"quantised-{precision}.npy"))


def test_copies_are_the_librarys(study, monkeypatch):
    from sentence_transformers.util.quantization import quantize_embeddings

    vectors = Dense(study, "tiny", "cpu").vectors.astype(np.float32)
    assert np.array_equal(copies(study, "int8"), quantize_embeddings(vectors, "int8"))
    assert np.array_equal(copies(study, "binary"), quantize_embeddings(vectors, "ubinary"))
    monkeypatch.setattr(quantised, "ROWS_PER_BLOCK", 7)
    before = copies(study, "int8")
    record = quantised.build(study, "tiny", "int8")
    assert np.array_equal(copies(study, "int8"), before), "blocks change nothing"
    assert record["bytes"] - 128 == vectors.size and record["float16_bytes"] == 2 * vectors.size


def opened(study, precision, rescore=4):
    dense = Dense(study, "tiny", "cpu")
    return dense, Quantised(study, dense, {"kind": precision}, rescore)


def test_candidates_are_the_librarys(study, monkeypatch):
    from sentence_transformers.util.quantization import _dequantize_embeddings, semantic_search_faiss

    dense, binary = opened(study, "binary")
    questions = dense.encode(QUESTIONS)
    found, _ = semantic_search_faiss(
        questions, corpus_embeddings=copies(study, "binary"), corpus_precision="ubinary", top_k=10, rescore=False
    )
    signs = np.packbits(questions > 0, axis=1)[:, None] ^ copies(study, "binary")[None]
    distances = np.unpackbits(signs, axis=2).sum(axis=2)
    ours = np.take_along_axis(distances, binary.candidates(questions, 10), axis=1)
    theirs = [[distances[row, hit["corpus_id"]] for hit in hits] for row, hits in enumerate(found)]
    assert np.sort(ours, axis=1).tolist() == np.sort(theirs, axis=1).tolist(), (
        "which of equally near ones is nobody's promise"
    )
    monkeypatch.setattr(quantised, "ROWS_PER_BLOCK", 7)
    _, int8 = opened(study, "int8")
    ranges = np.load(study.path("indexes", "tiny", "quantised-int8-ranges.npy"))
    whole = _dequantize_embeddings(copies(study, "int8"), "int8", ranges)
    near_equal_best(questions @ np.asarray(whole, np.float32).T, int8.candidates(questions, 9), 9)


@pytest.mark.parametrize("precision", quantised.PRECISIONS)
def test_with_all_candidates_it_is_exact_search(study, precision):
    dense, retriever = opened(study, precision, rescore=60)
    for k in (1, 7, 60, 80):
        ours, theirs = retriever.search(QUESTIONS, k), dense.search(QUESTIONS, k)
        assert ours.ordinals.tolist() == theirs.ordinals.tolist() and ours.scores.tolist() == theirs.scores.tolist()


@pytest.mark.parametrize("precision", quantised.PRECISIONS)
def test_it_is_a_retriever(study, precision):
    run = retrieve(study, precision, encoder="tiny", k=5, split="dev", rescore=3)
    assert run.name == f"tiny-{precision}-dev" and run.manifest["rescore"] == 3
    assert run.manifest["quantised"]["recall"]["rescore"] == 4
    kind = Int8Kind() if precision == "int8" else None
    if kind:
        assert kind.options_of_run(run.manifest) == {"encoder": "tiny", "rescore": 3}
        assert kind.describe(run.manifest) == "int8:tiny, 3 candidates a hit"
    exact = retrieve(study, "dense", encoder="tiny", k=5, split="dev", replace=True)
    assert run.manifest["index_bytes"] < exact.manifest["index_bytes"]
    asked = live.search(study, f"{precision}:tiny", QUESTIONS, 5)
    assert asked.ordinals.shape == (4, 5) and f"{precision}:tiny" in live.available(study)


def test_copies_of_other_vectors_are_refused(study):
    from blindspot.backend.core.manifest import read_json, write_json

    path = study.path("indexes", "tiny", "quantised-int8.json")
    record = read_json(path)
    write_json(path, {**record, "vectors": "2020-01-01T00:00:00Z"})
    with pytest.raises(Refused, match="are copies of other vectors; run"):
        retrieve(study, "int8", encoder="tiny", k=3, name="stale")
    write_json(path, record)
    with pytest.raises(Refused, match="--precision must be one of"):
        quantised.build(study, "tiny", "int4")
