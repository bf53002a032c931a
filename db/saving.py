"""Writing what people did: a full disk or a file that cannot be written is one clear line, and nothing is half saved."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

from db.connection import BUSY_TIMEOUT_MS, PerThread, writing
from db.errors import Refused

_ADVICE = {
    "SQLITE_FULL": "the disk is full; make room",
    "SQLITE_READONLY": "it may not be written to; give the right to write, to its -wal and -shm too",
    "SQLITE_CANTOPEN": "it cannot be opened; look at the folder and its rights",
    "SQLITE_IOERR": "the disk does not take it (full, a quota, or a fault); make room or look at the disk",
    "SQLITE_BUSY": "another process has been writing for too long; wait for it or stop it",
}
_TO_OPEN_ANEW = ("SQLITE_READONLY", "SQLITE_CANTOPEN")
_PAUSE = (0.0005, 0.004)  # seconds; a write takes about one such while


class NotSaved(Refused):
    """The database took nothing, for a reason outside it. Sending the same again later is safe and right."""


@contextmanager
def saving(store: PerThread) -> Iterator[sqlite3.Connection]:
    """One immediate transaction, as `db.connection.writing`, with what the disk says against it as NotSaved.

    Whatever is raised, nothing was stored. Those who wait for each other wait fairly: SQLite's own waiting slows down the longer
    it lasts, so that under load the unlucky wait for seconds and may be turned away; see benchmarks/RESULTS.md.
    """
    try:
        with writing(store.connection, _begin) as connection:
            yield connection
    except sqlite3.OperationalError as error:
        code = getattr(error, "sqlite_errorname", "") or ""
        advice = next((line for name, line in _ADVICE.items() if code.startswith(name)), None)
        if advice is None:
            raise
        if code.startswith(_TO_OPEN_ANEW):
            store.let_go()  # a connection opened without the right to write never gets it; the next one does
        raise NotSaved(
            f"{store.path}: nothing was saved: {advice}, then go on; what is unsaved will be sent again"
        ) from error


def _begin(connection: sqlite3.Connection) -> None:
    """Begin when it is our turn: ask again after a short random while, which is the same for all."""
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
                time.sleep(random.uniform(*_PAUSE))
    finally:
        connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
