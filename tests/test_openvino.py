"""OpenVINO gives the vectors of the model that it runs."""

import sys

import numpy as np
import pytest

from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.retrieval.encoder import load_encoder
from blindspot.backend.retrieval.openvino_model import has_openvino
from blindspot.backend.retrieval.passage_encoder import PassageEncoder
from blindspot.db.errors import Missing, Refused
from tests.absent import hide
from tests.studies import people, tiny_bert

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


def test_without_openvino_auto_goes_on(encoder, monkeypatch):
    hide(monkeypatch, "openvino")
    with pytest.raises(Missing, match=r"OpenVINO needs the extra openvino: pip install 'blindspot\[openvino\]'"):
        PassageEncoder(encoder, "float32", PASSAGES, engine="openvino")
    assert PassageEncoder(encoder, "auto", PASSAGES, engine="openvino").engine == "torch"


def test_the_removed_precision_is_one_line(encoder):
    with pytest.raises(Refused, match="unknown precision 'int8'; known: auto, float32, bfloat16, float16"):
        PassageEncoder(encoder, "int8", PASSAGES)
