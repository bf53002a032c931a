"""Late interaction, compared with sentence-transformers' own encode and MaxSim."""

from __future__ import annotations

import numpy as np
import pytest
from fastapi.testclient import TestClient

from blindspot.backend.core.settings import EncoderSettings, add_encoder
from blindspot.backend.retrieval import live
from blindspot.backend.retrieval import token_vectors as stored
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.retrieval.indexes import available_retrievers
from blindspot.backend.retrieval.late_interaction import LateInteraction, build_index
from blindspot.backend.retrieval.multi_vector_encoder import load_multi_vector_encoder
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.retrieval.retriever import RETRIEVERS, top_k
from blindspot.backend.retrieval.token_vectors import TokenVectors, write_token_vectors
from blindspot.backend.service.api import make_api
from blindspot.backend.service.service import Service
from blindspot.db.errors import Missing, Refused
from tests.encoder_models import tiny_colbert
from tests.studies import births, make_study, people, tiny_bert
from tests.ties import first as first_hits
from tests.ties import same_ranking

QUESTIONS = ["Where was Arve Berg born?", "oslo", "town of the north 1912"]
KNOBS = {
    "plain": {},
    "expanded": {"query_expansion": {"strategy": "fixed", "length": 12, "token": "[MASK]"}, "document_length": 40},
}


@pytest.fixture(scope="module", params=KNOBS)
def made(request, tmp_path_factory):
    """(study with a late-interaction index, the library's own model, the encoder's name)."""
    from sentence_transformers import MultiVectorEncoder

    passages = people()
    study = make_study(tmp_path_factory.mktemp(request.param) / "study", passages, births(passages))
    folder = tiny_colbert(study.folder / "models" / request.param, **KNOBS[request.param])
    add_encoder(study.settings_path, request.param, {"model": str(folder), "max_tokens": 64})
    build_index(study, request.param, device="cpu")
    library = MultiVectorEncoder(str(folder), device="cpu")
    library.max_seq_length = 64
    return study, library, request.param


def texts(study):
    return [f"{passage.title} [SEP] {passage.text}" for passage in study.corpus.scan()]


def theirs(library, study):
    """The library's scores of every question and passage, of passage vectors rounded to float16 as they are stored."""
    documents = [each.half().float() for each in library.encode_document(texts(study))]
    return library.similarity(library.encode_query(QUESTIONS), documents).numpy()


def test_stored_vectors_are_those_of_the_library(made):
    study, library, name = made
    vectors = TokenVectors(study.path("indexes", name), "cpu", "")
    for row, expected in enumerate(library.encode_document(texts(study), convert_to_numpy=True)):
        assert vectors.vectors_of(row).shape == expected.shape
        np.testing.assert_allclose(vectors.vectors_of(row), expected, atol=1e-3)


def test_scores_and_order_are_those_of_the_librarys_maxsim(made):
    study, library, name = made
    expected = theirs(library, study)
    every = LateInteraction(study, name, candidates=0, device="cpu")
    hits = every.search(QUESTIONS, len(study.corpus))
    for row in range(len(QUESTIONS)):
        assert sorted(hits.ordinals[row]) == list(range(len(study.corpus)))
        np.testing.assert_allclose(hits.scores[row], expected[row][hits.ordinals[row]], rtol=1e-5)
        again = top_k(hits.ordinals[row][None], hits.scores[row][None], hits.k)
        assert again.ordinals[0].tolist() == hits.ordinals[row].tolist()


def test_candidates_are_those_of_the_pooled_vectors_and_keep_their_exact_scores(made):
    study, library, name = made
    expected = theirs(library, study)
    hits = LateInteraction(study, name, candidates=12, device="cpu").search(QUESTIONS, 5)
    vectors = TokenVectors(study.path("indexes", name), "cpu", "")
    pooled = np.stack([vectors.vectors_of(row).astype(np.float32).mean(0) for row in range(len(vectors))])
    pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors.pooled, pooled, atol=1e-3)
    for row, question in enumerate(library.encode_query(QUESTIONS, convert_to_numpy=True)):
        first = np.argsort(-(vectors.pooled.astype(np.float64) @ question.sum(0)), kind="stable")[:12]
        assert set(hits.ordinals[row].tolist()) <= set(first.tolist())
        best = sorted(first.tolist(), key=lambda passage: (-expected[row][passage], passage))[:5]
        np.testing.assert_allclose(hits.scores[row], expected[row][best], rtol=1e-5)


def test_the_mean_over_question_tokens_is_that_of_the_library(tmp_path):
    from sentence_transformers import MultiVectorEncoder

    passages = people()
    study = make_study(tmp_path / "study", passages, births(passages))
    folder = tiny_colbert(tmp_path / "mean")
    model = MultiVectorEncoder(str(folder), device="cpu", similarity_fn_name="meanmaxsim")
    model.save(str(folder))
    add_encoder(study.settings_path, "mean", {"model": str(folder), "kind": "late-interaction", "max_tokens": 64})
    build_index(study, "mean", device="cpu")
    model.max_seq_length = 64
    hits = LateInteraction(study, "mean", device="cpu").search(QUESTIONS, 3)
    expected = theirs(model, study)
    np.testing.assert_allclose(hits.scores, np.take_along_axis(expected, hits.ordinals, 1), rtol=1e-5)


def test_scores_do_not_depend_on_the_blocks(made, monkeypatch):
    study, _, name = made
    whole = LateInteraction(study, name, candidates=0, device="cpu").search(QUESTIONS, 10)
    monkeypatch.setattr(stored, "TOKENS_CPU", 50)
    cut = LateInteraction(study, name, candidates=0, device="cpu").search(QUESTIONS, 10)
    assert (whole.scores == cut.scores).all() and (whole.ordinals == cut.ordinals).all()


def test_a_passage_without_token_vectors_is_no_hit(tmp_path):
    tokens = np.eye(3, dtype=np.float16)
    block = {"lengths": np.array([1, 0, 2]), "tokens": tokens}
    assert write_token_vectors(tmp_path, lambda: [block], 3)["tokens"] == 3
    scores = TokenVectors(tmp_path, "cpu", "").maxsim(np.float32([[1, 0, 0], [0, 0, 2]]), np.array([2, 1, 0]))
    assert scores.tolist() == [2.0, -np.inf, 1.0]


def test_an_explanation_adds_up_and_marks_the_words_of_the_passage(made):
    study, library, name = made
    retriever = LateInteraction(study, name, device="cpu")
    hits = retriever.search(QUESTIONS[:1], 3)
    row = int(hits.ordinals[0, 1])
    found = retriever.explain(QUESTIONS[0], row)
    assert found.score == pytest.approx(float(hits.scores[0, 1]), rel=1e-6)
    assert found.products.max(1).sum() == pytest.approx(found.score, rel=1e-4)
    assert found.contributions.sum() == pytest.approx(found.score, rel=1e-4)
    asked = library.encode_query([QUESTIONS[0]])[0]
    assert found.products.shape == (len(asked), len(library.encode_document([texts(study)[row]])[0]))
    (passage,) = study.corpus.passages([row])
    marked = [(word, passage.text[slice(*span)]) for word, span in zip(found.passage, found.spans, strict=True) if span]
    assert len(marked) > 5 and all(word.removeprefix("##") in (text.lower(), "[UNK]") for word, text in marked)
    assert found.question[0] == "[CLS]" and "where" in found.question and "." not in found.passage


def test_a_run_a_live_question_and_the_service_agree(made, monkeypatch):
    monkeypatch.delenv("BLINDSPOT_BACKEND", raising=False)
    study, _, name = made
    run = retrieve(study, "late-interaction", encoder=name, split="dev", k=5, device="cpu", replace=True)
    kind = RETRIEVERS.get("late-interaction")
    assert run.name == f"{name}-dev" and kind.made(run.manifest) and run.manifest["candidates"] == 1000
    assert kind.describe(run.manifest) == f"late interaction, {name}, 1,000 candidates"
    assert kind.retriever_of(run.manifest) in available_retrievers(study)
    folder = study.path("indexes", name)
    files = ("tokens.npy", "offsets.npy", "pooled.npy", "manifest.json")
    assert run.manifest["index_bytes"] == sum((folder / file).stat().st_size for file in files)
    first, asked = study.questions.with_ids(run.question_ids)[0].text, f"late-interaction:{name}"
    alone = live.search(study, asked, [first], 5)
    same_ranking(alone, first_hits(run.hits, 1))
    with TestClient(make_api(Service(study, "cpu")), base_url="http://localhost") as client:
        answer = client.post("/search", json={"retriever": asked, "questions": [first], "k": 5}).json()
    assert answer["ordinals"] == [[row for row in alone.ordinals[0].tolist() if row >= 0]]


def test_the_wrong_kind_of_model_is_one_line(made, tmp_path):
    study, _, name = made
    plain, folder = tmp_path / "plain", study.settings.encoders[name].model
    tiny_bert(plain)
    with pytest.raises(Refused, match="has no trained projection of token vectors; give a ColBERT model"):
        load_multi_vector_encoder(EncoderSettings(model=str(plain), kind="late-interaction"), "cpu")
    with pytest.raises(Refused, match="ranks by the model's own MaxSim; leave out --similarity"):
        load_multi_vector_encoder(EncoderSettings(model=folder, similarity="dot"), "cpu")
    with pytest.raises(
        Refused, match=r"is a late-interaction encoder \(ColBERT\), not a dense encoder; use 'blindspot"
    ):
        load_encoder(EncoderSettings(model=folder), "cpu")
    add_encoder(study.settings_path, "other", {"model": folder})
    with pytest.raises(Missing, match="run 'blindspot index late-interaction --encoder other'"):
        LateInteraction(study, "other")
    steps = [step.command for step in RETRIEVERS.get("late-interaction").steps(study)]
    assert steps == ["blindspot index late-interaction --encoder other"]
