"""Connections to the SQLite files of a study. Each thread has its own connection, and each write is one short immediate
transaction.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from blindspot.db.errors import BlindspotError, Missing, Refused

T = TypeVar("T")
BUSY_TIMEOUT_MS = 10_000
AMONG = "IN (SELECT value FROM json_each(?))"
"""SQL: whether a value is among those of a list, which is bound as JSON."""
_RETRY_PAUSE = (0.0005, 0.004)  # seconds; a write takes about as long

# SQLite's error codes (a prefix of the name), with what a person can do. `DAMAGED` is the one that a restore mends.
DAMAGED = "it is damaged; restore a backup with 'blindspot labels restore FILE' (backups are in the backups folder)"
ADVICE = {
    "SQLITE_FULL": "the disk is full; make room",
    "SQLITE_READONLY": "it may not be written to; give the right to write, to its -wal and -shm too",
    "SQLITE_CANTOPEN": "it cannot be opened; look at the folder and its rights",
    "SQLITE_PERM": "it cannot be opened; look at its rights",
    "SQLITE_AUTH": "it cannot be opened; look at its rights",
    "SQLITE_IOERR": "the disk does not take it (full, a quota, or a fault); make room or look at the disk",
    "SQLITE_NOMEM": "memory is exhausted; free some",
    "SQLITE_BUSY": "another process has it locked for too long; wait for that process or stop it",
    "SQLITE_LOCKED": "another process has it locked for too long; wait for that process or stop it",
    "SQLITE_PROTOCOL": "another process has it locked for too long; wait for that process or stop it",
    "SQLITE_CORRUPT": DAMAGED,
    "SQLITE_NOTADB": DAMAGED,
}
_CLOSE_AFTER = ("SQLITE_READONLY", "SQLITE_CANTOPEN")


class NotSaved(Refused):
    """The database stored nothing, because of something outside this program, such as a full disk. The same data can
    safely be sent again later.
    """


class DatabaseUnavailable(BlindspotError, sqlite3.OperationalError):
    """SQLite cannot read or write a file. `str(error)` replaces SQLite's words: it names the file and says what to do."""

    def __init__(self, path: str | Path, error: Exception):
        self.path = path
        self.sqlite_errorcode = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        self.sqlite_errorname = error_name(error)
        super().__init__(f"{path}: {advice_for(error) or error}")

    @property
    def damaged_file_error(self) -> bool:
        """Whether the file is not a sound database, so that restoring a backup would help. Errors about locks, the disk
        or missing rights do not mean that.
        """
        return error_name(self).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))


def error_name(error: BaseException) -> str:
    """Return SQLite's name for an error, such as SQLITE_BUSY; empty if it has none."""
    # If a damaged text or schema is not UTF-8, Python raises its own error instead of SQLite's.
    undecodable = isinstance(error, sqlite3.OperationalError) and str(error).startswith("Could not decode to UTF-8")
    if isinstance(error, UnicodeDecodeError) or undecodable:
        return "SQLITE_CORRUPT"
    return getattr(error, "sqlite_errorname", None) or ""


def advice_for(error: BaseException) -> str | None:
    """Say what is wrong and what to do about an error that has a cause outside this program; None for any other error."""
    name = error_name(error)
    return next((advice for prefix, advice in ADVICE.items() if name.startswith(prefix)), None)


@contextmanager
def readable_sqlite_errors(path: str | Path) -> Iterator[None]:
    """Turn SQLite's errors with a cause outside this program into DatabaseUnavailable, which names the file and says
    what to do.
    """
    try:
        yield
    except DatabaseUnavailable:
        raise
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if advice_for(error) is None:
            raise
        raise DatabaseUnavailable(path, error) from error


class _Cursor(sqlite3.Cursor):
    """A cursor whose errors name the file. Iteration over rows is SQLite's own, because wrapping each row would slow
    down long scans.
    """

    def fetchone(self) -> Any:
        with readable_sqlite_errors(_path_of(self)):
            return super().fetchone()

    def fetchmany(self, size: int | None = 1) -> list[Any]:
        with readable_sqlite_errors(_path_of(self)):
            return super().fetchmany(size)

    def fetchall(self) -> list[Any]:
        with readable_sqlite_errors(_path_of(self)):
            return super().fetchall()


class _Connection(sqlite3.Connection):
    """A connection whose errors name the file.

    Attributes:
        state_at_opening: State of a file that was opened without locks, because its folder is not writable. If the
            state changes, somebody else writes to the file, and it must be opened again.
    """

    path: Path
    state_at_opening: tuple[int, int, bool] | None = None

    @property
    def is_stale(self) -> bool:
        return self.state_at_opening is not None and self.state_at_opening != _file_state(self.path)

    def cursor(self, factory: Any = _Cursor) -> Any:
        return super().cursor(factory)

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        with readable_sqlite_errors(self.path):
            return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        with readable_sqlite_errors(self.path):
            return super().executemany(sql, parameters)


def _path_of(cursor: sqlite3.Cursor) -> Path:
    connection = cursor.connection
    return connection.path if isinstance(connection, _Connection) else Path()


def connect(path: str | Path, read_only: bool = False, immutable: bool = False) -> _Connection:
    """Open a SQLite file in autocommit mode. Transactions begin explicitly, with `write_transaction`.

    Args:
        path: The file. Created if absent, unless `read_only`.
        read_only: Open without write permission and keep the journal mode.
        immutable: The file never changes again (corpus.db), so take no locks.

    Raises:
        Missing: `read_only`, and the file does not exist.
        DatabaseUnavailable: SQLite cannot open the file.
    """
    path = Path(path)
    read_only = read_only or immutable
    if read_only and not path.is_file():
        raise Missing(f"{path}: there is no such file")
    with readable_sqlite_errors(path):
        if immutable:
            return _open(path, "immutable=1", read_only=True)
        try:
            return _open(path, "mode=ro" if read_only else "mode=rwc", read_only)
        except sqlite3.OperationalError as error:
            if not _is_read_only_snapshot(path, error):
                raise
        connection = _open(path, "immutable=1", read_only=True)
        connection.state_at_opening = _file_state(path)
        return connection


def _is_read_only_snapshot(path: Path, error: sqlite3.Error) -> bool:
    """Return whether a file that could not be opened can be read as immutable.

    SQLite reads a WAL database in a folder without write permission only if its -wal and -shm exist already. Without a
    -wal file, all data are in the database file itself.
    """
    failed = error_name(error).startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY"))
    return failed and path.is_file() and not Path(f"{path}-wal").exists() and not os.access(path.parent, os.W_OK)


def _file_state(path: Path) -> tuple[int, int, bool] | None:
    """Return what changes in a file when somebody with more rights writes to it."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, Path(f"{path}-wal").exists()


def _open(path: Path, options: str, read_only: bool) -> _Connection:
    # check_same_thread is off so that a store can close the connections that its other threads opened.
    connection: _Connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}?{options}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        factory=_Connection,
    )
    connection.path = path
    try:
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        if read_only:
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # fail now, not at the first use
        else:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
    except BaseException:
        connection.close()
        raise
    return connection


def insert(connection: sqlite3.Connection, table: str, **values: Any) -> sqlite3.Cursor:
    """Insert one row, given by its columns, inside the caller's transaction."""
    marks = ", ".join("?" * len(values))
    return connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", tuple(values.values()))


def read_records(
    connection: sqlite3.Connection, record: type[T], source: str, values: Sequence[Any] = ()
) -> Iterator[T]:
    """Yield the rows of a query as records of a dataclass, whose fields are the columns.

    Args:
        source: The query from the name of the table on, as in "consensus WHERE question = ?".
    """
    columns = fields(record)  # type: ignore[arg-type]
    flags = [place for place, column in enumerate(columns) if column.type == "bool"]
    for row in connection.execute(f"SELECT {', '.join(column.name for column in columns)} FROM {source}", values):
        cells = list(row)
        for place in flags:
            cells[place] = bool(cells[place])
        yield record(*cells)


@contextmanager
def write_transaction(
    connection: sqlite3.Connection, begin_transaction: Callable[[sqlite3.Connection], None] | None = None
) -> Iterator[sqlite3.Connection]:
    """Run one immediate transaction: commit at the end, roll back if anything (Ctrl-C too) is raised inside.

    A deferred transaction that starts to write fails at once with "database is locked" if another process wrote in
    between. An immediate transaction waits until it can write: either SQLite does the waiting, or `begin_transaction`.
    """
    if begin_transaction is None:
        connection.execute("BEGIN IMMEDIATE")
    else:
        begin_transaction(connection)
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class PerThread:
    """Base class of the stores. Threads may share a store; each thread gets its own connection.

    Args:
        read_only, immutable: As for `connect`.
        clock: Returns the seconds since 1970.
    """

    def __init__(
        self,
        path: str | Path,
        read_only: bool = False,
        immutable: bool = False,
        clock: Callable[[], float] = time.time,
    ):
        self.path = Path(path)
        self._read_only, self._immutable, self._clock = read_only, immutable, clock
        self._local = threading.local()
        self._lock = threading.Lock()
        self._opened: dict[threading.Thread, sqlite3.Connection] = {}

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection of this thread. After a fork the child process opens its own connection, because SQLite
        connections must not be used across a fork.
        """
        current: _Connection | None = getattr(self._local, "connection", None)
        if current is None or self._local.process != os.getpid() or current.is_stale:
            current = self._local.connection = connect(self.path, self._read_only, self._immutable)
            self._local.process = os.getpid()
            with self._lock:
                # Dropping the connection of a finished thread closes it.
                self._opened = {thread: opened for thread, opened in self._opened.items() if thread.is_alive()}
                self._opened[threading.current_thread()] = current
        return current

    def reconnect(self) -> None:
        """Open a new connection at the next use. The new one may have rights that the present connection of this thread
        lacks.
        """
        self._local.process = None

    def close(self) -> None:
        """Close the connections of all threads. The store opens new connections when it is used again."""
        with self._lock:
            for connection in self._opened.values():
                connection.close()
            self._opened = {}
            self._local = threading.local()


@contextmanager
def store_transaction(store: PerThread) -> Iterator[sqlite3.Connection]:
    """Run one immediate transaction on a store, as `write_transaction` does. Raises NotSaved if the database cannot be written.

    If an error is raised, nothing was stored. Processes that want to write get about equal chances. SQLite's own
    waiting checks more and more rarely the longer it lasts. Under load an unlucky process therefore waits for seconds
    and may give up; see benchmarks/RESULTS.md.
    """
    try:
        with write_transaction(store.connection, _begin_immediate) as connection:
            yield connection
    except sqlite3.DatabaseError as error:
        advice = advice_for(error)
        if advice is None:
            raise
        if error_name(error).startswith(_CLOSE_AFTER):
            store.reconnect()  # a connection opened without write permission never gains it
        raise NotSaved(
            f"{store.path}: nothing was saved: {advice}, then continue; what is unsaved will be sent again"
        ) from error


def _begin_immediate(connection: sqlite3.Connection) -> None:
    """Begin an immediate transaction. While another process is writing, try again after a short random pause."""
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    connection.execute("PRAGMA busy_timeout=0")
    try:
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(*_RETRY_PAUSE))
    finally:
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
