"""Keeping labels.db: is it sound, a backup on demand, a backup brought back."""

from __future__ import annotations

import os
import shutil
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from db.backup import backup, restore, sync
from db.connection import connect
from db.errors import BadInput, BlindspotError, Refused

_GUARDS = {
    "label_event": (
        "label_event_no_update",
        "label_event_no_delete",
        "label_event_no_replace",
        "label_event_one_gesture",
        "label_event_undo",
    ),
    "queue_act": ("queue_act_no_update", "queue_act_no_delete", "queue_act_no_replace"),
}


@dataclass(frozen=True, slots=True)
class Soundness:
    """What is wrong with a labels.db (nothing: it is sound), and what it holds."""

    problems: tuple[str, ...]
    events: int = 0
    last_event: int = 0
    questions: int = 0
    people: int = 0


def check(path: str | Path) -> Soundness:
    """Read all of a labels.db, new or old, and look for damage. Nothing is written. Raises Missing where there is no file."""
    try:
        connection = connect(path, read_only=True)
    except sqlite3.DatabaseError as error:
        return Soundness((f"{path}: cannot be read as a database ({error})",))
    try:
        problems = [f"damaged: {row[0]}" for row in connection.execute("PRAGMA integrity_check(10)") if row[0] != "ok"]
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        if "question" not in tables:
            return Soundness((f"{path}: is not a labels.db (it has no questions table)", *problems))
        problems += [
            f"{table}: row {row} names something that is not there (in {parent})"
            for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(10)
        ]
        questions = _one(connection, "SELECT count(*) FROM question")
        if "label_event" not in tables:
            return Soundness(tuple(problems), questions=questions)
        problems += [
            f"the guard {name} is gone: what is recorded could be changed"
            for table, names in _GUARDS.items()
            if table in tables
            for name in names
            if name not in tables
        ]
        problems += _event_problems(connection)
        events, last = connection.execute("SELECT count(*), coalesce(max(number), 0) FROM label_event").fetchone()
        return Soundness(tuple(problems), events, last, questions, _one(connection, "SELECT count(*) FROM annotator"))
    except sqlite3.DatabaseError as error:
        return Soundness((f"{path}: is damaged ({error})",))
    finally:
        connection.close()


def back_up(path: str | Path, target: str | Path | None = None) -> Path:
    """Make a checked backup of a labels.db that may be in use: default `backups/labels-<time>.db` beside it.

    Raises:
        Refused: the target exists or cannot be written. Missing: there is no labels.db.
    """
    path = Path(path)
    target = path.parent / "backups" / f"{path.stem}-{_now()}.db" if target is None else Path(target)
    if target.exists():
        raise Refused(f"{target} is there already; choose another name")
    connection = connect(path, read_only=True)
    try:
        return backup(connection, target)
    except (OSError, sqlite3.OperationalError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Refused(f"{target}: the backup cannot be written ({reason}); choose another place") from error
    finally:
        connection.close()


def bring_back(source: str | Path, path: str | Path, drop_newer: bool = False) -> Path | None:
    """Put a backup in the place of a labels.db. What was there is kept: gives where, None if nothing was.

    Raises:
        Missing: no such backup.
        BadInput: the backup is damaged, or no labels.db.
        Refused: labels are there that the backup lacks, and `drop_newer` is false.
    """
    source, path = Path(source), Path(path)
    found = check(source)
    if found.problems:
        raise BadInput(f"cannot be restored: {found.problems[0]}", source)
    if not path.exists():
        restore(source, path)
        return None
    present = check(path)
    if present.problems:
        aside = _put_aside(path)
        restore(source, path)
        return aside
    lost = _not_in(path, source)
    if lost and not drop_newer:
        raise Refused(
            f"{lost:,} label events are in the study and not in {source}; they would be lost. "
            "Export them first, or say --drop-newer"
        )
    kept = back_up(path)
    restore(source, path)
    return kept


def _event_problems(connection: sqlite3.Connection) -> list[str]:
    counts = {
        "undo events take back what is not their annotator's, or another undo": "SELECT count(*) FROM label_event u JOIN label_event e ON e.number = u.undoes "
        "WHERE e.kind = 'undo' OR e.annotator <> u.annotator OR e.question <> u.question OR e.passage IS NOT u.passage",
        "gestures hold events of several annotators, kinds or questions": "SELECT count(*) FROM (SELECT gesture FROM label_event GROUP BY gesture "
        "HAVING count(DISTINCT annotator) > 1 OR count(DISTINCT kind) > 1 OR count(DISTINCT question) > 1)",
    }
    found = {what: _one(connection, sql) for what, sql in counts.items()}
    return [f"{count:,} {what}" for what, count in found.items() if count]


def _not_in(path: Path, source: Path) -> int:
    """How many events of the study the backup does not have."""
    connection = connect(path, read_only=True)
    try:
        if not _one(connection, "SELECT count(*) FROM sqlite_master WHERE name = 'label_event'"):
            return 0
        connection.execute("ATTACH DATABASE ? AS kept", (str(source),))
        if not _one(connection, "SELECT count(*) FROM kept.sqlite_master WHERE name = 'label_event'"):
            return _one(connection, "SELECT count(*) FROM label_event")
        return _one(
            connection,
            "SELECT count(*) FROM label_event e WHERE NOT EXISTS (SELECT 1 FROM kept.label_event k "
            "WHERE k.number = e.number AND k.gesture = e.gesture AND k.part = e.part)",
        )
    finally:
        connection.close()


def _put_aside(path: Path) -> Path:
    """Copy a damaged file, with what belongs to it, and take it away: SQLite cannot write a backup over it."""
    aside = path.parent / "backups" / f"{path.stem}-damaged-{_now()}.db"
    aside.parent.mkdir(exist_ok=True)
    parts = [
        (Path(f"{path}{end}"), Path(f"{aside}{end}")) for end in ("", "-wal", "-shm") if os.path.exists(f"{path}{end}")
    ]
    try:
        for old, new in parts:
            shutil.copy2(old, new)
            sync(new)
    except OSError as error:
        raise BlindspotError(
            f"{aside}: the damaged file cannot be put aside ({error.strerror}); nothing was changed"
        ) from error
    for old, _ in parts:
        old.unlink()
    return aside


def _one(connection: sqlite3.Connection, sql: str) -> int:
    return connection.execute(sql).fetchone()[0]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
