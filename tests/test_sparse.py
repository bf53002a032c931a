"""Learned sparse retrieval, compared with sentence-transformers' own encode, similarity and decode."""

from __future__ import annotations

import numpy as np
import pytest
from fastapi.testclient import TestClient

from blindspot.app.commands.indexes import encoder_add
from blindspot.backend.core.settings import EncoderSettings, add_encoder
from blindspot.backend.evaluation.report import report
from blindspot.backend.retrieval import encoded_blocks, live, sparse
from blindspot.backend.retrieval.cost import index_bytes
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.retrieval.indexes import available_retrievers
from blindspot.backend.retrieval.inverted_index import InvertedIndex, write_inverted_index
from blindspot.backend.retrieval.model_kinds import encoder_kind, kind_of_model
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.retrieval.retriever import RETRIEVERS, top_k
from blindspot.backend.retrieval.sparse_encoder import TermRows, load_sparse_encoder
from blindspot.backend.service.api import make_api
from blindspot.backend.service.service import Service
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.records import Hits
from tests.encoder_models import tiny_colbert, tiny_inference_free, tiny_masked_language_model, tiny_splade
from tests.studies import births, make_study, people, tiny_bert
from tests.ties import first as first_hits
from tests.ties import same_ranking

QUESTIONS = ["Where was Arve Berg born?", "oslo", "town of the north 1912"]
MODELS = {"splade": tiny_splade, "inference-free": tiny_inference_free}


@pytest.fixture(scope="module", params=MODELS)
def made(request, tmp_path_factory):
    """(study with a sparse index, the library's own model, the encoder's name)."""
    from sentence_transformers import SparseEncoder

    passages = people()
    study = make_study(tmp_path_factory.mktemp(request.param) / "study", passages, births(passages))
    folder = MODELS[request.param](study.folder / "models" / request.param)
    add_encoder(study.settings_path, request.param, {"model": str(folder), "kind": "sparse", "max_tokens": 64})
    sparse.build_index(study, request.param, device="cpu")
    library = SparseEncoder(str(folder), device="cpu")
    library.max_seq_length = 64
    return study, library, request.param


def texts(study):
    return [f"{passage.title} [SEP] {passage.text}" for passage in study.corpus.scan()]


def theirs(library, study):
    """The library's scores of every question and passage, (q, n)."""
    return library.similarity(library.encode_query(QUESTIONS), library.encode_document(texts(study))).to_dense().numpy()


def test_scores_are_those_of_the_library_and_ties_are_ordered_by_row(made):
    study, library, name = made
    expected = theirs(library, study)
    retriever = sparse.Sparse(study, name, "cpu")
    hits = retriever.search(QUESTIONS, len(study.corpus))
    for row in range(len(QUESTIONS)):
        found = hits.ordinals[row][hits.ordinals[row] >= 0]
        np.testing.assert_allclose(hits.scores[row][: len(found)], expected[row][found], rtol=1e-5)
        assert (np.delete(expected[row], found) == 0).all(), "a passage that shares a term is missing"
        order = top_k(found[None], hits.scores[row][None, : len(found)], len(found))
        assert order.ordinals[0].tolist() == found.tolist()
    short = retriever.search(QUESTIONS, 5)
    same_ranking(short, Hits(hits.ordinals[:, :5], hits.scores[:, :5]))


def test_stored_weights_are_those_of_the_library(made):
    study, library, name = made
    index = InvertedIndex(study.path("indexes", name), "")
    expected = library.encode_document(texts(study), convert_to_sparse_tensor=False).numpy()
    for row in range(len(expected)):
        terms, weights = index.passages.row(row)
        assert terms.tolist() == np.flatnonzero(expected[row]).tolist()
        np.testing.assert_allclose(weights, expected[row][terms], rtol=1e-5, atol=1e-7)


def test_an_explanation_adds_up_to_the_score_and_names_the_librarys_words(made):
    study, library, name = made
    retriever = sparse.Sparse(study, name, "cpu")
    hits = retriever.search(QUESTIONS[:1], 3)
    row = int(hits.ordinals[0, 1])
    found = retriever.explain(QUESTIONS[0], row)
    assert found.score == pytest.approx(float(hits.scores[0, 1]), rel=1e-6)
    assert sum(match.product for match in found.shared_terms) == pytest.approx(found.score, rel=1e-6)
    decoded = library.decode(library.encode_query(QUESTIONS[0]))
    assert dict(found.question) == pytest.approx(dict(decoded), rel=1e-4)
    decoded = library.decode(library.encode_document(texts(study)[row]))
    assert dict(found.passage) == pytest.approx(dict(decoded), rel=1e-4)
    assert [weight for _, weight in found.passage] == sorted((w for _, w in found.passage), reverse=True)


def test_a_run_a_live_question_and_the_service_agree(made, monkeypatch):
    monkeypatch.delenv("BLINDSPOT_BACKEND", raising=False)
    study, _, name = made
    run = retrieve(study, "sparse", encoder=name, split="dev", k=5, device="cpu", replace=True)
    assert run.name == f"{name}-dev" and run.manifest["kind"] == "sparse"
    kind = RETRIEVERS.get("sparse")
    assert kind.made(run.manifest) and kind.describe(run.manifest) == f"learned sparse, {name}"
    assert kind.retriever_of(run.manifest) in available_retrievers(study)
    assert run.manifest["index_bytes"] == index_bytes(study, kind, kind.options(encoder=name))
    first = study.questions.with_ids(run.question_ids)[0].text
    alone = live.search(study, f"sparse:{name}", [first], 5)
    same_ranking(alone, first_hits(run.hits, 1))
    with TestClient(make_api(Service(study, "cpu")), base_url="http://localhost") as client:
        answer = client.post("/search", json={"retriever": f"sparse:{name}", "questions": [first], "k": 5}).json()
    assert answer["ordinals"] == [[row for row in alone.ordinals[0].tolist() if row >= 0]]
    assert report(study, [run.name], measures=["ndcg"]).runs[0].measures["ndcg"].at[5].n > 0


def test_an_interrupted_encoding_resumes_after_its_last_block(tmp_path, monkeypatch):
    monkeypatch.setattr(encoded_blocks, "BLOCK", 16)
    monkeypatch.setattr(encoded_blocks, "PER_STEP", 8)
    passages = people()
    study = make_study(tmp_path / "study", passages, births(passages))
    add_encoder(study.settings_path, "s", {"model": str(tiny_splade(tmp_path / "s"))})

    class Cancelled(Exception):
        pass

    def stop_at_40(done, total, doing):
        if done >= 40 and doing.startswith("encoding"):
            raise Cancelled

    with pytest.raises(Cancelled):
        sparse.build_index(study, "s", device="cpu", progress=stop_at_40)
    blocks = sorted(path.name for path in study.path("indexes", "s", "blocks").glob("*.npz"))
    assert blocks == ["0000000000.npz", "0000000016.npz"] and "sparse:s" not in available_retrievers(study)
    started = []
    sparse.build_index(study, "s", device="cpu", progress=lambda done, *_: started.append(done))
    assert started[0] == 32 and "sparse:s" in available_retrievers(study)
    assert not study.path("indexes", "s", "blocks").exists()
    again = sparse.Sparse(study, "s", "cpu").search(QUESTIONS, 5)
    study.path("indexes", "s", "manifest.json").unlink()
    sparse.build_index(study, "s", device="cpu")
    same_ranking(sparse.Sparse(study, "s", "cpu").search(QUESTIONS, 5), again)


def test_the_inverted_index_equals_a_dense_product(tmp_path):
    random = np.random.default_rng(0)
    weights = random.random((50, 20)).astype(np.float32) * (random.random((50, 20)) < 0.3)
    weights[7] = weights[31]  # a tie
    weights[4] = 0  # a passage without terms
    asked = random.random((6, 20)).astype(np.float32) * (random.random((6, 20)) < 0.3)

    def rows(matrix):
        row, term = np.nonzero(matrix)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(matrix)))])
        return TermRows(offsets.astype(np.int64), term.astype(np.int32), matrix[row, term])

    write_inverted_index(tmp_path, lambda: (rows(weights[start : start + 16]) for start in range(0, 50, 16)), 20, 50)
    hits = InvertedIndex(tmp_path, "").search(rows(asked), 10)
    expected = (asked.astype(np.float64) @ weights.astype(np.float64).T).astype(np.float32)
    order = np.lexsort((np.tile(np.arange(50), (6, 1)), -expected), axis=1)[:, :10]
    assert hits.ordinals.tolist() == np.where(np.take_along_axis(expected, order, 1) > 0, order, -1).tolist()
    present = hits.ordinals >= 0
    assert (hits.scores[present] == np.take_along_axis(expected, order, 1)[present]).all()


def test_every_kind_of_model_is_recognised(tmp_path):
    plain = tmp_path / "plain"
    tiny_bert(plain)
    assert kind_of_model(plain) is None
    assert kind_of_model(tiny_splade(tmp_path / "s")) == "sparse"
    assert kind_of_model(tiny_inference_free(tmp_path / "i")) == "sparse"
    assert kind_of_model(tiny_colbert(tmp_path / "c")) == "late-interaction"
    (tmp_path / "i" / "config_sentence_transformers.json").write_text("{}")
    assert kind_of_model(tmp_path / "i") == "sparse", "the modules say it where the library's version did not"
    assert encoder_kind(EncoderSettings(model=str(tmp_path / "c"))) == "late-interaction"
    assert encoder_kind(EncoderSettings(model=str(plain), kind="sparse")) == "sparse"
    assert encoder_kind(EncoderSettings(model="some/name")) == "dense"
    (tmp_path / "c" / "config_sentence_transformers.json").write_text("{")
    assert encoder_kind(EncoderSettings(model=str(tmp_path / "c"))) == "dense", "loading it says what is wrong"
    with pytest.raises(BadInput, match="is not JSON"):
        load_encoder(EncoderSettings(model=str(tmp_path / "c")), "cpu")


def test_the_wrong_kind_of_model_is_one_line(tmp_path):
    splade, plain = tiny_splade(tmp_path / "s"), tmp_path / "plain"
    tiny_bert(plain)
    with pytest.raises(
        Refused, match=r"s is a sparse encoder \(SPLADE\), not a dense encoder; use 'blindspot index sp"
    ):
        load_encoder(EncoderSettings(model=str(splade)), "cpu")
    with pytest.raises(Refused, match="has no head that predicts words, so it cannot weigh terms"):
        load_sparse_encoder(EncoderSettings(model=str(plain), kind="sparse"), "cpu")
    with pytest.raises(Refused, match=r"is a late-interaction encoder \(ColBERT\), not a sparse encoder"):
        load_sparse_encoder(EncoderSettings(model=str(tiny_colbert(tmp_path / "c"))), "cpu")
    with pytest.raises(Refused, match="a sparse index ranks by dot or cosine, not by l2"):
        load_sparse_encoder(EncoderSettings(model=str(splade), similarity="l2"), "cpu")
    mlm = tiny_masked_language_model(tmp_path / "mlm")
    assert load_sparse_encoder(EncoderSettings(model=str(mlm), kind="sparse"), "cpu").similarity == "dot"


def test_a_study_says_what_is_missing_and_what_changed(indexed_study, tmp_path):
    from blindspot.backend.core.copying import copy_study

    with pytest.raises(Refused, match="^encoder 'tiny' is dense, not sparse; name one with --encoder "):
        sparse.Sparse(indexed_study, "tiny")
    copy_study(indexed_study, tmp_path / "copy")
    study = type(indexed_study).open(tmp_path / "copy")
    add_encoder(study.settings_path, "s", {"model": str(tiny_splade(tmp_path / "s")), "kind": "sparse"})
    with pytest.raises(Missing, match="no sparse index for encoder 's'; run 'blindspot index sparse --encoder s'"):
        sparse.Sparse(study, "s")
    with pytest.raises(Refused, match="encoder 's' is sparse, not dense; use --with sparse --encoder s"):
        retrieve(study, "dense", encoder="s", split="dev", k=5)
    assert [step.command for step in RETRIEVERS.get("sparse").steps(study)] == ["blindspot index sparse --encoder s"]
    sparse.build_index(study, "s", device="cpu")
    text = study.settings_path.read_text()
    study.settings_path.write_text(text.replace('kind = "sparse"', 'kind = "sparse"\nmax_tokens = 9'))
    with pytest.raises(Refused, match=r"has changed since its index was made \(max_tokens: 9, in the index 256\)"):
        sparse.Sparse(study, "s").search(["x"], 1)
    study.path("indexes", "s", "postings.rows.npy").write_bytes(b"x")
    with pytest.raises(BadInput, match="run 'blindspot index sparse --encoder s' again"):
        sparse.Sparse(study, "s")


def test_encoder_add_recognises_the_kind(indexed_study, tmp_path, capsys):
    from blindspot.backend.core.copying import copy_study

    copy_study(indexed_study, tmp_path / "copy")
    study = type(indexed_study).open(tmp_path / "copy")
    options = {"trust": False, "study": str(study.folder)}
    encoder_add(encoder="s", model=str(tiny_splade(tmp_path / "s")), **options, **_unset("model"))
    said = capsys.readouterr().out
    assert "s: sparse, " in said and "Next: blindspot index sparse --encoder s" in said
    assert study.settings.encoders["s"].kind == "sparse"
    encoder_add(encoder="c", model=str(tiny_colbert(tmp_path / "c")), **options, **_unset("model"))
    said = capsys.readouterr().out
    assert (
        "c: late interaction, 8 dimensions a token" in said and "blindspot index late-interaction --encoder c" in said
    )
    plain = tmp_path / "plain"
    tiny_bert(plain)
    encoder_add(encoder="d", model=str(plain), pooling="cls", **options, **_unset("model", "pooling"))
    assert "d: 32 dimensions" in capsys.readouterr().out and study.settings.encoders["d"].kind == "auto"
    (plain / "config.json").write_text('{"model_type": "bert", "architectures": ["BertForSequenceClassification"]}')
    with pytest.raises(Refused, match="plain is a cross-encoder, which scores pairs and encodes no passages"):
        encoder_add(encoder="x", model=str(plain), **options, **_unset("model"))


def _unset(*given: str) -> dict[str, None]:
    from blindspot.backend.core.declared import declared_settings

    return {name: None for name in declared_settings(EncoderSettings) if name not in given}
