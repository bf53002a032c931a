"""Connections to the study's SQLite files: one per thread, every write one short immediate transaction."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from db.errors import Missing

BUSY_TIMEOUT_MS = 10_000


def connect(path: str | Path, read_only: bool = False, immutable: bool = False) -> sqlite3.Connection:
    """Open a SQLite file in autocommit mode; transactions are begun by hand, with `writing`.

    Args:
        path: the file; made when it is absent, unless `read_only`.
        read_only: open without the right to write, and leave the journal mode as it is.
        immutable: the file will never change again (corpus.db): no locks are taken.

    Raises:
        Missing: `read_only` and there is no such file.
    """
    path = Path(path)
    read_only = read_only or immutable
    if read_only and not path.is_file():
        raise Missing(f"{path}: there is no such file")
    options = ("?immutable=1" if immutable else "?mode=ro") if read_only else "?mode=rwc"
    # check_same_thread is off so that a store can close the connections that its other threads opened.
    connection = sqlite3.connect(
        f"file:{quote(str(path.absolute()))}{options}", uri=True, isolation_level=None, check_same_thread=False
    )
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    if not read_only:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    return connection


@contextmanager
def writing(
    connection: sqlite3.Connection, begin: Callable[[sqlite3.Connection], None] | None = None
) -> Iterator[sqlite3.Connection]:
    """One immediate transaction: committed at the end, rolled back if anything (Ctrl-C too) is raised inside.

    A deferred transaction that turns into a writer fails at once with "database is locked" when another
    writer got in between; an immediate one waits its turn: as SQLite waits, or as `begin` does.
    """
    if begin is None:
        connection.execute("BEGIN IMMEDIATE")
    else:
        begin(connection)
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class PerThread:
    """The base of a store: may be shared by threads, each of which gets a connection of its own."""

    def __init__(self, path: str | Path, read_only: bool = False, immutable: bool = False):
        self.path = Path(path)
        self._read_only, self._immutable = read_only, immutable
        self._local = threading.local()
        self._lock = threading.Lock()
        self._opened: dict[threading.Thread, sqlite3.Connection] = {}

    @property
    def connection(self) -> sqlite3.Connection:
        """This thread's connection. After a fork the child opens its own: SQLite's must not be carried over."""
        if getattr(self._local, "process", None) != os.getpid():
            self._local.connection = connect(self.path, self._read_only, self._immutable)
            self._local.process = os.getpid()
            with self._lock:
                # A finished thread's connection is closed by letting go of it.
                self._opened = {thread: kept for thread, kept in self._opened.items() if thread.is_alive()}
                self._opened[threading.current_thread()] = self._local.connection
        return self._local.connection

    def let_go(self) -> None:
        """Forget this thread's connection: the next use opens a new one, which may have rights that this one has not."""
        self._local.process = None

    def close(self) -> None:
        """Close every thread's connection. The store opens new ones if it is used again."""
        with self._lock:
            for connection in self._opened.values():
                connection.close()
            self._opened = {}
            self._local = threading.local()
