"""Bulk encoding gives the same vectors as SentenceTransformer.encode_document."""

import threading

import numpy as np
import pytest

from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.retrieval import passage_encoder as bulk
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.retrieval.passage_encoder import PassageEncoder
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


def encoded(encoder, tokens=200, precision="float32"):
    many = PassageEncoder(encoder, precision)
    many.tokens = tokens
    return many, many.encode(many.tokenise(PASSAGES)).numpy()


@pytest.mark.parametrize("changed", [{}, {"pooling": "cls"}, {"similarity": "cosine"}])
@pytest.mark.parametrize("tokens", [1, 200, 100_000])
def test_equals_sentence_transformers(bert, changed, tokens):
    encoder = load_encoder(settings(bert, **changed), "cpu")
    many, ours = encoded(encoder, tokens)
    assert many.tokenizer is not None and ours.dtype == np.float16
    np.testing.assert_allclose(ours, encoder.encode_passages(PASSAGES), atol=2e-3)


def test_a_prompt_for_passages_is_kept(bert):
    encoder = load_encoder(settings(bert), "cpu")
    without = encoded(encoder)[1]
    encoder.model.prompts["document"] = "the town of "
    many, ours = encoded(encoder)
    assert many.prompt == "the town of " and many.tokenizer is not None
    np.testing.assert_allclose(ours, encoder.encode_passages(PASSAGES), atol=2e-3)
    assert abs(ours.astype(np.float32) - without).max() > 0.05


def test_two_towers_take_the_one_for_passages(bert, tmp_path):
    tiny_bert(tmp_path, seed=3)
    encoder = load_encoder(
        EncoderSettings(question_model=bert, passage_model=str(tmp_path), pooling="cls", max_tokens=64), "cpu"
    )
    many, ours = encoded(encoder)
    assert many.tokenizer is not None
    np.testing.assert_allclose(ours, encoder.encode_passages(PASSAGES), atol=2e-3)
    assert abs(encoder.encode_questions([encoder.passage_text(PASSAGES[0])])[0] - ours[0]).max() > 0.1


@pytest.mark.parametrize("reason", ["no Rust tokenizer", "another tokenizer"])
def test_what_the_fast_way_does_not_fit_goes_the_plain_way(bert, monkeypatch, reason):
    encoder = load_encoder(settings(bert), "cpu")
    if reason == "no Rust tokenizer":
        monkeypatch.setattr(type(encoder.model.tokenizer), "is_fast", False)
    else:
        told = encoder.model.preprocess

        def other(texts, **given):
            features = told(texts, **given)
            features["input_ids"][-1, 3] += 1
            return features

        monkeypatch.setattr(encoder.model, "preprocess", other)
    many = PassageEncoder(encoder, "float32")
    monkeypatch.undo()
    assert many.tokenizer is None
    np.testing.assert_allclose(
        many.encode(many.tokenise(PASSAGES)).numpy(), encoder.encode_passages(PASSAGES), atol=2e-3
    )


def test_what_stands_in_the_block_beside_it_changes_no_vector(bert):
    many = PassageEncoder(load_encoder(settings(bert), "cpu"), "float32")
    many.tokens = 300
    whole = many.encode(many.tokenise(PASSAGES)).numpy().astype(np.float32)
    alone = [many.encode(many.tokenise([passage])).numpy()[0].astype(np.float32) for passage in PASSAGES]
    np.testing.assert_allclose(whole, alone, atol=2e-3)
    np.testing.assert_array_equal(whole, many.encode(many.tokenise(PASSAGES)).numpy())


def test_sixteen_bits_are_near_and_only_taken_where_a_sample_shows_it(bert, monkeypatch):
    encoder = load_encoder(settings(bert), "cpu")
    exact, ours = encoder.encode_passages(PASSAGES), encoded(encoder, precision="bfloat16")[1].astype(np.float32)
    assert 0 < abs(ours - exact).max() < 0.05
    monkeypatch.setattr(bulk, "quick_precisions", lambda device: ("bfloat16",))
    monkeypatch.setattr(bulk, "OFF", 10)
    assert PassageEncoder(encoder, "auto", PASSAGES).precision == "bfloat16"
    monkeypatch.setattr(bulk, "OFF", 1e-6)
    assert PassageEncoder(encoder, "auto", PASSAGES).precision == "float32"
    monkeypatch.setattr(bulk, "OFF", 10)
    monkeypatch.setattr(bulk, "MIN_COSINE", 1.0)
    assert PassageEncoder(encoder, "auto", PASSAGES).precision == "float32"
    assert PassageEncoder(encoder, "auto").precision == "float32"  # nothing to try it on


def test_vectors_in_a_narrow_cone_are_judged_by_their_distances():
    seeded = np.random.default_rng(0)
    cone = 100 + seeded.normal(size=(16, 8))
    assert bulk.vectors_agree(cone * (1 + 1e-5), cone, 0.02)
    assert not bulk.vectors_agree(
        cone + 0.3 * seeded.normal(size=cone.shape), cone, 0.02
    )  # cosines above 0.9999 nevertheless
    cone[3, 2] = np.nan
    assert not bulk.vectors_agree(cone, cone, 0.02)


@pytest.mark.parametrize("precision, says", [("float8", "known: auto"), ("float16", "needs a GPU")])
def test_a_precision_that_will_not_do(bert, precision, says):
    with pytest.raises(Refused, match=says):
        PassageEncoder(load_encoder(settings(bert), "cpu"), precision)


@pytest.mark.parametrize("where", ["read", "write", "tick"])
def test_whatever_fails_beside_the_model_ends_the_work(bert, where):
    many, written, before = PassageEncoder(load_encoder(settings(bert), "cpu"), "float32"), [], threading.active_count()

    def fail_at(place):
        if place == where:
            raise OSError(place)

    def read(block):
        fail_at("read" if block == 2 else "")
        return PASSAGES[block : block + 3]

    def write(block, vectors):
        fail_at("write" if block == 2 else "")
        written.append((block, len(vectors)))

    with pytest.raises(OSError, match=where):
        many.encode_blocks(range(6), read, write, lambda block, done: fail_at("tick" if block == 2 else ""))
    assert (0, 3) in written and (2, 3) not in written and threading.active_count() == before


def test_blocks_are_written_in_order_and_progress_counts_inside_them(bert):
    many, written, told = PassageEncoder(load_encoder(settings(bert), "cpu"), "float32"), [], []
    many.tokens = 1
    many.encode_blocks(
        [4, 0],
        lambda block: PASSAGES[block : block + 2],
        lambda block, vectors: written.append((block, vectors.shape)),
        lambda block, done: told.append((block, done)),
    )
    assert written == [(4, (2, 32)), (0, (2, 32))] and told == [(4, 0), (4, 1), (0, 0), (0, 1)]
    many.encode_blocks([], None, None)
