"""Writing a file beside its place and renaming it, so that nobody meets half of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from db.backup import sync
from db.errors import Refused

_BREAKS = {ord(character): " " for character in "\t\r\n"}


def one_line(text: str) -> str:
    """The text with a space in the place of every tab and line end, for forms that quote nothing."""
    return text.translate(_BREAKS)


@contextmanager
def written_whole(path: str | Path) -> Iterator[TextIO]:
    """A text file (UTF-8) to write to. It takes its place when the block ends; if anything is raised, nothing is left.

    Raises:
        Refused: the file cannot be written there.
    """
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        file = open(partial, "w", encoding="utf-8", newline="\n")  # noqa: SIM115 (closed below)
    except OSError as error:
        raise Refused(f"{path}: cannot be written ({error.strerror or error}); choose another place") from error
    try:
        with file:
            yield file
        sync(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
