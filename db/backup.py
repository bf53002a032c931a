"""Backups of labels.db: SQLite's online backup, checked, synced, then renamed."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from db.connection import connect
from db.errors import BlindspotError


def backup(connection: sqlite3.Connection, target: str | Path) -> Path:
    """Copy a database that may be in use to `target`, which appears only when it is whole and sound.

    Raises:
        BlindspotError: the copy does not pass SQLite's own check.
    """
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        copy = sqlite3.connect(partial)
        try:
            connection.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
            verdict = copy.execute("PRAGMA quick_check").fetchone()[0]
        finally:
            copy.close()
        if verdict != "ok":
            raise BlindspotError(f"{target}: the backup is not sound ({verdict}); look at the disk before going on")
        sync(partial)
        partial.replace(target)
        sync(target.parent)
    finally:
        partial.unlink(missing_ok=True)
    return target


def restore(source: str | Path, target: str | Path) -> None:
    """Bring the contents of a backup into `target`, in one transaction, while others may be reading it."""
    old, new = connect(source, read_only=True), connect(target)
    try:
        old.backup(new)
    finally:
        old.close()
        new.close()


def sync(path: str | Path) -> None:
    """Make a file, or the names in a folder, durable on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
