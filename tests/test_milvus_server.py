"""Dense retrieval through a real Milvus server over gRPC: the hits of exact search, resuming after the server was killed, keys."""

import re

import pytest

from blindspot.backend.core import consent
from blindspot.backend.retrieval import live, milvus
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.milvus import Milvus
from blindspot.db.errors import BlindspotError
from tests.milvus_server import KEY, Server

pytest.importorskip("pymilvus", reason="pymilvus is not installed: 'pip install -r requirements-dev.txt'")
pytest.importorskip("milvus", reason="the Milvus server is not installed: 'pip install -r requirements-dev.txt'")
pytestmark = pytest.mark.slow

QUESTIONS = ["Where was Arve Aurset0 born?", "a weaver from Oslo", "who was raised by an aunt in Bodo", "the harbour"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("milvus"))
    try:
        server.start()
    except TimeoutError as error:
        pytest.skip(str(error))
    yield server
    server.kill()


@pytest.fixture
def study(own_indexed_study, server, monkeypatch):
    monkeypatch.setenv("MILVUS_KEY", KEY)
    consent.give_consent(own_indexed_study, server.uri, "MILVUS_KEY")
    return own_indexed_study


def _lists(retriever, k=60):
    return retriever.search(QUESTIONS, k).ordinals.tolist()


@pytest.mark.parametrize(
    ("index", "parameters"), [("FLAT", {}), ("HNSW", {"M": 16, "efConstruction": 100}), ("IVF_FLAT", {"nlist": 4})]
)
def test_the_hits_are_those_of_exact_search(study, server, index, parameters):
    record = milvus.build(study, "tiny", server.uri, index=index, parameters=parameters, replace=True)
    assert record["passages"] == 60 and re.match(r"v?\d+\.\d+", record["server"])
    ours, exact = Milvus(study, "tiny", "cpu"), Dense(study, "tiny", "cpu")
    for k in (1, 7, 60):
        assert _lists(ours, k) == _lists(exact, k), "60 vectors: a graph and four searched lists miss none"
    assert "milvus:tiny" in live.answering_retrievers(study)
    assert live.search(study, "milvus:tiny", QUESTIONS, 9).ordinals.tolist() == _lists(exact, 9)


def test_a_build_goes_on_after_the_server_was_killed(study, server, monkeypatch):
    monkeypatch.setattr(milvus, "BYTES_PER_INSERT", 4 * 32 * 16)
    sent = []

    def kill(done, total, doing):
        sent.append(done)
        if done >= 32:
            server.kill()

    monkeypatch.setattr(milvus, "SECONDS_TO_WRITE", 3.0)
    try:
        with pytest.raises(BlindspotError, match="Milvus at http://127.0.0.1:.* does not answer") as raised:
            milvus.build(study, "tiny", server.uri, replace=True, progress=kill)
        assert "\n" not in str(raised.value) and sent == [16, 32]
        with pytest.raises(BlindspotError, match=r"does not answer; is it running\?$"):
            milvus.build(study, "tiny", server.uri)
    finally:
        server.start()
    monkeypatch.setattr(milvus, "SECONDS_TO_WRITE", 300.0)
    again = []
    assert milvus.build(study, "tiny", server.uri, progress=lambda done, *_: again.append(done))["passages"] == 60
    assert again[0] > 16 and again[-1] == 60, "what the server had kept was not sent again"
    assert _lists(Milvus(study, "tiny", "cpu")) == _lists(Dense(study, "tiny", "cpu"))


def test_a_wrong_key_is_named(study, server, monkeypatch):
    for key in ("", "root:wrong"):
        monkeypatch.setenv("MILVUS_KEY", key)
        consent.give_consent(study, server.uri, "MILVUS_KEY" if key else "")
        with pytest.raises(BlindspotError, match="refuses the client; is its key right") as raised:
            milvus.build(study, "tiny", server.uri)
        assert "wrong" not in str(raised.value)


@pytest.mark.parametrize(
    ("version", "index", "embedded", "halves"),
    [
        ("v2.3.5-lite", "FLAT", False, False), ("2.4.0", "FLAT", False, True), ("v2.10.1", "HNSW", False, True), ("3.0", "FLAT", False, True),
        ("v2.6.0", "GPU_CAGRA", False, False), ("v2.6.0", "FLAT", True, False), ("unknown", "FLAT", False, False),
    ],
)  # fmt: skip
def test_vectors_have_16_bits_where_the_server_can_hold_them(version, index, embedded, halves):
    assert milvus.supports_float16(version, index, embedded) is halves
