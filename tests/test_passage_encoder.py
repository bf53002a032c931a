"""The passages of an index get the vectors of SentenceTransformer.encode_document."""

import numpy as np
import pytest

from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.retrieval import passage_encoder
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.retrieval.passage_encoder import PassageEncoder, least_cosine, vectors_agree
from blindspot.db.errors import Refused
from blindspot.db.records import Passage
from tests.studies import people, tiny_bert

PASSAGES = [
    *people(40),
    Passage("long", "Oslo", "where? " * 300),
    Passage("empty", "", ""),
    Passage("signs", "É", "Zürich 北京 e\u0301 \u200b -- ''"),
]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    tiny_bert(folder)
    return str(folder)


def settings(bert, **changed):
    return EncoderSettings(**{"model": bert, "pooling": "mean", "max_tokens": 64, **changed})


def theirs(encoder, passages=PASSAGES):
    """The library's own vectors."""
    vectors = encoder.model.encode_document([encoder.passage_text(passage) for passage in passages])
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if encoder.similarity == "cosine" else vectors


@pytest.mark.parametrize(
    "changed", [{}, {"pooling": "cls"}, {"similarity": "cosine"}, {"dimensions": 8}, {"passage_prompt": "the town of "}]
)
@pytest.mark.parametrize("batch", [1, 7, 64])
def test_equals_sentence_transformers(bert, changed, batch, monkeypatch):
    monkeypatch.setattr(passage_encoder, "BATCHES", 2)
    encoder = load_encoder(settings(bert, batch_size=batch, **changed), "cpu")
    ours = PassageEncoder(encoder, "float32").encode(PASSAGES)
    assert ours.dtype == np.float16 and ours.shape == (len(PASSAGES), changed.get("dimensions", 32))
    np.testing.assert_allclose(ours, theirs(encoder), atol=2e-3)


def test_a_prompt_for_passages_changes_their_vectors(bert):
    without, prompted = (
        PassageEncoder(load_encoder(settings(bert, passage_prompt=prompt), "cpu"), "float32").encode(PASSAGES)
        for prompt in (None, "the town of ")
    )
    assert abs(without.astype(np.float32) - prompted).max() > 0.05


def test_two_towers_take_the_one_for_passages(bert, tmp_path):
    tiny_bert(tmp_path, seed=3)
    towers = EncoderSettings(question_model=bert, passage_model=str(tmp_path), pooling="cls", max_tokens=64)
    encoder = load_encoder(towers, "cpu")
    ours = PassageEncoder(encoder, "float32").encode(PASSAGES)
    np.testing.assert_allclose(ours, theirs(encoder), atol=2e-3)
    assert abs(encoder.encode_questions([encoder.passage_text(PASSAGES[0])])[0] - ours[0]).max() > 0.1


def test_sixteen_bits_are_near_and_only_taken_where_a_sample_shows_it(bert, monkeypatch):
    encoder = load_encoder(settings(bert), "cpu")
    exact = encoder.encode_passages(PASSAGES)
    near = PassageEncoder(encoder, "bfloat16").encode(PASSAGES).astype(np.float32)
    assert 0 < abs(near - exact).max() < 0.1 and least_cosine(near, exact) > 0.99
    monkeypatch.setattr(passage_encoder, "quick_precisions", lambda device: ("bfloat16",))
    monkeypatch.setattr(passage_encoder, "MIN_COSINE", 0.99)
    assert PassageEncoder(encoder, "auto", PASSAGES).precision == "float32", "too far for passages that are so alike"
    monkeypatch.setattr(passage_encoder, "OFF", 10)
    assert PassageEncoder(encoder, "auto", PASSAGES).precision == "bfloat16"
    monkeypatch.setattr(passage_encoder, "MIN_COSINE", 1.0)
    careful = PassageEncoder(encoder, "auto", PASSAGES)
    assert careful.precision == "float32" and careful.encoder is encoder
    assert PassageEncoder(encoder, "auto").precision == "float32"  # nothing to try it on
    exact[3, 2] = np.nan
    assert least_cosine(exact, exact) == -1


def test_vectors_in_a_narrow_cone_are_judged_by_their_distances():
    seeded = np.random.default_rng(0)
    cone = 100 + seeded.normal(size=(16, 8))
    assert vectors_agree(cone * (1 + 1e-5), cone)
    assert not vectors_agree(cone + 0.3 * seeded.normal(size=cone.shape), cone)  # cosines above 0.9995 nevertheless
    cone[3, 2] = np.nan
    assert not vectors_agree(cone, cone)


@pytest.mark.parametrize("precision, says", [("float8", "known: auto"), ("float16", "needs a GPU")])
def test_a_precision_that_will_not_do(bert, precision, says):
    with pytest.raises(Refused, match=says):
        PassageEncoder(load_encoder(settings(bert), "cpu"), precision)


def test_progress_counts_the_passages(bert, monkeypatch):
    monkeypatch.setattr(passage_encoder, "BATCHES", 2)
    told = []
    PassageEncoder(load_encoder(settings(bert, batch_size=8), "cpu"), "float32").encode(PASSAGES[:40], told.append)
    assert told == [0, 16, 32]
