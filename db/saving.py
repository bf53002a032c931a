"""Writing what people did: a full disk or a file that cannot be written is one clear line, and nothing is half saved."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from db.connection import PerThread, writing
from db.errors import Refused

_ADVICE = {
    "SQLITE_FULL": "the disk is full; make room",
    "SQLITE_READONLY": "it may not be written to; give the right to write",
    "SQLITE_CANTOPEN": "it cannot be opened; look at the folder and its rights",
    "SQLITE_IOERR": "the disk does not take it (full, a quota, or a fault); make room or look at the disk",
    "SQLITE_BUSY": "another process has been writing for too long; wait for it or stop it",
}


class NotSaved(Refused):
    """The database took nothing, for a reason outside it. Sending the same again later is safe and right."""


@contextmanager
def saving(store: PerThread) -> Iterator[sqlite3.Connection]:
    """`writing` on a store, with what the disk says against it as NotSaved. Whatever is raised, nothing was stored."""
    try:
        with writing(store.connection) as connection:
            yield connection
    except sqlite3.OperationalError as error:
        code = getattr(error, "sqlite_errorname", "") or ""
        advice = next((line for name, line in _ADVICE.items() if code.startswith(name)), None)
        if advice is None:
            raise
        raise NotSaved(f"{store.path}: nothing was saved: {advice}, then go on; what is unsaved will be sent again") from error
