"""The file of the labels: its schema keeps the events, a full or read-only disk is one line, older files are brought up."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys

import pytest

from blindspot.db.connection import NotSaved, connect
from blindspot.db.events import COLUMNS, Choice, LabelEvent
from blindspot.db.labels import Labels
from tests.judging import Desk


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def events(desk):
    return desk.labels.connection.execute("SELECT count(*) FROM label_event").fetchone()[0]


COPY = f"SELECT {', '.join(COLUMNS)} FROM label_event"


def raw(connection, **changes):
    event = {"gesture": "r", "part": 0, "kind": "label", "question": "q0", "passage": "p1", "annotator": "ann", "label": "positive",
             "practice": 0, "blind": 1, "guideline_version": "1", "server_time": 1.0}  # fmt: skip
    values = dict.fromkeys(COLUMNS) | event | changes
    verb = changes.get("verb", "INSERT")
    values.pop("verb", None)
    connection.execute(
        f"{verb} INTO label_event ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", tuple(values.values())
    )


def test_the_schema_itself_keeps_the_events(desk):
    desk.label("ann", "q0", {"p1": "positive"}, id="g")
    connection = connect(desk.path)
    before = connection.execute(COPY).fetchall()
    for sql in ("UPDATE label_event SET label = 'negative'", "DELETE FROM label_event"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(sql)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        raw(connection, verb="INSERT OR REPLACE", gesture="g", label="negative")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        raw(connection, verb="INSERT OR REPLACE", number=1)
    for wrong in ({"label": None}, {"label": "maybe"}, {"kind": "undo"}, {"kind": "note"}, {"kind": "bad_question", "label": None},
                  {"question": "q99"}, {"annotator": "zoe"}, {"passage": None}, {"blind": 2}, {"rank": 0}, {"rank": "first"},
                  {"inclusion_probability": 1.5}, {"gesture": None}, {"guideline_version": None}, {"kind": "praise"},
                  {"gesture": "g", "part": 1, "annotator": "ben"}, {"gesture": "g", "part": 1, "question": "q1"},
                  {"kind": "undo", "label": None, "undoes": 1, "annotator": "ben"}, {"kind": "undo", "label": None, "undoes": 99},
                  {"kind": "undo", "label": None, "undoes": 1, "passage": "p2"}):  # fmt: skip
        with pytest.raises(sqlite3.IntegrityError):
            raw(connection, **wrong)
    assert connection.execute(COPY).fetchall() == before
    raw(connection, gesture="u", kind="undo", label=None, undoes=1)
    for wrong in ({"undoes": 1}, {"undoes": 2}):  # already undone; an undo
        with pytest.raises(sqlite3.IntegrityError):
            raw(connection, gesture="v", kind="undo", label=None, **wrong)


def test_a_full_disk_is_one_clear_line_and_labelling_goes_on_after(desk):
    desk.label("ann", "q0", {"p1": "positive"})
    connection = desk.labels.connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLite then says SQLITE_FULL, as on a full disk
    outbox = [LabelEvent(f"f{i}", "note", "q0", note="x" * 5000) for i in range(5)]
    with pytest.raises(NotSaved, match="the disk is full; make room") as error:
        desk.labels.add_all("ann", outbox)
    assert "\n" not in str(error.value) and events(desk) == 1
    connection.execute("PRAGMA max_page_count = 1073741823")
    assert {receipt.state for receipt in desk.labels.add_all("ann", outbox)} == {"stored"}
    assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_a_read_only_file_is_one_clear_line(desk):
    desk.label("ann", "q0", {"p1": "positive"})
    reader = Labels(desk.path, read_only=True, passages=lambda ids: dict.fromkeys(ids, 0))
    with pytest.raises(NotSaved, match="may not be written to"):
        reader.add("ann", LabelEvent("x", "label", "q0", (Choice("p1", "positive"),)))
    assert len(reader.judgements()) == 1 and desk.label("ann", "q0", {"p2": "negative"})


def test_somebody_who_writes_for_too_long_is_one_clear_line(desk, monkeypatch):
    from blindspot.db import connection as saving

    monkeypatch.setattr(saving, "BUSY_TIMEOUT_MS", 100)
    other = connect(desk.path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(NotSaved, match="another process has it locked for too long"):
        desk.label("ann", "q0", {"p1": "positive"})
    other.execute("ROLLBACK")
    monkeypatch.undo()
    assert desk.label("ann", "q0", {"p1": "positive"}) and events(desk) == 1
    assert desk.labels.connection.execute("PRAGMA busy_timeout").fetchone()[0] == saving.BUSY_TIMEOUT_MS


READ_ONLY = """
import os, sys
from blindspot.db.events import LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.connection import NotSaved
if os.geteuid() == 0:
    os.setuid(65534)  # root may write to anything
labels = Labels(sys.argv[1])
for when in ("read-only", "writable"):
    try:
        print(when, labels.add_all("ann", [LabelEvent("g", "note", "q0", note="x")])[0].state, flush=True)
    except NotSaved as error:
        print(when, error, flush=True)
    sys.stdin.readline()
"""


def test_a_file_without_the_right_to_write_is_one_clear_line_until_it_has_it(desk):
    """File permissions, in a process of a user who is not root."""
    import shutil
    import tempfile

    desk.label("ann", "q0", {"p1": "positive"})
    folder = tempfile.mkdtemp()
    try:
        path = os.path.join(folder, "labels.db")
        desk.labels.connection.execute("VACUUM INTO ?", (path,))
        connect(path).close()  # sets the journal mode
        os.chmod(folder, 0o777)
        os.chmod(path, 0o444)
        process = subprocess.Popen(
            [sys.executable, "-c", READ_ONLY, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        first = process.stdout.readline()
        for name in os.listdir(folder):  # SQLite's companions have the rights of the file
            os.chmod(os.path.join(folder, name), 0o666)
        rest, said = process.communicate("\n\n")
        assert process.returncode == 0, said
        assert (
            first.startswith("read-only ")
            and "nothing was saved: it may not be written to; give the right to write" in first
        )
        again = Labels(path)
        assert rest == "writable stored\n" and again.stored_ids(["g"]) == {"g"}
        assert again.add_all("ann", [LabelEvent("h", "note", "q0", note="x")])[0].state == "stored"
    finally:
        shutil.rmtree(folder)


LIMITED = """
import resource, signal, sys
from blindspot.db.events import LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.connection import NotSaved
labels = Labels(sys.argv[1])
labels.add_all("ann", [LabelEvent("before", "note", "q0", note="x")])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))
try:
    for i in range(1000):
        labels.add_all("ann", [LabelEvent(f"g{i}", "note", "q0", note="x" * 9000)])
        print(f"g{i}", flush=True)
except NotSaved as error:
    print(error, file=sys.stderr)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
labels.add_all("ann", [LabelEvent("after", "note", "q0", note="x")])
print("after", flush=True)
"""


def test_files_that_may_not_grow_lose_nothing_acknowledged(desk):
    """A refusal of the system, in another process: a limit on the size of its files."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(desk.path)], capture_output=True, text=True, cwd=os.getcwd()
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1 and "nothing was saved" in done.stderr
    acknowledged = done.stdout.split()
    assert acknowledged[-1] == "after" and len(acknowledged) > 2
    assert desk.labels.stored_ids(acknowledged) == set(acknowledged)
    assert desk.labels.connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_order_is_by_number_though_the_clock_jumps_back(desk):
    desk.label("ann", "q0", {"p1": "positive"})
    desk.clock.now -= 10_000_000
    desk.label("ann", "q0", {"p1": "negative"})
    assert desk.standing() == {("q0", "p1"): ("negative", "agreed")}
    assert [e.label for e in desk.labels.events()] == ["positive", "negative"]
