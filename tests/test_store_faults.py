"""Faults of the label store, each with one clear line: locks, full disks, missing permissions, lost files."""

import fcntl
import gc
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from blindspot.backend.core.study import Study
from blindspot.backend.judging.labels_io import export_labels, import_labels
from blindspot.db import backup as backups
from blindspot.db.connection import DatabaseUnavailable, NotSaved, connect
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.events import MAX_NUMBER, LabelEvent
from blindspot.db.labels import Labels
from tests.labelled_studies import command, labelled_study
from tests.studies import births, make_study, people

ROOT = Path(__file__).parents[1]


@pytest.fixture
def study(tmp_path):
    return labelled_study(tmp_path / "s")


def count(study):
    return backups.check(study.labels_path).events


# A lock, a full disk and missing permissions are not damage


def test_a_locked_file_is_not_called_damaged_and_loses_nothing(study, monkeypatch, tmp_path):
    kept = backups.checked_backup(study.labels_path, tmp_path / "kept.db")
    store = Labels(study.labels_path, passages=study.corpus.ordinals)
    store.add("ann", LabelEvent("newer", "note", "P19.dev.0", note="x"))
    store.close()
    before = count(study)
    gc.collect()
    monkeypatch.setattr("blindspot.db.connection.BUSY_TIMEOUT_MS", 100)
    # A rollback journal, as on a file system without shared memory: an exclusive lock stops readers too.
    lock = sqlite3.connect(study.labels_path, isolation_level=None)
    lock.execute("PRAGMA journal_mode=DELETE")
    lock.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DatabaseUnavailable, match=r"labels\.db: another process has it locked") as error:
        backups.check(study.labels_path)
    assert not error.value.damaged_file_error and "\n" not in str(error.value)
    said = command(study, "labels", "check", code=1)
    assert "locked" in said and "damaged" not in said and "restore" not in said
    with pytest.raises(DatabaseUnavailable, match="locked"):
        backups.restore(kept, study.labels_path, drop_newer=True)
    lock.execute("ROLLBACK")
    lock.close()
    assert count(study) == before
    assert not list((study.folder / "backups").glob("*damaged*"))


def test_a_damaged_file_whose_newer_labels_can_be_read_keeps_them(study, tmp_path):
    kept = backups.checked_backup(study.labels_path, tmp_path / "kept.db")
    store = Labels(study.labels_path, passages=study.corpus.ordinals)
    store.add("ann", LabelEvent("newer", "note", study.questions.all()[0].id, note="x"))
    store.connection.execute("PRAGMA writable_schema=ON")
    store.connection.execute("DROP TRIGGER label_event_no_update")  # damaged, yet readable
    store.close()
    before = study.labels_path.read_bytes()
    with pytest.raises(Refused, match="1 label events can still be read in the damaged file"):
        backups.restore(kept, study.labels_path)
    assert study.labels_path.read_bytes() == before
    aside = backups.restore(kept, study.labels_path, drop_newer=True)
    assert "damaged" in aside.name and Labels(aside, read_only=True).stored_ids(["newer"]) == {"newer"}
    assert backups.check(study.labels_path).problems == ()


def test_a_view_whose_stored_sql_is_damaged_is_found(study):
    """A flipped bit in the text of a view is no damage for SQLite's integrity_check; the next reading would fail."""
    path = study.labels_path
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        changed = connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'annotator', 'annopator') WHERE type = 'view' AND name = 'judgement'"
        )
        assert changed.rowcount == 1
    connection.close()
    problems = backups.check(path).problems
    assert any("the view judgement is not as Blindspot makes it" in problem for problem in problems), problems


def test_a_header_that_makes_the_file_read_only_is_damage_and_is_restored(study, tmp_path):
    path = study.labels_path
    kept = backups.checked_backup(path, tmp_path / "kept.db")
    content = bytearray(path.read_bytes())
    content[18] = 66  # the write version: SQLite opens such a file, but only to read
    path.write_bytes(content)
    for beside in path.parent.glob("labels.db-*"):
        beside.unlink()
    assert any("the header is damaged" in problem for problem in backups.check(path).problems)
    backups.restore(kept, path, drop_newer=True)
    assert backups.check(path).problems == ()


def test_a_value_that_is_not_allowed_is_found_without_the_right_to_write(study, tmp_path):
    """SQLite's own check passes over constraints on a connection that only reads."""
    kept = backups.checked_backup(study.labels_path, tmp_path / "kept.db")
    content = kept.read_bytes()
    assert content.count(b"annnegative") > 0
    kept.write_bytes(content.replace(b"annnegative", b"annnegetive", 1))
    assert backups.check(kept).problems == ("label_event: 1 rows hold values that are not allowed",)
    with pytest.raises(BadInput, match="cannot be restored: label_event"):
        backups.restore(kept, study.labels_path)


def test_a_damaged_file_in_use_is_not_taken_from_under_a_process(study, tmp_path):
    kept = backups.checked_backup(study.labels_path, tmp_path / "kept.db")
    writer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from blindspot.db.connection import connect; c = connect(sys.argv[1]); "
            "c.execute('SELECT count(*) FROM question').fetchone(); print('open', flush=True); sys.stdin.read()",
            str(study.labels_path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert writer.stdout.readline() == "open\n"
        with open(study.labels_path, "r+b") as file:
            file.seek(4096)
            file.write(b"\x5a" * 8192)
        assert backups.check(study.labels_path).problems
        with pytest.raises(Refused, match=f"process {writer.pid} uses the damaged file; stop it"):
            backups.restore(kept, study.labels_path)
    finally:
        writer.communicate("")
    assert "damaged" in backups.restore(kept, study.labels_path).name
    assert backups.check(study.labels_path).problems == ()


AS_NOBODY = """
import os, sys
import sqlite_utils
from blindspot.db.errors import BlindspotError
from blindspot.backend.core.study import Study
from blindspot.backend.data import importing
from blindspot.db.labels import Labels
from blindspot.db.events import LabelEvent
from blindspot.db import backup, schema
if os.geteuid() == 0:
    os.setuid(65534)  # root may write to anything
path = os.path.join(sys.argv[1], "labels.db")
study = Study.open(sys.argv[1])
print("opened", len(study.questions), len(study.corpus), Labels(path).last_event, len(Labels(path).judgements()))
print("check", backup.check(path).problems)
for what in ("save", "backup", "import"):
    try:
        if what == "save":
            Labels(path).add_all("ann", [LabelEvent("g", "note", "P19.dev.0", note="x")])
        elif what == "backup":
            backup.checked_backup(path)
        else:
            with study.lock_part("runs/x"):
                pass
        print(what, "went well")
    except BlindspotError as error:
        print(what, type(error).__name__, error)
"""


def test_a_read_only_study_without_wal_opens_for_reading(study):
    study.questions.close()
    folder = Path(tempfile.mkdtemp())
    try:
        copied = folder / "study"
        shutil.copytree(study.folder, copied)
        connect(copied / "labels.db").close()
        assert not (copied / "labels.db-wal").exists()
        os.chmod(folder, 0o755)
        for path in [copied, *copied.rglob("*")]:
            os.chmod(path, 0o555 if path.is_dir() else 0o444)
        done = subprocess.run([sys.executable, "-c", AS_NOBODY, str(copied)], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0] == f"opened {len(study.questions)} 12 {len(study.questions)} {len(study.questions)}"
        assert lines[1] == "check ()"
        assert lines[2].startswith("save NotSaved") and "may not be written to; give the right to write" in lines[2]
        assert lines[3].startswith("backup Refused") and "Permission denied" in lines[3]
        assert lines[4].startswith("import Refused") and "cannot be written" in lines[4]
        assert len(lines) == 5
    finally:
        for path in [folder / "study", *(folder / "study").rglob("*")]:
            os.chmod(path, stat.S_IRWXU)
        shutil.rmtree(folder)


def test_a_reader_of_a_read_only_file_sees_what_somebody_else_writes(study, monkeypatch):
    """The file is read without locks only as long as nothing changes."""
    from blindspot.db import connection as module

    store = Labels(study.labels_path, passages=study.corpus.ordinals)
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    reader = Labels(study.labels_path, read_only=True)
    snapshot = module._open(study.labels_path, "immutable=1", read_only=True)
    snapshot.state_at_opening = module._file_state(study.labels_path)
    assert reader.stored_ids([]) == set()
    reader._local.connection = snapshot
    assert reader.connection is snapshot
    store.add("ann", LabelEvent("new", "note", study.questions.all()[0].id, note="x"))
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert reader.stored_ids(["new"]) == {"new"} and reader.connection is not snapshot


@pytest.mark.parametrize("code, says", [
    ("SQLITE_BUSY", "locked for too long; wait for that process"),
    ("SQLITE_BUSY_SNAPSHOT", "locked for too long"),
    ("SQLITE_FULL", "the disk is full; make room"),
    ("SQLITE_READONLY_DIRECTORY", "may not be written to; give the right"),
    ("SQLITE_IOERR_WRITE", "the disk does not take it"),
    ("SQLITE_CANTOPEN", "cannot be opened; look at the folder"),
    ("SQLITE_CORRUPT_VTAB", "is damaged; restore a backup with 'blindspot labels restore FILE'"),
    ("SQLITE_NOTADB", "is damaged; restore a backup"),
])  # fmt: skip
def test_sqlites_bare_words_become_a_file_and_advice(code, says):
    error = sqlite3.OperationalError("bare words")
    error.sqlite_errorname, error.sqlite_errorcode = code, 1
    told = DatabaseUnavailable("a/labels.db", error)
    assert str(told).startswith("a/labels.db: ") and says in str(told) and "bare words" not in str(told)
    assert told.damaged_file_error == code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def test_a_damaged_page_is_one_line_for_every_reader(study):
    study.questions.close()
    size = study.labels_path.stat().st_size
    with open(study.labels_path, "r+b") as file:
        file.seek(4096)
        file.write(b"\x5a" * (size - 4096))
    for words in (("status",), ("labels", "export", "--format", "csv"), ("batch", "list"), ("people", "list")):
        said = command(study, *words, code=1)
        assert "labels.db" in said and "is damaged; restore a backup" in said, (words, said)
        assert "Traceback" not in said and "malformed" not in said


# Lost files are not replaced silently


@pytest.mark.parametrize("empty", [False, True])
def test_a_lost_labels_db_is_refused_and_the_backups_are_offered(study, empty):
    kept = backups.checked_backup(study.labels_path)
    study.questions.close()
    events = count(study)
    for path in study.folder.glob("labels.db*"):
        path.unlink()
    if empty:
        study.labels_path.touch()
    for _ in range(2):
        with pytest.raises(Refused, match=r"labels\.db: is (missing|empty), but the study has been in use") as error:
            Study.open(study.folder)
        assert f"backups/{kept.name}" in str(error.value) and "blindspot labels restore" in str(error.value)
        assert study.labels_path.exists() == empty, "nothing was made in its place"
    assert f"{events} label events" in command(study, "labels", "restore", kept)
    assert count(Study.open(study.folder)) == events


def test_the_check_of_an_empty_labels_db_says_that_it_is_empty(study, tmp_path):
    kept = backups.checked_backup(study.labels_path)
    study.questions.close()
    for path in study.folder.glob("labels.db*"):
        path.unlink()
    study.labels_path.touch()
    said = command(study, "labels", "check", code=1)
    assert (
        "is empty, but the study has been in use" in said and f"backups/{kept.name}" in said and "damaged" not in said
    )
    with pytest.raises(BadInput, match=r"cannot be restored: .*labels\.db: is empty"):
        backups.restore(study.labels_path, tmp_path / "labels.db")
    for name in ("corpus.db", "runs", "indexes", "backups"):
        path = study.path(name)
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    assert "is empty, and the study holds nothing else" in command(study, "labels", "check")


KILLED = """
import os, signal, sys
from blindspot.db import backup
backup.sync_to_disk = lambda path: os.kill(os.getpid(), signal.SIGKILL)
backup.checked_backup(sys.argv[1])
"""


def test_a_backup_deletes_what_killed_backups_left_and_no_other_file(study):
    folder = study.path("backups")
    killed = subprocess.run([sys.executable, "-c", KILLED, study.labels_path], capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (left,) = folder.glob("*.partial")
    older = folder / "labels-after-m009_leases-x.db.4194305.partial"  # of a version that took no locks
    older.touch()
    mine = folder / "labels-mine.partial"
    mine.touch()
    with open(folder / "labels-y.db.4194304.partial", "w") as writing:  # of a process that lives
        fcntl.flock(writing, fcntl.LOCK_EX)
        kept = backups.checked_backup(study.labels_path)
    assert not left.exists() and not older.exists()
    assert {path.name for path in folder.iterdir()} == {kept.name, mine.name, "labels-y.db.4194304.partial"}


def test_without_any_backup_one_can_start_anew(study):
    study.questions.close()
    for path in study.folder.glob("labels.db*"):
        path.unlink()
    with pytest.raises(Refused, match="there are no backups.*--empty"):
        Study.open(study.folder)
    assert "give either a backup" in command(study, "labels", "restore", code=1)
    command(study, "labels", "restore", "--empty")
    assert len(Study.open(study.folder).questions) == 0
    assert "contains data" in command(study, "labels", "restore", "--empty", code=1)


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
from blindspot.db.errors import BlindspotError
from blindspot.db import backup
try:
    if sys.argv[1] == "restore":
        backup.restore(sys.argv[2], sys.argv[4])
    else:
        backup.checked_backup(sys.argv[2])
except BlindspotError as error:
    print(type(error).__name__, error)
"""


def limited(*words):
    done = subprocess.run([sys.executable, "-c", LIMITED, *map(str, words)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_restore_that_fails_leaves_no_empty_file(study, tmp_path):
    kept = backups.checked_backup(study.labels_path, tmp_path / "kept.db")
    empty = tmp_path / "empty"
    empty.mkdir()
    said = limited("restore", kept, 20_000, empty / "labels.db")
    assert "labels.db" in said and ("the disk" in said) and said.count("\n") == 1
    assert list(empty.iterdir()) == []
    with pytest.raises((BadInput, Missing)):
        backups.restore(tmp_path / "no.db", empty / "labels.db")
    assert list(empty.iterdir()) == []
    before = study.labels_path.read_bytes()
    with open(study.labels_path, "r+b") as file:
        file.seek(4096)
        file.write(b"\x5a" * 8192)
    damaged = study.labels_path.read_bytes()
    assert damaged != before and "the disk" in limited("restore", kept, 20_000, study.labels_path)
    assert study.labels_path.read_bytes() == damaged, "a full disk changes nothing"
    said = limited("backup", kept, 20_000, "")
    assert "the disk" in said and list(tmp_path.glob("**/*.partial*")) == []


# Event numbers are bounded


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_huge_event_number_is_refused_and_labelling_goes_on(study, tmp_path, form):
    written = export_labels(study, form, tmp_path / f"out.{form}")
    empty = make_study(tmp_path / "empty", people(12), births(people(12)))
    text = written.path.read_text()
    last = written.last_event
    for number, code in ((2**63 - 1, False), (MAX_NUMBER + 1, False), (MAX_NUMBER, True)):
        old, new = (f'"number": {last},', f'"number": {number},') if form == "jsonl" else (f"\n{last},", f"\n{number},")
        changed = tmp_path / f"changed.{form}"
        assert old in text or old.replace(" ", "") in text
        changed.write_text(text.replace(old, new).replace(old.replace(" ", ""), new.replace(" ", "")))
        if code:
            assert import_labels(empty, changed).stored == last
        else:
            with pytest.raises(BadInput, match=f"number is {number}; the limit is {MAX_NUMBER}"):
                import_labels(empty, changed)
    store = Labels(empty.labels_path, passages=empty.corpus.ordinals)
    assert store.add("ann", LabelEvent("on", "note", "P19.dev.0", note="x")).state == "stored"


# One rule for all names

# The name of a part is reserved before the work


def test_nothing_is_saved_is_raised_for_the_whole_outbox(study):
    """A disk that fills up during an outbox does not refuse an event: the browser must keep the event."""
    store = Labels(study.labels_path, passages=study.corpus.ordinals)
    pages = store.connection.execute("PRAGMA page_count").fetchone()[0]
    store.connection.execute(f"PRAGMA max_page_count = {pages}")
    outbox = [LabelEvent(f"f{i}", "note", "P19.dev.0", note="x" * 9000) for i in range(5)]
    with pytest.raises(NotSaved, match="the disk is full"):
        store.add_all("ann", outbox)
    assert store.stored_ids([event.id for event in outbox]) == set()


FULL = """
import sys
import numpy as np
from blindspot.backend.core import arrays
from blindspot.backend.core.study import Study
from blindspot.db.errors import BlindspotError
study, folder = Study.open(sys.argv[1]), sys.argv[2]
for what in ("mapped", "saved"):
    try:
        with study.lock_part("indexes/x"):
            if what == "mapped":
                arrays.new_array(folder + "/a.npy", np.float16, (4_000_000,))[:] = 1
            else:
                np.save(folder + "/b.npy", np.zeros(4_000_000, np.float16))
        print(what, "went well")
    except BlindspotError as error:
        print(what, error)
"""


def test_arrays_on_a_full_disk_are_one_line(study, tmp_path):
    """A mapped array would end the process with SIGBUS, and NumPy's own words are "8000000 requested and 4096
    written"."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"cannot mount a small file system here: {made.stderr.strip()}")
    try:
        done = subprocess.run(
            [sys.executable, "-c", FULL, str(study.folder), str(disk)], capture_output=True, text=True, cwd=ROOT
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert len(lines) == 2 and all(
            "the disk does not take indexes/x" in line and "make room" in line for line in lines
        )
        assert not (disk / "a.npy").exists()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
