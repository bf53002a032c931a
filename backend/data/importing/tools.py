"""What every import needs: progress that is paced, errors of the disk in one line, the files that are hashed."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from backend.data.formats.archive import members_sha256
from backend.data.formats.base import Format
from backend.data.formats.streams import file_sha256
from backend.progress import Progress
from db.errors import Refused

_TELL_EVERY = 0.3  # seconds


class ThrottledProgress:
    """Calls the progress now and then only: a row costs far less than a call."""

    def __init__(self, progress: Progress | None):
        self._progress, self._last = progress, 0.0

    def __call__(self, done: int, total: int | None, doing: str) -> None:
        if self._progress and time.monotonic() - self._last > _TELL_EVERY:
            self.now(done, total, doing)

    def now(self, done: int, total: int | None, doing: str) -> None:
        if self._progress:
            self._last = time.monotonic()
            self._progress(done, total, doing)


@contextmanager
def writable(folder: Path) -> Iterator[None]:
    """A full disk or a folder that may not be written to, in one line. Reading has errors of its own."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Refused(f"{folder}: cannot be written to ({reason}); nothing was changed") from error


def source_file(chosen: Format, path: Path) -> Path:
    """The file that holds the rows: of a format that is a folder, the first of its files."""
    return chosen.files(path)[0] if chosen.files is not None and path.is_dir() else path


def source_sha256(chosen: Format, path: Path) -> str:
    """The sha256 of a file as it lies on disk; of a folder, over the files of it that are read."""
    if chosen.files is None or not path.is_dir():
        return members_sha256(path, lambda name: name.endswith(".json"))
    digest = hashlib.sha256()
    for file in chosen.files(path):
        digest.update(f"{file.relative_to(path).as_posix()}\0{file_sha256(file)}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()


def refuse_other(name: str, value: str | None, allowed: tuple[str | None, ...]) -> None:
    if value not in allowed:
        raise Refused(f"{name} is {value!r}; it must be one of {', '.join(filter(None, allowed))}")
