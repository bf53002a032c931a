"""Studies of strangers: their judges, indexes and label files send nothing, read nothing and bring nobody."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing

import pytest

from blindspot.backend.core.manifest import write_json, write_manifest
from blindspot.backend.core.study import Study
from blindspot.backend.judges.llm.judge import add_llm_judge
from blindspot.backend.judges.llm.judging import judge_with_llm
from blindspot.backend.retrieval import live
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db import backup
from blindspot.db.errors import BadInput, Refused
from blindspot.db.people import People
from tests.listening import Listener

SECRET = "AKIA-the-key-of-somebody-else"


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
    """Beside its manifest lies a consent; a manifest that names a variable of this machine is refused."""
    retrieve(study, "bm25", split="dev", k=5, name="run")
    add_llm_judge(study, "theirs", f"{listener.url}/v1", "m", settings={"timeout": 1.0, "retries": 0})
    path = study.path("judges", "theirs", "manifest.json")
    write_json(path.with_name("sending.json"), {"to": f"127.0.0.1:{listener.port}", "allowed": "2026-01-01T00:00:00Z"})
    with pytest.raises(Refused, match="nothing was sent"):
        judge_with_llm(study, "theirs", "run", depth=1, limit=3)
    about = json.loads(path.read_text())
    about["settings"]["key_variable"] = "CLOUD_SECRET"
    write_manifest(path.parent, about)
    with pytest.raises(BadInput, match="unknown setting key_variable"):
        judge_with_llm(study, "theirs", "run", depth=1, limit=3)
    assert listener.heard == []


def test_an_index_that_came_with_a_study_is_not_contacted(study, listener, monkeypatch):
    pytest.importorskip("pymilvus")
    monkeypatch.setattr("blindspot.backend.retrieval.milvus.SECONDS", 2.0)
    folder = study.folder / "indexes" / "theirs"
    folder.mkdir(parents=True)
    manifest = {
        "kind": "opened index", "name": "theirs", "engine": "milvus", "passages": 60, "corpus": study.corpus.digest,
        "settings": {"collection": "wiki", "encoder": "tiny"}, "where": listener.url, "fingerprint": "0",
        "documents": 60, "matched": None, "lexical": False, "model_hash": "0", "encoder": "tiny",
    }  # fmt: skip
    write_manifest(folder, manifest)
    for ask in (
        lambda: live.search(study, "opened:theirs", ["who?"], 3),
        lambda: retrieve(study, "opened", index="theirs", k=3, split="dev"),
    ):
        with pytest.raises(Refused, match="milvus"):
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


HOSTILE = {
    "a trigger that makes a stranger lead": (
        "CREATE TRIGGER x AFTER INSERT ON annotator BEGIN UPDATE annotator SET role = 'lead'; END",
        "trigger 'x' is not ours",
    ),
    "a view in front of nothing": ("CREATE VIEW extra AS SELECT 1", "view 'extra' is not ours"),
    "a table of theirs": ("CREATE TABLE extra (a)", "table 'extra' is not ours"),
    "a guard with another body": (
        "DROP TRIGGER label_event_no_update; CREATE TRIGGER label_event_no_update BEFORE UPDATE ON label_event "
        "BEGIN DELETE FROM annotator; END",
        "trigger label_event_no_update is not as Blindspot makes it",
    ),
    "a view with other words": (
        "DROP VIEW consensus; CREATE VIEW consensus AS SELECT 1 AS question",
        "view consensus is not as Blindspot makes it",
    ),
    "a guard less": ("DROP TRIGGER label_event_no_update", "trigger label_event_no_update is missing"),
}


@pytest.fixture(params=HOSTILE.values(), ids=list(HOSTILE))
def hostile(request, tmp_path):
    """(labels.db of a stranger, what is said of it); its people have rights, links and a session."""
    theirs = Study.create(tmp_path / "theirs")
    with_stranger(theirs)
    sql, said = request.param
    with closing(sqlite3.connect(theirs.labels_path)) as connection:
        connection.executescript(sql)
    return theirs, said


def with_stranger(study: Study) -> str:
    """Add a lead with a link and a session, and return the secret of the link."""
    people = People(study.labels_path)
    secret = people.invite("mallory", "lead")
    assert people.sign_in(secret)
    people.add("eve", "adjudicator", "eve@example.org")
    people.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return secret


def test_foreign_objects_are_seen_and_not_restored(hostile, tmp_path, blindspot):
    theirs, said = hostile
    assert any(said in problem for problem in backup.check(theirs.labels_path).problems)
    code, out, err = blindspot("labels", "check", "--study", theirs.folder)
    assert code == 1 and said in out and "Traceback" not in err
    mine = Study.create(tmp_path / "mine")
    before = People(mine.labels_path).all()
    with pytest.raises(BadInput, match=f"cannot be restored: .*{re.escape(said)}"):
        backup.restore(theirs.labels_path, mine.labels_path)
    assert People(mine.labels_path).all() == before == []


def test_a_comment_or_a_text_does_not_hide_another_schema(tmp_path):
    """A text that ends in what looks like a comment is another text: with it, a view would show nothing."""
    study = Study.create(tmp_path / "study")
    with closing(sqlite3.connect(study.labels_path)) as connection:
        (sql,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'judgement'").fetchone()
        connection.execute("DROP VIEW judgement")
        connection.execute(sql.replace("'label'", "'label--\n'"))
        connection.commit()
    assert backup.check(study.labels_path).problems == ("the view judgement is not as Blindspot makes it",)


def test_a_restore_brings_nobody_rights(tmp_path, blindspot):
    theirs, mine = Study.create(tmp_path / "theirs"), Study.create(tmp_path / "mine")
    secret = with_stranger(theirs)
    ada = People(mine.labels_path).invite("ada", "lead")
    People(theirs.labels_path).add("ada")
    code, out, _ = blindspot("labels", "restore", theirs.labels_path, "--study", mine.folder)
    assert code == 0 and "brings no rights and no links" in out
    people = People(mine.labels_path)
    assert people.person_of_link(secret) is None and people.sign_in(secret) is None
    assert {person.name: (person.role, person.email, person.invited) for person in people.all()} == {
        "ada": ("lead", None, True), "eve": ("annotator", None, False), "mallory": ("annotator", None, False),
    }  # fmt: skip
    assert people.person_of_link(ada).name == "ada"
    mine.labels_path.write_bytes(b"")
    backup.restore(theirs.labels_path, mine.labels_path)
    assert {person.role for person in People(mine.labels_path).all()} == {"annotator"}
    assert People(mine.labels_path).person_of_link(secret) is None
