"""Backups of labels.db: check that it is sound, back it up while it is in use, restore a backup."""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from blindspot.db.connection import DatabaseUnavailable, connect, readable_sqlite_errors
from blindspot.db.errors import BadInput, BlindspotError, Refused
from blindspot.db.private_rows import Rights, rights_of, strip_rights
from blindspot.db.schema import schema_problems

FOLDER = "backups"
_SIDE_FILES = ("-wal", "-shm", "-journal")
_PARTIAL = ".partial"
_IN_USE = ("corpus.db", "runs", "indexes", "training_sets", "models", "maps", "experiments", "recipes", FOLDER)
_WRONG_EVENTS = {
    "undo events that undo another annotator's event, or another undo": "SELECT count(*) FROM label_event u "
    "JOIN label_event e ON e.number = u.undoes "
    "WHERE e.kind = 'undo' OR e.annotator <> u.annotator OR e.question <> u.question OR e.passage IS NOT u.passage",
    "events mix several annotators, kinds or questions": "SELECT count(*) FROM (SELECT gesture FROM label_event "
    "GROUP BY gesture HAVING count(DISTINCT annotator) > 1 OR count(DISTINCT kind) > 1 OR count(DISTINCT question) > "
    "1)",
}


@dataclass(frozen=True, slots=True)
class Soundness:
    """The problems found in a labels.db (none if it is sound), and its size."""

    problems: tuple[str, ...]
    events: int = 0
    last_event: int = 0
    questions: int = 0
    people: int = 0


def check(path: str | Path) -> Soundness:
    """Read all of a labels.db and report damage. Write nothing.

    Raises:
        Missing: The file does not exist.
        DatabaseUnavailable: The file cannot be read now because of a lock, the disk or missing rights. That is not
            damage.
    """
    path = Path(path)
    if path.is_file() and path.stat().st_size == 0:
        return Soundness((f"{path}: is empty: it holds no questions and no labels",))
    try:
        with closing(connect(path, read_only=True)) as connection:
            return _check_connection(connection, path)
    except DatabaseUnavailable as error:
        if not error.damaged_file_error:
            raise
        return Soundness((f"{path}: is damaged ({error.__cause__ or error})",))
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        return Soundness((f"{path}: is damaged ({error})",))


def backup(connection: sqlite3.Connection, target: str | Path) -> Path:
    """Copy a database that may be in use to `target`. The copy appears there only when it is complete, sound and on
    disk.

    Raises:
        BlindspotError: The copy fails SQLite's own check.
        DatabaseUnavailable: The source cannot be read, or the target cannot be written.
    """
    target = Path(target)
    with _temporary_file(target) as partial, readable_sqlite_errors(target):
        with closing(sqlite3.connect(partial)) as copy:
            connection.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
            verdict = copy.execute("PRAGMA quick_check").fetchone()[0]
        if verdict != "ok":
            raise BlindspotError(f"{target}: the backup is not sound ({verdict}); check the disk before you continue")
        sync_to_disk(partial)
        partial.replace(target)
        sync_to_disk(target.parent)
    return target


def checked_backup(path: str | Path, target: str | Path | None = None) -> Path:
    """Make a checked backup of a labels.db that may be in use.

    Args:
        target: Default `backups/labels-<time>.db` beside the file.

    Raises:
        Refused: The target exists or cannot be written.
        Missing: There is no labels.db.
    """
    path = Path(path)
    target = path.parent / FOLDER / f"{path.stem}-{_timestamp()}.db" if target is None else Path(target)
    if target.exists():
        raise Refused(f"{target} exists already; choose another name")
    with closing(connect(path, read_only=True)) as connection:
        try:
            return backup(connection, target)
        except OSError as error:
            raise Refused(
                f"{target}: the backup cannot be written ({error.strerror or error}); choose another place"
            ) from error
        except DatabaseUnavailable as error:
            raise Refused(f"{error}; the backup was not made") from error


def backups_of(path: str | Path) -> list[Path]:
    """Return the backups beside a labels.db, the newest first. Files that were moved away as damaged are left out."""
    path = Path(path)
    files = [file for file in (path.parent / FOLDER).glob(f"{path.stem}-*.db") if "-damaged-" not in file.name]
    return sorted(files, key=lambda file: (file.stat().st_mtime_ns, file.name), reverse=True)


def refuse_lost_labels(path: str | Path) -> None:
    """Refuse a study whose labels.db is missing or empty although the study has been in use.

    SQLite would silently create an empty database in its place.

    Raises:
        Refused: With the backups to restore.
    """
    path = Path(path)
    if path.exists() and path.stat().st_size > 0:
        return
    if not any(_has_content(path.parent / name) for name in _IN_USE):
        return
    state = "is empty" if path.exists() else "is missing"
    backups = backups_of(path)
    if backups:
        names = ", ".join(str(file.relative_to(path.parent)) for file in backups[:3])
        more = f" and {len(backups) - 3} older" if len(backups) > 3 else ""
        advice = f"restore a backup with 'blindspot labels restore FILE'; there are: {names}{more}"
    else:
        advice = "put the file back; there are no backups. To start without labels: 'blindspot labels restore --empty'"
    raise Refused(f"{path}: {state}, but the study has been in use (it held the questions and labels); {advice}")


def restore(source: str | Path, path: str | Path, drop_newer: bool = False) -> Path | None:
    """Replace a labels.db with a backup. Return where the previous contents are kept; None if there were none.

    If anything fails, labels.db stays unchanged. A backup gives nobody rights. People keep the rights that they have in
    the present labels.db; everybody else in the backup becomes an annotator without a link.

    Raises:
        Missing: There is no such backup.
        BadInput: The backup is damaged, is not a labels.db, or holds a trigger, view or table that is not Blindspot's.
        DatabaseUnavailable: The labels.db cannot be read now (a lock, the disk, missing rights); it may be sound.
        Refused: The labels.db has label events that the backup lacks, and `drop_newer` is false; or it is damaged and a
            running process uses it.
    """
    source, path = Path(source), Path(path)
    state = check(source)
    if state.problems:
        raise BadInput(f"cannot be restored: {state.problems[0]}", source)
    if not path.exists() or path.stat().st_size == 0:
        return _replace_damaged_file(source, path)
    is_damaged = bool(check(path).problems)
    newer = _events_absent_from_backup(path, source)
    if newer and not drop_newer:
        readable = "can still be read in the damaged file" if is_damaged else "are in the study"
        raise Refused(
            f"{newer:,} label events {readable} and not in {source}; they would be lost. "
            "Export them first, or say --drop-newer"
        )
    if is_damaged:
        return _replace_damaged_file(source, path)
    safety_copy = checked_backup(path)
    with closing(connect(path)) as new, _temporary_file(path) as staged, readable_sqlite_errors(path):
        _stage_file(source, staged, rights_of(new))
        with closing(connect(staged, read_only=True)) as old:
            old.backup(new)  # one transaction: other processes see the old contents or the new
    return safety_copy


def _stage_file(source: Path, staged_file: Path, rights: Rights) -> None:
    """Write a copy of a backup in which people have these rights and no others."""
    with closing(connect(source, read_only=True)) as connection:
        backup(connection, staged_file)
    with closing(sqlite3.connect(staged_file)) as copy, readable_sqlite_errors(staged_file), copy:
        strip_rights(copy, rights)


def sync_to_disk(path: str | Path) -> None:
    """Make sure that a file, or the list of names in a folder, is on disk and survives a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _check_connection(connection: sqlite3.Connection, path: str | Path) -> Soundness:
    if foreign := schema_problems(connection):  # the other checks run SQL that is in the file
        return Soundness(tuple(foreign))
    problems = [f"damaged: {row[0]}" for row in connection.execute("PRAGMA integrity_check(10)") if row[0] != "ok"]
    problems += _header_problems(path)
    problems += [
        f"{table}: row {row} refers to a row of {parent} that does not exist"
        for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(10)
    ]
    problems += _tables_with_wrong_values(connection)
    questions = _query_integer(connection, "SELECT count(*) FROM question")
    counts = {problem: _query_integer(connection, sql) for problem, sql in _WRONG_EVENTS.items()}
    problems += [f"{count:,} {problem}" for problem, count in counts.items() if count]
    return Soundness(
        tuple(problems),
        events=_query_integer(connection, "SELECT count(*) FROM label_event"),
        last_event=_query_integer(connection, "SELECT coalesce(max(number), 0) FROM label_event"),
        questions=questions,
        people=_query_integer(connection, "SELECT count(*) FROM annotator"),
    )


def _header_problems(path: str | Path) -> list[str]:
    """Return a problem if the write version in the file's header is unknown to SQLite: SQLite then reads the file but
    never writes to it.
    """
    with open(path, "rb") as file:
        header = file.read(20)
    versions = header[18:20]
    return (
        [] if not versions or set(versions) <= {1, 2} else [f"the header is damaged (format versions {list(versions)})"]
    )


def _tables_with_wrong_values(connection: sqlite3.Connection) -> list[str]:
    """Return the tables with values that their own CHECK constraints forbid.

    SQLite's integrity_check does the same, but not on a connection that cannot write.
    """
    problems = []
    tables = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL"
    ).fetchall()
    for table, sql in tables:
        wrong = " OR ".join(f"NOT ({constraint})" for constraint in _check_constraints(sql))
        if wrong and (count := _query_integer(connection, f"SELECT count(*) FROM {table} WHERE {wrong}")):
            problems.append(f"{table}: {count:,} rows hold values that are not allowed")
        for _ in connection.execute(f"SELECT * FROM {table}"):
            pass  # raises for text that is not UTF-8, which SQLite does not check
    return problems


def _check_constraints(sql: str) -> Iterator[str]:
    """Yield the expressions of the CHECK constraints in a CREATE TABLE statement."""
    for match in re.finditer(r"\bCHECK \(", sql):
        depth, end = 1, match.end()
        while depth and end < len(sql):
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        yield sql[match.end() : end - 1]


def _events_absent_from_backup(path: Path, source: Path) -> int:
    """Return the number of label and tag events in labels.db that the backup lacks. In a damaged labels.db, only
    readable events count.

    Raises:
        DatabaseUnavailable: The labels.db cannot be read for another reason than damage.
    """
    try:
        with closing(connect(path, read_only=True)) as connection:
            connection.execute("ATTACH DATABASE ? AS kept", (str(source),))
            return sum(
                _query_integer(
                    connection,
                    f"SELECT count(*) FROM {table} e WHERE NOT EXISTS (SELECT 1 FROM kept.{table} k WHERE {same})",
                )
                for table, same in _SAME_EVENT.items()
            )
    except DatabaseUnavailable as error:
        if not error.damaged_file_error:
            raise
        return 0
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return 0


_SAME_EVENT = {
    "label_event": "k.number = e.number AND k.gesture = e.gesture AND k.part = e.part",
    "tag_event": "k.number = e.number AND k.tag = e.tag AND k.server_time = e.server_time",
}
"""The tables of people's events, and the columns by which two files' rows are recognised as the same event."""


def _replace_damaged_file(source: Path, path: Path) -> Path | None:
    """Replace a missing or damaged labels.db with a copy of a backup. Return where the previous file is kept.

    The copy is complete on disk before the previous file is moved, and both moves are renames, so a full disk changes
    nothing.
    """
    if process := _process_using(path):
        raise Refused(f"{path}: process {process} uses the damaged file; stop it (the app, a job), then restore")
    damaged_copy = path.parent / FOLDER / f"{path.stem}-damaged-{_timestamp()}.db"
    with _temporary_file(path) as partial:
        _stage_file(source, partial, {})
        former = [end for end in ("", *_SIDE_FILES) if os.path.exists(f"{path}{end}")]
        try:
            if former:
                damaged_copy.parent.mkdir(exist_ok=True)
            for end in former:
                os.rename(f"{path}{end}", f"{damaged_copy}{end}")
        except OSError as error:
            raise BlindspotError(
                f"{damaged_copy}: the former file cannot be moved there ({error.strerror or error})"
            ) from error
        partial.replace(path)
        sync_to_disk(path.parent)
    return damaged_copy if "" in former else None


def _process_using(path: Path) -> int | None:
    """Return the id of another process that has this database (in WAL mode) open; None if there is none.

    Each connection holds a shared lock on byte 128 of the -shm file (SQLite's "dead man switch").
    """
    try:
        handle = os.open(f"{path}-shm", os.O_RDWR)
    except OSError:
        return None
    try:
        query = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 128, 1, 0)
        kind, _, _, _, process = struct.unpack("hhqqi4x", fcntl.fcntl(handle, fcntl.F_GETLK, query))
        return None if kind == fcntl.F_UNLCK else process
    except (OSError, struct.error):
        return None
    finally:
        os.close(handle)


@contextmanager
def _temporary_file(target: Path) -> Iterator[Path]:
    """Yield a temporary file beside `target` to write to. The file is deleted at the end if it still exists.

    A process that is killed leaves its temporary file. The next process that writes a backup in the same folder deletes
    it.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}{_PARTIAL}")
    lock = os.open(partial, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _delete_abandoned(target)
        yield partial
    finally:
        _delete_partial(partial)
        os.close(lock)


def _delete_abandoned(target: Path) -> None:
    """Delete temporary files beside `target` that killed processes left: files that no process has locked."""
    for partial in target.parent.glob(f"{target.stem.partition('-')[0]}*{_PARTIAL}"):
        if not re.search(rf"\.\d+{re.escape(_PARTIAL)}$", partial.name):
            continue
        try:
            lock = os.open(partial, os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _delete_partial(partial)
        except BlockingIOError:
            pass  # a process is writing it
        finally:
            os.close(lock)


def _delete_partial(partial: Path) -> None:
    for end in ("", *_SIDE_FILES):
        Path(f"{partial}{end}").unlink(missing_ok=True)


def _has_content(path: Path) -> bool:
    return any(path.iterdir()) if path.is_dir() else path.exists()


def _query_integer(connection: sqlite3.Connection, sql: str) -> int:
    return int(connection.execute(sql).fetchone()[0])


def _timestamp() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
