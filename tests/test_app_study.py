"""The data that the app prepares in the background."""

from __future__ import annotations

import os
import threading
import time

from blindspot.app import study
from blindspot.db.imports import ImportRecord, Imports
from blindspot.db.records import Question
from tests.app_pages import hand_made_study


def test_work_ahead_is_done_once_for_a_key_by_a_thread_of_its_own():
    done, who = threading.Event(), []

    def work():
        who.append(threading.current_thread())
        done.set()

    for _ in range(3):
        study.compute_ahead(work, "once", 1)
    assert done.wait(10) and len(who) == 1 and who[0] is not threading.current_thread()
    done.clear()
    study.compute_ahead(work, "once", 2)
    assert done.wait(10) and len(who) == 2


def test_work_ahead_that_fails_stops_nothing(capfd):
    failed = threading.Event()

    def work():
        failed.set()
        raise ValueError("no gold")

    study.compute_ahead(work, "fails")
    assert failed.wait(10)
    study.compute_ahead(lambda: None, "fails")
    assert "Traceback" not in capfd.readouterr().err


def test_runs_are_read_once_and_a_new_or_replaced_one_shows_at_once(tmp_path, monkeypatch):
    from blindspot.backend.core.runs import write_run
    from blindspot.backend.core.study import Study

    toy = hand_made_study(tmp_path / "toy")
    opened = Study.open(toy.folder)
    read = []
    parts = Study.parts
    monkeypatch.setattr(Study, "parts", lambda self, kind: read.append(kind) or parts(self, kind))
    assert list(study.runs(opened)) == ["alpha", "beta", "short"]
    hits, ids = toy.run("alpha").hits, toy.run("alpha").question_ids
    write_run(toy, "gamma", ids, hits, {"retriever": "tiny"})
    assert "gamma" in study.runs(opened)
    write_run(toy, "gamma", ids, hits, {"retriever": "other"}, replace=True)
    assert study.runs(opened)["gamma"]["retriever"] == "other"
    before = len(read)
    old = time.time() - 60
    os.utime(toy.folder / "runs", (old, old))
    assert (
        all(set(study.runs(opened)) == {"alpha", "beta", "short", "gamma"} for _ in range(3))
        and len(read) == before + 1
    )
    (toy.folder / "runs" / "gamma").rename(toy.folder / "runs" / ".gone")
    assert "gamma" not in study.runs(opened)


def test_the_key_of_questions_changes_with_every_import(tmp_path):
    toy = hand_made_study(tmp_path / "toy")
    seen = {study.questions_key(toy)}
    toy.questions.add([Question("new", "Who?", split="dev")])
    seen.add(study.questions_key(toy))
    Imports(toy.labels_path).add(ImportRecord("frequencies", "counts.tsv", "0", 1, 1))
    seen.add(study.questions_key(toy))
    assert len(seen) == 3 and study.questions_key(toy) in seen
