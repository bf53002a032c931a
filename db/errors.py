"""Errors a person can act on. The library raises them; the command line and the pages print their one line."""

from __future__ import annotations

from pathlib import Path


class BlindspotError(Exception):
    """Something a person can put right. `str(error)` is one line: what, where, what to do."""


class BadInput(BlindspotError):
    """A file that cannot be taken as it is.

    Args:
        message: what is wrong and what to do, without the place.
        path: the file; for an archive, `archive.tar.xz:member.json`.
        line: 1-based line in that file, where there is one.
    """

    def __init__(self, message: str, path: str | Path | None = None, line: int | None = None):
        self.message, self.path, self.line = message, path, line
        place = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(place + message)


class Missing(BlindspotError):
    """A study, part, run, question or passage that is asked for and does not exist."""


class Refused(BlindspotError):
    """A request that would break a contract of the study, such as importing a second passage collection."""
