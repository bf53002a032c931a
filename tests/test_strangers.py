"""Studies of strangers: their judges, indexes and label files send nothing, read nothing and bring nobody."""

from __future__ import annotations

import json

import pytest

from blindspot.backend.core.manifest import write_json, write_manifest
from blindspot.backend.core.study import Study
from blindspot.backend.judges.llm.injections import measure_injections
from blindspot.backend.judges.llm.judge import add_llm_judge
from blindspot.backend.judges.llm.judging import judge_with_llm
from blindspot.backend.retrieval import live
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.errors import Refused
from tests.listening import Listener

SECRET = "AKIA-the-key-of-somebody-else"
ENGINES = ("elasticsearch", "opensearch", "vespa", "milvus")


@pytest.fixture
def study(own_indexed_study, monkeypatch):
    monkeypatch.setenv("CLOUD_SECRET", SECRET)
    monkeypatch.setenv("BLINDSPOT_MILVUS_TOKEN", SECRET)
    monkeypatch.setenv("BLINDSPOT_KEY_127_0_0_1", SECRET)
    return own_indexed_study


@pytest.fixture
def listener():
    with Listener() as listener:
        yield listener


def test_a_judge_that_came_with_a_study_sends_nothing(study, listener):
    """Its manifest names a variable of this machine, and beside it lies the consent of older versions."""
    retrieve(study, "bm25", split="dev", k=5, name="run")
    add_llm_judge(study, "theirs", f"{listener.url}/v1", ["m"], settings={"timeout": 1.0, "retries": 0})
    path = study.path("judges", "theirs", "manifest.json")
    about = json.loads(path.read_text())
    about["settings"]["key_variable"] = "CLOUD_SECRET"
    write_manifest(path.parent, about)
    write_json(path.with_name("sending.json"), {"to": f"127.0.0.1:{listener.port}", "allowed": "2026-01-01T00:00:00Z"})
    for ask in (
        lambda: judge_with_llm(study, "theirs", "run", depth=1, limit=3),
        lambda: measure_injections(study, "theirs", pairs=1),
    ):
        with pytest.raises(Refused, match="nothing was sent"):
            ask()
    assert listener.heard == []


def opened_elsewhere(study: Study, engine: str, where: str) -> None:
    """Write what `index open` would have written about an engine at an address."""
    search = {"vector_field": "v", "encoder": "tiny"} if engine == "milvus" else {"fields": "text"}
    folder = study.folder / "indexes" / engine
    folder.mkdir(parents=True)
    manifest = {
        "kind": "opened index", "name": engine, "engine": engine, "passages": 60, "corpus": study.corpus.digest,
        "settings": {"collection": "wiki", "timeout": 1.0, "retries": 0} | search,
        "where": where, "fingerprint": "0", "documents": 60, "matched": None, "lexical": engine != "milvus",
        "model_hash": "0", "encoder": "tiny",
    }  # fmt: skip
    if engine == "milvus":
        manifest["settings"] = {"collection": "wiki"} | search
    write_manifest(folder, manifest)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_index_that_came_with_a_study_is_not_contacted(study, listener, engine, monkeypatch):
    if engine == "milvus":
        pytest.importorskip("pymilvus")
        monkeypatch.setattr("blindspot.backend.retrieval.milvus.SECONDS", 2.0)
    opened_elsewhere(study, engine, listener.url)
    for ask in (
        lambda: live.search(study, f"opened:{engine}", ["who?"], 3),
        lambda: retrieve(study, "opened", index=engine, k=3, split="dev"),
    ):
        with pytest.raises(Refused, match="nothing was sent"):
            ask()
    assert listener.heard == []


def test_vectors_in_the_milvus_of_a_stranger_stay_there(study, listener, monkeypatch):
    pytest.importorskip("pymilvus")
    from blindspot.backend.retrieval import milvus
    from blindspot.backend.retrieval.dense import Dense

    monkeypatch.setattr(milvus, "SECONDS", 2.0)
    manifest = Dense(study, "tiny", "cpu").manifest
    record = {"uri": listener.url, "collection": "c", "index": "FLAT", "parameters": {}, "replicas": 1, "passages": 60,
              "corpus": manifest["corpus"], "vectors": manifest["made"], "model_hash": manifest["model_hash"],
              "server": "2"}  # fmt: skip
    write_json(study.path("indexes", "tiny", milvus.FILE), record)
    with pytest.raises(Refused, match="nothing was sent"):
        live.search(study, "milvus:tiny", ["who?"], 3)
    assert listener.heard == []
