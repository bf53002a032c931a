"""Building dense indexes: resuming, importing vectors, refusing vectors that do not fit."""

import numpy as np
import pytest
from typer.testing import CliRunner

from blindspot.app.cli import app
from blindspot.backend.core.manifest import read_manifest
from blindspot.backend.core.settings import add_encoder
from blindspot.backend.retrieval import dense, dense_shards, passage_encoder
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.retrieval.question_vectors import FILE, question_vectors
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.errors import BadInput, Missing, Refused
from tests.indexes import bm25_of
from tests.studies import births, make_study, people, tiny_bert
from tests.ties import near_equal_best, same_ranking


@pytest.fixture
def study(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr(passage_encoder, "quick_precisions", lambda device: ())  # float32 on every processor
    passages = people(30)
    study = make_study(tmp_path / "s", passages, births(passages))
    add_encoder(study.settings_path, "tiny", {"model": tiny, "pooling": "cls", "max_tokens": 64})
    return study


def encoded(study):
    return load_encoder(study.settings.encoders["tiny"], "cpu").encode_passages(list(study.corpus.scan()))


def test_stores_float16_and_searches_them_exactly(study):
    manifest = dense.build_index(study, "tiny", device="cpu")
    stored = np.load(study.folder / "indexes" / "tiny" / "embeddings.npy")
    assert stored.dtype == np.float16
    np.testing.assert_allclose(stored, encoded(study), rtol=1e-2, atol=1e-3)
    assert (manifest["similarity"], manifest["unit_length"], manifest["passages"]) == ("dot", False, 30)
    retriever = Dense(study, "tiny", "cpu")
    texts = [question.text for question in study.questions.all()]
    scores = retriever.encode(texts).astype(np.float64) @ stored.astype(np.float64).T
    near_equal_best(scores, retriever.search(texts, 1).ordinals, 1)
    assert not (study.folder / "indexes" / "tiny" / "shards").exists()


def test_an_interrupted_build_goes_on_from_the_last_whole_shard(study, monkeypatch):
    monkeypatch.setattr(dense_shards, "BLOCK", 8)
    monkeypatch.setattr(passage_encoder, "BATCHES", 1)
    text = study.settings_path.read_text()
    study.settings_path.write_text(text.replace('pooling = "cls"', 'pooling = "cls"\nbatch_size = 1'))
    seen = []

    def interrupt(done, total, doing):
        if "encoding" in doing:
            seen.append(done)
            if done >= 20:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dense.build_index(study, "tiny", device="cpu", progress=interrupt)
    with pytest.raises(Missing, match="blindspot index dense"):
        Dense(study, "tiny")
    assert seen == list(range(21))
    resumed = []
    dense.build_index(
        study, "tiny", device="cpu", progress=lambda done, total, doing: "encoding" in doing and resumed.append(done)
    )
    assert resumed == list(range(16, 30))
    np.testing.assert_allclose(
        np.load(study.folder / "indexes" / "tiny" / "embeddings.npy"), encoded(study), rtol=1e-2, atol=1e-3
    )


def test_shards_of_other_settings_are_not_used(study, monkeypatch):
    monkeypatch.setattr(dense_shards, "BLOCK", 8)

    def interrupt(done, total, doing):
        if done >= 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dense.build_index(study, "tiny", device="cpu", progress=interrupt)
    text = study.settings_path.read_text()
    study.settings_path.write_text(text.replace('pooling = "cls"', 'pooling = "mean"'))
    dense.build_index(study, "tiny", device="cpu")
    np.testing.assert_allclose(
        np.load(study.folder / "indexes" / "tiny" / "embeddings.npy"), encoded(study), rtol=1e-2, atol=1e-3
    )


def test_vectors_made_elsewhere(study, tmp_path):
    np.save(tmp_path / "v.npy", encoded(study))
    manifest = dense.build_index(study, "tiny", vectors=tmp_path / "v.npy", device="cpu")
    assert manifest["made_by"] == "imported vectors" and manifest["file"] == "v.npy"
    question = study.questions.all()[0].text
    imported = Dense(study, "tiny", "cpu").search([question], 5)
    dense.build_index(study, "tiny", device="cpu")
    same_ranking(
        imported, Dense(study, "tiny", "cpu").search([question], 5), 1e-2
    )  # encoded in other batches, in 16 bits


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda v: v[:-1], "need"),
        (lambda v: v[:, :8], "need"),
        (lambda v: v.astype(np.float64), "need"),
        (lambda v: v[::-1], "differs from the encoder's vector"),
        (
            lambda v: np.random.default_rng(0).normal(size=v.shape).astype(np.float32),
            "differs from the encoder's vector",
        ),
    ],
)
def test_vectors_that_do_not_fit_are_refused_and_nothing_is_made(study, tmp_path, change, says):
    np.save(tmp_path / "v.npy", np.ascontiguousarray(change(encoded(study))))
    with pytest.raises(BadInput, match=says):
        dense.build_index(study, "tiny", vectors=tmp_path / "v.npy", device="cpu")
    assert read_manifest(study.folder / "indexes" / "tiny") is None


@pytest.mark.parametrize("form", ["text", "npy"])
def test_vectors_in_another_order_with_their_ids(study, tmp_path, form):
    """The file also has vectors of passages that the study lacks."""
    own = encoded(study)
    ids = [passage.id for passage in study.corpus.scan()]
    order = np.random.default_rng(3).permutation(len(ids))
    np.save(tmp_path / "v.npy", np.concatenate([own[order], own[:2]]))
    names = [*(ids[i] for i in order), "other-1", "other-2"]
    path = tmp_path / ("ids.txt" if form == "text" else "ids.npy")
    if form == "text":
        path.write_text("\n".join(names) + "\n")
    else:
        np.save(path, np.array(names))
    done = CliRunner().invoke(
        app,
        [
            "index",
            "dense",
            "--encoder",
            "tiny",
            "--vectors",
            str(tmp_path / "v.npy"),
            "--ids",
            str(path),
            "--study",
            str(study.folder),
        ],
    )
    assert done.exit_code == 0, done.output
    stored = np.load(study.folder / "indexes" / "tiny" / "embeddings.npy")
    np.testing.assert_allclose(stored, own, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda ids: ids[:-1], "vectors"),
        (lambda ids: [*ids[:-1], ids[0]], "occurs twice, first in line 1"),
        (lambda ids: [*ids[:-1], "nobody"], "every passage needs a vector"),
        (lambda ids: ids[::-1], "differs from the encoder's vector"),
    ],
)
def test_ids_that_do_not_fit_the_vectors_are_refused(study, tmp_path, change, says):
    np.save(tmp_path / "v.npy", encoded(study))
    (tmp_path / "ids.txt").write_text("\n".join(change([passage.id for passage in study.corpus.scan()])))
    with pytest.raises(BadInput, match=says):
        dense.build_index(study, "tiny", vectors=tmp_path / "v.npy", ids=tmp_path / "ids.txt", device="cpu")
    assert read_manifest(study.folder / "indexes" / "tiny") is None


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e6])
def test_a_vector_that_is_no_number_in_16_bits_is_named(study, tmp_path, bad):
    vectors = encoded(study)
    vectors[7, 3] = bad
    np.save(tmp_path / "v.npy", vectors)
    with pytest.raises(Refused, match="passage row 7"):
        dense.build_index(study, "tiny", vectors=tmp_path / "v.npy", device="cpu")
    assert read_manifest(study.folder / "indexes" / "tiny") is None


def test_files_that_hold_no_vectors(study, tmp_path):
    (tmp_path / "v.npy").write_bytes(b"no array")
    with pytest.raises(BadInput, match="no .npy"):
        dense.build_index(study, "tiny", vectors=tmp_path / "v.npy")
    np.save(tmp_path / "o.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(BadInput, match="no .npy"):  # never unpickled
        dense.build_index(study, "tiny", vectors=tmp_path / "o.npy")
    with pytest.raises(Missing, match="no file"):
        dense.build_index(study, "tiny", vectors=tmp_path / "absent.npy")


def test_an_encoder_that_changed_under_its_index_is_refused(study, tmp_path):
    dense.build_index(study, "tiny", device="cpu")
    tiny_bert(tmp_path / "other", seed=5)
    text = study.settings_path.read_text()
    old = study.settings.encoders["tiny"].model
    study.settings_path.write_text(text.replace(old, str(tmp_path / "other")))
    with pytest.raises(Refused, match="model_hash"):
        Dense(study, "tiny", "cpu").search(["x"], 1)


def test_an_unknown_encoder(study):
    with pytest.raises(Missing, match="known: minilm, tiny"):
        dense.build_index(study, "other")


def test_cosine_vectors_are_stored_at_unit_length(study, tmp_path, tiny):
    add_encoder(
        study.settings_path, "angle", {"model": tiny, "pooling": "cls", "similarity": "cosine", "max_tokens": 64}
    )
    np.save(tmp_path / "v.npy", encoded(study) * 3)
    assert dense.build_index(study, "angle", vectors=tmp_path / "v.npy", device="cpu")["unit_length"]
    stored = np.load(study.folder / "indexes" / "angle" / "embeddings.npy").astype(np.float32)
    np.testing.assert_allclose(np.linalg.norm(stored, axis=1), 1, atol=2e-3)


def test_a_damaged_file_of_vectors_is_one_line(indexed_study, tmp_path):
    from tests.studies import copied

    study = copied(indexed_study, tmp_path / "s")
    path = study.path("indexes", "tiny", "embeddings.npy")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(BadInput, match="embeddings.npy.*missing or damaged.*index dense --encoder tiny"):
        dense.Dense(study, "tiny")
    path.unlink()
    with pytest.raises(BadInput, match="missing or damaged"):
        dense.Dense(study, "tiny")


@pytest.mark.parametrize("kind", ["dense", "hybrid"])
def test_a_run_with_another_k_encodes_no_question_again(study, monkeypatch, kind):
    dense.build_index(study, "tiny", device="cpu")
    bm25_of(study)
    slow = Dense(study, "tiny", "cpu").search([question.text for question in study.questions.all()], 10)
    asked, encode = [], Dense.encode
    monkeypatch.setattr(Dense, "encode", lambda self, texts, *a: asked.append(len(texts)) or encode(self, texts, *a))
    monkeypatch.setattr(
        "blindspot.backend.retrieval.retrieve.live_latency", lambda *_: {}
    )  # it asks some one at a time
    first = retrieve(study, "dense", encoder="tiny", k=10, name="first")
    assert sum(asked) == len({question.text for question in study.questions.all()})
    np.testing.assert_array_equal(first.hits.ordinals, slow.ordinals)
    asked.clear()
    again = retrieve(study, kind, encoder="tiny", k=5, name="again")
    assert asked == []
    if kind == "dense":
        np.testing.assert_array_equal(again.hits.ordinals, first.hits.ordinals[:, :5])
        np.testing.assert_array_equal(again.hits.scores, first.hits.scores[:, :5])


def test_kept_vectors_are_not_used_for_another_model_or_question_or_from_a_damaged_file(study, tmp_path):
    dense.build_index(study, "tiny", device="cpu")
    retriever, texts = Dense(study, "tiny", "cpu"), ["Who?", "Where?"]
    vectors = question_vectors(study, retriever, texts)
    np.testing.assert_allclose(
        question_vectors(study, retriever, ["Where?", "When?"])[1:], retriever.encode(["When?"]), atol=1e-6
    )
    study.path("indexes", "tiny", FILE).write_bytes(b"this is no database" * 100)
    np.testing.assert_allclose(question_vectors(study, retriever, texts), vectors, atol=1e-6)
    study.path("indexes", "tiny", FILE).unlink()
    question_vectors(study, retriever, texts)
    tiny_bert(tmp_path / "other", seed=5)
    old = study.settings.encoders["tiny"].model
    study.settings_path.write_text(study.settings_path.read_text().replace(old, str(tmp_path / "other")))
    changed = Dense(study, "tiny", "cpu")
    with pytest.raises(Refused, match="model_hash"):
        question_vectors(study, changed, texts)
    dense.build_index(study, "tiny", device="cpu")
    assert not np.allclose(question_vectors(study, Dense(study, "tiny", "cpu"), texts), vectors)
