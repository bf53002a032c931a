"""Dense retrieval through the embedded milvus-lite: the hits of exact search, resuming, counting, one line if it is
down.
"""

import numpy as np
import pytest

from blindspot.backend.core import consent
from blindspot.backend.core.consent import NeedsConsent
from blindspot.backend.core.manifest import read_json, read_manifest, write_manifest
from blindspot.backend.retrieval import live, milvus
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.milvus import Milvus
from blindspot.backend.retrieval.retriever import Retriever
from blindspot.db.errors import BlindspotError, Missing, Refused

pytest.importorskip("pymilvus", reason="pymilvus is not installed: 'pip install -r requirements-dev.txt'")
pytest.importorskip("milvus_lite", reason="milvus-lite is not installed: 'pip install -r requirements-dev.txt'")

QUESTIONS = ["Where was Arve Aurset0 born?", "a weaver from Oslo", "who was raised by an aunt in Bodo", "the harbour"]


@pytest.fixture
def study(own_indexed_study):
    return own_indexed_study


@pytest.fixture
def uri(tmp_path):
    return str(tmp_path / "milvus.db")


@pytest.fixture
def client(uri):
    from pymilvus import MilvusClient

    return MilvusClient(uri)


def test_the_hits_are_those_of_exact_search(study, uri):
    seen = []
    record = milvus.build(study, "tiny", uri, progress=lambda *state: seen.append(state))
    assert record["passages"] == 60 and seen[-1][:2] == (60, 60)
    retriever, exact = Milvus(study, "tiny", "cpu"), Dense(study, "tiny", "cpu")
    assert isinstance(retriever, Retriever) and retriever.settings["milvus"]["index"] == "FLAT"
    for k in (1, 7, 60, 80):
        ours, theirs = retriever.search(QUESTIONS, k), exact.search(QUESTIONS, k)
        assert ours.ordinals.tolist() == theirs.ordinals.tolist() and ours.scores.tolist() == theirs.scores.tolist()
    assert retriever.search([], 5).ordinals.shape == (0, 5)


def test_equal_vectors_are_ordered_by_row(study, uri):
    folder = study.folder / "indexes" / "tiny"
    vectors = np.load(folder / "embeddings.npy")
    vectors[40:] = vectors[3]
    np.save(folder / "embeddings.npy", vectors)
    milvus.build(study, "tiny", uri)
    ours = Milvus(study, "tiny", "cpu").search(QUESTIONS, 60)
    assert ours.ordinals.tolist() == Dense(study, "tiny", "cpu").search(QUESTIONS, 60).ordinals.tolist()


def test_it_goes_on_where_it_stopped(study, uri, client, monkeypatch):
    monkeypatch.setattr(milvus, "BYTES_PER_INSERT", 4 * 32 * 16)

    def stop(done, total, doing):
        if done >= 32:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        milvus.build(study, "tiny", uri, progress=stop)
    with pytest.raises(Missing, match="no Milvus collection for"):
        Milvus(study, "tiny", "cpu")
    seen = []
    record = milvus.build(study, "tiny", uri, progress=lambda done, *_: seen.append(done))
    assert seen == [48, 60], "the first 32 rows were not sent again"
    client.load_collection(record["collection"])
    assert client.query(record["collection"], output_fields=["count(*)"])[0]["count(*)"] == 60
    assert (
        Milvus(study, "tiny", "cpu").search(QUESTIONS, 60).ordinals.tolist()
        == Dense(study, "tiny", "cpu").search(QUESTIONS, 60).ordinals.tolist()
    )


def test_rows_that_are_lost_are_noticed(study, uri, client, monkeypatch):
    monkeypatch.setattr(milvus, "BYTES_PER_INSERT", 4 * 32 * 16)
    record = milvus.build(study, "tiny", uri)
    client.load_collection(record["collection"])
    client.delete(record["collection"], ids=[5, 6])
    with pytest.raises(Refused, match="has 58 vectors, not 60"):
        Milvus(study, "tiny", "cpu").search(QUESTIONS, 5)
    with pytest.raises(BlindspotError, match="58 of 60"):
        milvus.build(study, "tiny", uri)
    assert milvus.build(study, "tiny", uri, replace=True)["passages"] == 60


def test_a_collection_of_something_else_is_not_touched(study, uri, client):
    client.create_collection("mine", dimension=4)
    with pytest.raises(Refused, match="with other data"):
        milvus.build(study, "tiny", uri, collection="mine")
    assert client.has_collection("mine")


def test_new_vectors_need_a_new_collection(study, uri):
    milvus.build(study, "tiny", uri)
    folder = study.folder / "indexes" / "tiny"
    manifest = read_manifest(folder)
    write_manifest(folder, {**manifest, "model_hash": "other"})
    with pytest.raises(Refused, match="other vectors.*--replace"):
        Milvus(study, "tiny", "cpu")
    with pytest.raises(Refused, match="with other data"):
        milvus.build(study, "tiny", uri)


def test_a_live_question(study, uri, monkeypatch):
    monkeypatch.delenv("BLINDSPOT_BACKEND", raising=False)
    assert "milvus:tiny" not in live.answering_retrievers(study)
    milvus.build(study, "tiny", uri)
    assert live.answering_retrievers(study)[-1] == "milvus:tiny"
    ours, exact = (live.search(study, name, QUESTIONS, 10) for name in ("milvus:tiny", "tiny"))
    assert ours.ordinals.tolist() == exact.ordinals.tolist()


def test_a_run_from_the_command_line(study, uri, capsys, monkeypatch):
    from blindspot.app import cli

    def done(*words):
        monkeypatch.setattr("sys.argv", ["blindspot", *words, "--study", str(study.folder)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
        return capsys.readouterr().out

    assert "Milvus holds 60 vectors" in done("index", "milvus", "--encoder", "tiny", "--uri", uri)
    for kind in ("milvus", "dense"):
        assert "40 questions" in done("retrieve", "--with", kind, "--encoder", "tiny", "--split", "dev", "--k", "20")
    ours, exact = study.run("tiny-milvus-dev"), study.run("tiny-dev")
    assert ours.hits.ordinals.tolist() == exact.hits.ordinals.tolist() and ours.manifest["kind"] == "milvus"


def test_a_dead_milvus_is_one_line(study, uri):
    with pytest.raises(NeedsConsent, match="vectors of questions or passages to http://127.0.0.1:9 .*nothing was sent"):
        milvus.build(study, "tiny", "http://127.0.0.1:9")
    consent.give_consent(study, "http://127.0.0.1:9")
    with pytest.raises(
        BlindspotError, match=r"Milvus at http://127.0.0.1:9 does not answer; is it running\?$"
    ) as raised:
        milvus.build(study, "tiny", "http://127.0.0.1:9")
    assert "\n" not in str(raised.value)
    record = milvus.build(study, "tiny", uri)
    path = study.folder / "indexes" / "tiny" / milvus.FILE
    path.write_text(path.read_text().replace(record["uri"], "http://127.0.0.1:9"))
    with pytest.raises(BlindspotError, match="Milvus at http://127.0.0.1:9 does not answer"):
        Milvus(study, "tiny", "cpu").search(QUESTIONS, 5)


def test_what_is_refused(study, uri, monkeypatch):
    with pytest.raises(Refused, match="--index must be one of FLAT"):
        milvus.build(study, "tiny", uri, index="BEST")
    with pytest.raises(Refused, match="put user:password of Milvus into an environment variable"):
        milvus.build(study, "tiny", "http://me:secret@localhost:19530")
    with pytest.raises(Refused, match="ends in .db"):
        milvus.build(study, "tiny", "localhost:19530")
    milvus.build(study, "tiny", uri)
    with pytest.raises(Refused, match="at most 16,384"):
        Milvus(study, "tiny", "cpu").search(QUESTIONS, 20_000)
    folder = study.folder / "indexes" / "tiny"
    write_manifest(folder, {**read_manifest(folder), "similarity": "l2"})
    with pytest.raises(Refused, match="l2"):
        milvus.build(study, "tiny", uri)
    assert "secret" not in str(read_json(folder / milvus.FILE))
