"""Errors that a person can do something about. The library raises them; the command line and the pages show their one
line.
"""

from __future__ import annotations

from pathlib import Path


class BlindspotError(Exception):
    """An error that a person can fix. `str(error)` is one line: what is wrong, where, and what to do."""


class BadInput(BlindspotError):
    """An input file or value that is wrong.

    Args:
        message: What is wrong and what to do, without the place.
        path: The file; for an archive, `archive.tar.xz:member.json`.
        line: Line number in that file, from 1, if there is one.
    """

    def __init__(self, message: str, path: str | Path | None = None, line: int | None = None):
        self.message, self.path, self.line = message, path, line
        place = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(place + message)


class Missing(BlindspotError):
    """A study, part, run, question or passage that does not exist."""


class Refused(BlindspotError):
    """A request that the study does not allow, such as importing a second passage collection."""


class Forbidden(Refused):
    """An action that the person's role does not allow."""
