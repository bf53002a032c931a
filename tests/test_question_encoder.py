"""Questions get the encoder's own vectors, also from a network that an earlier process stored."""

import subprocess
import sys

import numpy as np
import pytest

from blindspot.backend.core.manifest import read_json
from blindspot.backend.core.settings import EncoderSettings, add_encoder
from blindspot.backend.retrieval import network_cache, openvino_model, question_encoder
from blindspot.backend.retrieval.dense import Dense, build_index
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.retrieval.openvino_model import has_openvino
from blindspot.backend.retrieval.passage_encoder import vectors_agree
from blindspot.backend.retrieval.question_encoder import QuestionEncoder
from blindspot.db.errors import Refused
from tests.studies import births, make_study, people, tiny_bert

PASSAGES = people(20)
QUESTIONS = [question.text for question in births(PASSAGES)] + ["", "Zürich, 北京?", "where " * 200]
needs_openvino = pytest.mark.skipif(not has_openvino(), reason='pip install "blindspot[openvino]"')


@pytest.fixture
def model(tmp_path):
    tiny_bert(tmp_path / "bert")
    return tmp_path / "bert"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of this test alone, and conversion from four questions on."""
    monkeypatch.setenv(network_cache.CACHE, str(tmp_path / "cache"))
    monkeypatch.setattr(question_encoder, "WORTH_CONVERTING", 4)
    return tmp_path / "cache" / "networks"


def settings(folder, **changed):
    return EncoderSettings(**{"model": str(folder), "pooling": "mean", "max_tokens": 32, **changed})


class Loading:
    """A `QuestionEncoder` that counts how often its model is loaded."""

    def __init__(self, given):
        self.loaded, self.checked = 0, []

        def load():
            self.loaded += 1
            return load_encoder(given, "cpu")

        encoder = QuestionEncoder(given, "cpu", load, self.checked.append)
        self.encode, self.passage_network = encoder.encode, encoder.passage_network


@needs_openvino
@pytest.mark.parametrize(
    "changed",
    [{"similarity": "cosine", "question_prompt": "ask: "}, {"dimensions": 8}, {"towers": 2}],
    ids=str,
)
def test_a_stored_network_gives_the_encoders_vectors_without_loading_the_model(model, tmp_path, changed):
    if changed.pop("towers", None):
        tiny_bert(tmp_path / "other", seed=3)
        changed = {"model": None, "question_model": str(model), "passage_model": str(tmp_path / "other")}
    given = settings(model, **changed)
    exact, first = load_encoder(given, "cpu").encode_questions(QUESTIONS), Loading(given)
    np.testing.assert_allclose(first.encode(QUESTIONS), exact, atol=1e-5)
    assert first.loaded > 0
    later, ticks = Loading(given), []
    np.testing.assert_allclose(later.encode(QUESTIONS, ticks.append), exact, atol=1e-5)
    np.testing.assert_allclose(later.encode(QUESTIONS[:1]), exact[:1], atol=1e-5)
    assert later.loaded == 0 and ticks[0] == 0
    assert later.checked == [load_encoder(given, "cpu").describe()]


@needs_openvino
@pytest.mark.parametrize("changed", [{}, {"similarity": "cosine", "passage_prompt": "read: "}], ids=str)
def test_passages_take_the_network_of_questions_without_loading_the_model(model, changed):
    given, few = settings(model, **changed), PASSAGES[:6]
    exact = load_encoder(given, "cpu").encode_passages(few)
    texts = [given.passage_template.format(title=each.title, text=each.text) for each in few]
    assert Loading(given).passage_network(texts, False) is None, "none is stored, and none may be converted"
    Loading(given).encode(QUESTIONS)
    later = Loading(given)
    assert vectors_agree(later.passage_network(texts, False).encode(texts), exact, 0.03)
    assert later.loaded == 0 and later.checked == [load_encoder(given, "cpu").describe()] * 2


@needs_openvino
def test_a_network_that_an_older_version_stored_is_converted_again(model, cache, monkeypatch):
    """Entries of the format before said nothing of passages; they are not found."""
    given, texts, today = settings(model), [each.text for each in PASSAGES[:6]], network_cache.FORMAT
    monkeypatch.setattr(network_cache, "FORMAT", "1")
    Loading(given).encode(QUESTIONS)
    monkeypatch.setattr(network_cache, "FORMAT", today)
    again = Loading(given)
    assert again.passage_network(texts, False) is None and again.loaded == 0
    assert again.passage_network(texts, True) is not None and again.loaded == 1
    cards = [read_json(entry / network_cache.CARD) for entry in cache.iterdir()]
    assert today != "1" and len(cards) == 2 and all(card["passage_prompt"] == "" for card in cards)


@needs_openvino
def test_passages_with_a_tower_of_their_own_have_no_stored_network(model, tmp_path):
    tiny_bert(tmp_path / "other", seed=3)
    given = settings(model, model=None, question_model=str(model), passage_model=str(tmp_path / "other"))
    Loading(given).encode(QUESTIONS)
    again = Loading(given)
    assert again.passage_network(QUESTIONS[:4], True) is None and again.loaded == 0, "it was tried before"


@needs_openvino
def test_a_changed_model_never_finds_the_network_of_the_old_one(model, cache):
    Loading(settings(model)).encode(QUESTIONS)
    tiny_bert(model, seed=5)
    changed = Loading(settings(model))
    exact = load_encoder(settings(model), "cpu").encode_questions(QUESTIONS)
    np.testing.assert_allclose(changed.encode(QUESTIONS), exact, atol=1e-5)
    assert changed.loaded > 0 and len(list(cache.iterdir())) == 2
    assert network_cache.network_fingerprint(settings(model)) != network_cache.network_fingerprint(
        settings(model, max_tokens=16)
    )


@needs_openvino
def test_a_damaged_entry_is_made_again(model, cache):
    exact = load_encoder(settings(model), "cpu").encode_questions(QUESTIONS)
    Loading(settings(model)).encode(QUESTIONS)
    (entry,) = cache.iterdir()
    for name in (network_cache.CARD, network_cache.WEIGHTS):
        (entry / name).write_bytes((entry / name).read_bytes()[:-7] + b"damaged")
        again = Loading(settings(model))
        np.testing.assert_allclose(again.encode(QUESTIONS), exact, atol=1e-5)
        assert again.loaded > 0 and list(cache.iterdir()) == [entry]
    (entry / network_cache.NETWORK).unlink()
    assert network_cache.stored_network(entry.name) is None and not entry.exists()


@needs_openvino
def test_a_cache_that_cannot_be_written_stores_nothing(model, tmp_path, cache):
    cache.parent.write_text("a file is in the way")
    exact = load_encoder(settings(model), "cpu").encode_questions(QUESTIONS)
    for _ in range(2):
        np.testing.assert_allclose(Loading(settings(model)).encode(QUESTIONS), exact, atol=1e-5)
    assert cache.parent.read_text() == "a file is in the way"


@needs_openvino
@pytest.mark.parametrize("reason", ["inexact", "cannot be converted"])
def test_a_verdict_against_openvino_is_remembered(model, monkeypatch, reason):
    calls = []

    def converted(*given):
        calls.append(given)
        if reason == "inexact":
            return openvino_model.convert_network(*given)
        raise Refused("OpenVINO cannot convert this model")

    monkeypatch.setattr("blindspot.backend.retrieval.passage_encoder.convert_network", converted)
    monkeypatch.setattr(question_encoder, "OFF", 0.0)
    exact = load_encoder(settings(model), "cpu").encode_questions(QUESTIONS)
    for _ in range(2):
        np.testing.assert_allclose(Loading(settings(model)).encode(QUESTIONS), exact, atol=1e-5)
    assert len(calls) == 1


def test_the_cache_forgets_the_entry_that_was_unused_for_longest(cache, monkeypatch):
    monkeypatch.setattr(network_cache, "KEPT", 2)
    verdict = network_cache.StoredNetwork({}, "", 0, is_exact=False)
    network_cache.store_network("a", verdict, None, None)
    network_cache.store_network("b", verdict, None, None)
    found = network_cache.stored_network("a")
    assert found is not None and not found.is_exact
    network_cache.store_network("c", verdict, None, None)
    assert {folder.name for folder in cache.iterdir()} == {"a", "c"}


def test_few_questions_and_machines_without_openvino_go_the_plain_way(model, cache, monkeypatch):
    exact = load_encoder(settings(model), "cpu").encode_questions(QUESTIONS)
    np.testing.assert_allclose(Loading(settings(model)).encode(QUESTIONS[:3]), exact[:3], atol=1e-5)
    monkeypatch.setattr(question_encoder, "has_openvino", lambda: False)
    np.testing.assert_allclose(Loading(settings(model)).encode(QUESTIONS), exact, atol=1e-5)
    assert not cache.exists()


def test_a_model_with_files_elsewhere_has_no_fingerprint(model):
    (model / "adapter_config.json").write_text("{}")
    assert network_cache.network_fingerprint(settings(model)) is None


@needs_openvino
def test_a_search_needs_no_transformers_and_refuses_a_changed_encoder(tmp_path, model):
    study = make_study(tmp_path / "study", PASSAGES, births(PASSAGES, split="dev"))
    add_encoder(study.settings_path, "tiny", {"model": str(model), "pooling": "mean", "max_tokens": 32})
    study = type(study).open(study.folder)
    build_index(study, "tiny", device="cpu")
    expected = Dense(study, "tiny", "cpu").search(QUESTIONS[:8], 3)
    code = (
        "import sys; from pathlib import Path; from blindspot.backend.core.study import Study\n"
        "from blindspot.backend.retrieval.dense import Dense\n"
        f"print(Dense(Study.open(Path({str(study.folder)!r})), 'tiny', 'cpu').search({QUESTIONS[:2]!r}, 3).ordinals.tolist())\n"
        "print([name for name in ('transformers', 'sentence_transformers') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == [str(expected.ordinals[:2].tolist()), "[]"]

    tiny_bert(model, seed=5)
    question_encoder.QuestionEncoder(
        settings(model), "cpu", lambda: load_encoder(settings(model), "cpu"), print
    ).encode(QUESTIONS)
    with pytest.raises(Refused, match="encoder 'tiny' has changed since its index was made"):
        Dense(study, "tiny", "cpu").search(QUESTIONS[:1], 3)
