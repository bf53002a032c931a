"""OpenVINO gives the vectors of the model that it runs; integers are believed only where their loss was measured."""

import sys

import numpy as np
import pytest

from blindspot.backend.core.manifest import read_json
from blindspot.backend.core.settings import EncoderSettings, add_encoder
from blindspot.backend.retrieval import dense, int8
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.retrieval.openvino_model import has_openvino
from blindspot.backend.retrieval.passage_encoder import PassageEncoder
from blindspot.db.errors import Missing, Refused
from tests.absent import hide
from tests.studies import births, make_study, people, tiny_bert

if not has_openvino():
    pytest.skip('OpenVINO is not installed (pip install "blindspot[openvino]")', allow_module_level=True)
PASSAGES = people(60)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert")
    tiny_bert(folder)
    return str(folder)


@pytest.fixture(scope="module")
def encoder(bert):
    return load_encoder(EncoderSettings(model=bert, pooling="mean", max_tokens=64, similarity="cosine"), "cpu")


def test_openvino_gives_the_models_own_vectors_and_sends_nothing(encoder):
    ours = PassageEncoder(encoder, "float32", engine="openvino")
    assert ours.engine == "openvino"
    ticks = []
    vectors = ours.encode(ours.tokenise(PASSAGES), ticks.append)
    np.testing.assert_allclose(vectors.numpy(), encoder.encode_passages(PASSAGES), atol=1e-3)
    assert ticks[0] == 0 and sys.modules["openvino_telemetry"] is None


def test_auto_takes_openvino_only_where_it_is_exact(encoder, monkeypatch):
    from blindspot.backend.retrieval import passage_encoder

    assert PassageEncoder(encoder, "auto", PASSAGES, engine="openvino").engine == "openvino"
    monkeypatch.setattr(passage_encoder, "MIN_COSINE", 2.0)
    assert PassageEncoder(encoder, "auto", PASSAGES, engine="openvino").engine == "torch"


def test_int8_is_near_and_calibrated_on_passages(encoder):
    ours = PassageEncoder(encoder, "int8", PASSAGES)
    vectors = ours.encode(ours.tokenise(PASSAGES)).float().numpy()
    cosines = (vectors * encoder.encode_passages(PASSAGES)).sum(1)
    assert ours.engine == "openvino" and 0.97 < cosines.mean() < 1 - 1e-6  # near, and not the same arithmetic
    with pytest.raises(Refused, match="int8 needs passages to calibrate on"):
        PassageEncoder(encoder, "int8")


def test_without_openvino_int8_is_one_line_and_auto_goes_on(encoder, monkeypatch):
    hide(monkeypatch, "openvino")
    with pytest.raises(Missing, match=r"OpenVINO needs the extra openvino: pip install 'blindspot\[openvino\]'"):
        PassageEncoder(encoder, "int8", PASSAGES)
    assert PassageEncoder(encoder, "auto", PASSAGES, engine="openvino").engine == "torch"


@pytest.fixture
def study(tmp_path, bert):
    made = make_study(tmp_path / "study", PASSAGES, births(PASSAGES, split="dev"))
    add_encoder(made.settings_path, "tiny", {"model": bert, "pooling": "mean", "max_tokens": 64})
    return type(made).open(made.folder)


def test_the_loss_of_int8_stands_in_the_manifest_and_a_large_one_is_refused(study, monkeypatch):
    with pytest.raises(Refused, match="int8 may lose too much: Success@1"):
        dense.build_index(study, "tiny", precision="int8")  # 40 questions cannot show that at most 2 points are lost
    monkeypatch.setattr(int8, "MOST_LOST", 15.0)
    manifest = dense.build_index(study, "tiny", precision="int8")
    assert manifest["precision"] == "int8" and manifest["engine"].startswith("OpenVINO ")
    loss = manifest["int8"]
    assert loss["passages"] == len(PASSAGES) and [each["k"] for each in loss["success"]] == [1, 20]
    assert all(
        each["n"] == len(births(PASSAGES)) and each["low"] <= each["difference"] <= each["high"]
        for each in loss["success"]
    )
    assert read_json(study.path("indexes", "tiny", "manifest.json"))["int8"] == loss
    monkeypatch.setattr(int8, "MIN_MEAN_COSINE", 1.1)
    with pytest.raises(Refused, match="int8 moves this encoder's vectors too far"):
        dense.build_index(study, "tiny", precision="int8")
    monkeypatch.setattr(int8, "MIN_MEAN_COSINE", 0.0)
    monkeypatch.setattr(int8, "MOST_LOST", -1.0)
    with pytest.raises(Refused, match="int8 may lose too much: Success@1"):
        dense.build_index(study, "tiny", precision="int8")


def test_ranks_of_the_first_gold_passage():
    passages = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    questions = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    relevant = [np.array([1]), np.array([0, 2]), np.array([], int)]
    assert int8._first_gold(questions, passages, relevant, "dot").tolist() == [1, 0, 3]
    long = passages * [[3.0], [1.0], [1.0]]
    assert int8._first_gold(questions[:1], long, relevant[:1], "l2").tolist() == [0]
