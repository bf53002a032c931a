"""A vector store that a plug-in adds, opened as it is: it equals the study's own exact search."""

from __future__ import annotations

import numpy as np
import pytest

from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval import live
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.engines.engine import ENGINES
from blindspot.backend.retrieval.opened import open_index
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Hits, Passage
from blindspot.plugin import VectorStore, VectorStoreEngine
from tests.ties import same_ranking

QUESTIONS = ["Where was Arve Aurset0 born?", "a weaver from Oslo", "who was raised by an aunt in Bodo", "the harbour"]


class ArrayStore(VectorStore):
    """One .npz file for each collection, searched by dot products."""

    metric = "dot"

    def __init__(self, path, settings):
        file = path / f"{settings.collection}.npz"
        if not file.is_file():
            known = ", ".join(each.stem for each in path.glob("*.npz"))
            raise Missing(f"there is no collection {settings.collection!r} in {path}; collections: {known}")
        self.arrays = np.load(file)
        self.count, self.width = self.arrays["vectors"].shape

    def search(self, vector, k, similarity):
        scores = self.arrays["vectors"] @ vector
        return [(str(self.arrays["ids"][row]), float(scores[row])) for row in np.argsort(-scores)[:k]]

    def rows(self):
        return zip(*(self.arrays[name].tolist() for name in ("ids", "titles", "texts")), strict=True)


class ArrayEngine(VectorStoreEngine):
    name, title = "arrays", "arrays"
    help = "a folder with .npz files"
    store = ArrayStore


@pytest.fixture
def filled(monkeypatch, tmp_path, own_indexed_study):
    """The study's own vectors, shuffled, in a store, with one passage that the study lacks."""
    study = own_indexed_study
    vectors = np.load(study.folder / "indexes" / "tiny" / "embeddings.npy").astype(np.float32)
    order = np.random.default_rng(1).permutation(len(vectors))
    rows = [*study.corpus.passages(order.tolist()), Passage("stranger", "T", "not in the study")]
    (tmp_path / "store").mkdir()
    texts = {"ids": [p.id for p in rows], "titles": [p.title for p in rows], "texts": [p.text for p in rows]}
    np.savez(tmp_path / "store" / "wiki.npz", vectors=np.concatenate([vectors[order], vectors[:1]]), **texts)
    ENGINES.all()
    monkeypatch.setitem(ENGINES._entries, "arrays", ArrayEngine())
    return "arrays", study, tmp_path / "store", {"collection": "wiki", "encoder": "tiny"}


def test_a_store_is_searched_as_the_study_itself(filled):
    engine, study, where, settings = filled
    open_index(study, "theirs", str(where), engine, settings)
    manifest = study.parts("indexes")["theirs"]
    assert manifest["documents"] == len(study.corpus) + 1 and not manifest["lexical"]
    own, whole = (Dense(study, "tiny", "cpu").search(QUESTIONS, k) for k in (20, len(study.corpus)))
    found = live.search(study, "opened:theirs", QUESTIONS, 20)
    # A store's scores may be distances, so its ranking is held against the study's own scores of the same passages.
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
