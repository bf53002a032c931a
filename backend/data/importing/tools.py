"""Helpers for all imports: throttled progress reports, one-line messages for disk errors, and hashes of
source files.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blindspot.backend.data.formats.archive import members_sha256
from blindspot.backend.data.formats.base import Format
from blindspot.backend.data.formats.streams import file_sha256
from blindspot.backend.progress import Progress
from blindspot.db.errors import Refused

_INTERVAL = 0.3  # seconds


class ThrottledProgress:
    """Reports progress at most every 0.3 seconds, because a report takes far longer than importing a row."""

    def __init__(self, progress: Progress | None):
        self._progress, self._last = progress, 0.0

    def __call__(self, completed: int, total: int | None, activity: str) -> None:
        if self._progress and time.monotonic() - self._last > _INTERVAL:
            self.report_now(completed, total, activity)

    def report_now(self, completed: int, total: int | None, activity: str) -> None:
        if self._progress:
            self._last = time.monotonic()
            self._progress(completed, total, activity)


@contextmanager
def readable_write_errors(folder: Path) -> Iterator[None]:
    """Turn write errors, such as a full disk or missing permissions, into Refused with a one-line message."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Refused(f"{folder}: cannot be written to ({reason}); nothing was changed") from error


def source_file(format: Format, path: Path) -> Path:
    """Return the file with the rows, or the folder itself if its rows are in several files."""
    files = format.files(path) if format.files is not None and path.is_dir() else []
    return files[0] if len(files) == 1 else path


def source_sha256(format: Format, path: Path) -> str:
    """Return the sha256 of a file on disk. For a folder, hash the names and contents of the files that are read."""
    if format.files is None or not path.is_dir():
        return members_sha256(path, lambda name: name.endswith(".json"))
    digest = hashlib.sha256()
    for file in format.files(path):
        digest.update(f"{file.relative_to(path).as_posix()}\0{file_sha256(file)}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def refuse_other_values(name: str, value: str | None, allowed: tuple[str | None, ...]) -> None:
    """Raise Refused unless the value of the option `name` is one of `allowed`."""
    if value not in allowed:
        raise Refused(f"{name} is {value!r}; it must be one of {', '.join(filter(None, allowed))}")
