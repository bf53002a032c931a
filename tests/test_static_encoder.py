"""A static encoder is made from an encoder of the study, and is an encoder like any other."""

import numpy as np
import pytest

from blindspot.backend.core.settings import add_encoder
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval import dense
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.retrieval.static_encoder import make_static_encoder
from blindspot.db.errors import Missing, Refused
from tests.absent import hide
from tests.studies import births, make_study, people, tiny_bert

pytest.importorskip("model2vec", reason='Model2Vec is not installed (pip install "blindspot[static]")')


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("static")
    made = make_study(folder / "study", people(), births(people()))
    tiny_bert(folder / "bert")
    add_encoder(made.settings_path, "tiny", {"model": str(folder / "bert"), "pooling": "mean", "max_tokens": 64})
    two = {"question_model": str(folder / "bert"), "passage_model": str(folder / "bert"), "pooling": "mean"}
    add_encoder(made.settings_path, "two", two)
    return Study.open(made.folder)


def test_it_is_made_indexed_and_searched(study, loads_one_at_a_time):
    made = make_static_encoder(study, "first", "tiny")
    assert made["tokens"] > 50 and made["dimension"] > 0
    opened = Study.open(study.folder)
    manifest = dense.build_index(opened, "first")
    assert manifest["dimension"] == made["dimension"] and manifest["similarity"] == "cosine"
    retrieve(opened, "dense", encoder="first", split="dev", k=5, name="static-dev")
    assert len(opened.run("static-dev").hits) == len(births(people()))
    vectors = np.load(study.path("indexes", "first", "embeddings.npy")).astype(np.float32)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-2)
    encoder = dense.Dense(opened, "first").encoder
    words, turned = encoder.encode_questions(["Arve was a sailor", "sailor a was Arve"])
    np.testing.assert_allclose(words, turned, atol=1e-6)  # it knows no order of words


def test_bad_input_is_one_line(study, monkeypatch):
    with pytest.raises(Missing, match="no encoder 'absent'"):
        make_static_encoder(study, "x", "absent")
    with pytest.raises(Refused, match="a tower for questions and one for passages"):
        make_static_encoder(study, "x", "two")
    with pytest.raises(Refused, match="there is already an encoder or model named 'tiny'"):
        make_static_encoder(study, "tiny", "tiny")
    hide(monkeypatch, "model2vec")
    with pytest.raises(Missing, match=r"static encoders need the extra static: pip install 'blindspot\[static\]'"):
        make_static_encoder(study, "x", "tiny")
    assert not study.path("models", "x").exists()
