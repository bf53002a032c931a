"""LanceDB, Chroma and Qdrant as other tools fill them, opened as they are: each equals the study's own exact search."""

from __future__ import annotations

import numpy as np
import pytest

from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval import live
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.opened import open_index
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Hits, Passage
from tests.ties import same_ranking

QUESTIONS = ["Where was Arve Aurset0 born?", "a weaver from Oslo", "who was raised by an aunt in Bodo", "the harbour"]


def lancedb(folder, rows, vectors):
    store = pytest.importorskip("lancedb", reason="LanceDB is not installed: its plug-in is not tested")
    records = [
        {"id": p.id, "title": p.title, "text": p.text, "vector": v} for p, v in zip(rows, vectors.tolist(), strict=True)
    ]
    store.connect(str(folder)).create_table("wiki", data=records)


def chroma(folder, rows, vectors):
    store = pytest.importorskip("chromadb", reason="Chroma is not installed: its plug-in is not tested")
    client = store.PersistentClient(str(folder), store.Settings(anonymized_telemetry=False))
    made = client.create_collection(
        "wiki", configuration={"hnsw": {"space": "ip", "ef_search": 500}}, embedding_function=None
    )
    made.add(
        [p.id for p in rows],
        embeddings=vectors,
        documents=[p.text for p in rows],
        metadatas=[{"title": p.title} for p in rows],
    )


def qdrant(folder, rows, vectors):
    store = pytest.importorskip("qdrant_client", reason="Qdrant's client is not installed: its plug-in is not tested")
    client = store.QdrantClient(path=str(folder))
    size = vectors.shape[1]
    client.create_collection(
        "wiki", vectors_config=store.models.VectorParams(size=size, distance=store.models.Distance.DOT)
    )
    points = [
        store.models.PointStruct(id=number, vector=vector, payload={"doc": p.id, "title": p.title, "text": p.text})
        for number, (p, vector) in enumerate(zip(rows, vectors.tolist(), strict=True))
    ]
    client.upsert("wiki", points)
    client.close()


STORES = {
    "lancedb": (lancedb, {}),
    "chroma": (chroma, {}),
    "qdrant": (qdrant, {"id_field": "doc"}),
}


@pytest.fixture(params=STORES)
def filled(request, tmp_path, own_indexed_study):
    """The study's own vectors, shuffled, in a store, with one passage that the study lacks."""
    study = own_indexed_study
    vectors = np.load(study.folder / "indexes" / "tiny" / "embeddings.npy").astype(np.float32)
    order = np.random.default_rng(1).permutation(len(vectors))
    rows = [*study.corpus.passages(order.tolist()), Passage("stranger", "T", "not in the study")]
    make, more = STORES[request.param]
    make(tmp_path / "store", rows, np.concatenate([vectors[order], vectors[:1]]))
    return request.param, study, tmp_path / "store", {"collection": "wiki", "encoder": "tiny", **more}


def test_a_store_is_searched_as_the_study_itself(filled):
    engine, study, where, settings = filled
    open_index(study, "theirs", str(where), engine, settings)
    manifest = study.parts("indexes")["theirs"]
    assert manifest["documents"] == len(study.corpus) + 1 and not manifest["lexical"]
    own, whole = (Dense(study, "tiny", "cpu").search(QUESTIONS, k) for k in (20, len(study.corpus)))
    found = live.search(study, "opened:theirs", QUESTIONS, 20)
    # The store's scores may be distances, so its ranking is held against the study's own scores of the same passages.
    scores = np.zeros((len(QUESTIONS), len(study.corpus)), np.float32)
    np.put_along_axis(scores, whole.ordinals, whole.scores, axis=1)
    assert (np.diff(found.scores, axis=1) <= 0).all()
    same_ranking(Hits(found.ordinals, np.take_along_axis(scores, found.ordinals, axis=1)), own)


def test_wrong_names_are_one_line(filled, tmp_path):
    engine, study, where, settings = filled
    for error, words, place, more in (
        (Missing, "there is no folder", tmp_path / "none", {}),
        (Refused, "name the collection", where, {"collection": ""}),
        (Missing, "wiki", where, {"collection": "other"}),
        (Refused, "name the encoder", where, {"encoder": ""}),
    ):
        with pytest.raises(error, match=words) as caught:
            open_index(study, "theirs", str(place), engine, {**settings, **more})
        assert "\n" not in str(caught.value)


def test_an_empty_study_gets_the_passages_of_the_store(filled, tmp_path):
    engine, study, where, settings = filled
    empty = Study.create(tmp_path / "empty")
    add_encoder(empty.settings_path, "tiny", {"model": study.settings.encoders["tiny"].model, "pooling": "cls"})
    open_index(empty, "theirs", str(where), engine, {**settings, "text_field": "text", "title_field": "title"})
    assert len(empty.corpus) == len(study.corpus) + 1
    ids = [passage.id for passage in study.corpus.scan()]
    known = empty.corpus.ordinals(ids)
    for id, passage in zip(ids[:50], study.corpus.passages(list(range(50))), strict=True):
        assert empty.corpus.passage(known[id]) == passage
