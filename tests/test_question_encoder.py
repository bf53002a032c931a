"""Questions get the vectors of SentenceTransformer.encode_query, from a model that is loaded once."""

import numpy as np
import pytest

from blindspot.backend.core.settings import add_encoder
from blindspot.backend.retrieval import dense, question_vectors
from blindspot.backend.retrieval.dense import Dense, build_index
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.db.errors import Refused
from tests.studies import births, make_study, people, tiny_bert

PASSAGES = people(20)
QUESTIONS = [question.text for question in births(PASSAGES)] + ["", "Zürich, 北京?", "where " * 200]


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Make a study with an index of an encoder with these settings."""
    monkeypatch.setattr(dense, "QUESTIONS_PER_STEP", 8)

    def make(**settings):
        tiny_bert(tmp_path / "bert")
        study = make_study(tmp_path / "study", PASSAGES, births(PASSAGES, split="dev"))
        values = {"model": str(tmp_path / "bert"), "pooling": "mean", "max_tokens": 32, **settings}
        add_encoder(study.settings_path, "tiny", {key: value for key, value in values.items() if value is not None})
        study = type(study).open(study.folder)
        build_index(study, "tiny", device="cpu")
        return study

    return make


@pytest.mark.parametrize(
    "changed", [{}, {"similarity": "cosine", "question_prompt": "ask: "}, {"dimensions": 8}, {"model": None}], ids=str
)
def test_equals_sentence_transformers(make, tmp_path, changed):
    if "model" in changed:
        tiny_bert(tmp_path / "other", seed=3)
        changed = changed | {"question_model": str(tmp_path / "bert"), "passage_model": str(tmp_path / "other")}
    study, told = make(**changed), []
    ours = Dense(study, "tiny", "cpu").encode(QUESTIONS, lambda done, total, step: told.append((done, total)))
    encoder = load_encoder(study.settings.encoders["tiny"], "cpu")
    theirs = encoder.model.encode_query(QUESTIONS)
    if encoder.similarity == "cosine":
        theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert ours.dtype == np.float32 and told == [(0, 17), (8, 17), (16, 17)]


def test_a_model_is_loaded_once_and_not_for_questions_whose_vectors_are_stored(make, monkeypatch):
    study, loaded = make(), []
    monkeypatch.setattr(dense, "load_encoder", lambda *given: loaded.append(given) or load_encoder(*given))
    first = Dense(study, "tiny", "cpu")
    stored = question_vectors.question_vectors(study, first, QUESTIONS)
    first.search(QUESTIONS[:3], 5)
    first.search(QUESTIONS[3:], 5)
    assert len(loaded) == 1
    again = question_vectors.question_vectors(study, Dense(study, "tiny", "cpu"), QUESTIONS)
    assert len(loaded) == 1 and np.array_equal(again, stored)


def test_a_changed_model_is_refused_though_vectors_of_the_old_one_are_stored(make, tmp_path):
    study = make()
    question_vectors.question_vectors(study, Dense(study, "tiny", "cpu"), QUESTIONS)
    tiny_bert(tmp_path / "bert", seed=5)
    with pytest.raises(Refused, match="encoder 'tiny' has changed since its index was made"):
        question_vectors.question_vectors(study, Dense(study, "tiny", "cpu"), QUESTIONS)
