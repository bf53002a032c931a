"""Write a file under a temporary name and rename it when it is complete, so a reader never sees a partial file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from blindspot.db.backup import sync_to_disk
from blindspot.db.errors import Refused

_BREAKS = {ord(character): " " for character in "\t\r\n"}


def one_line(text: str) -> str:
    """Replace every tab and line end by a space, for formats without quoting."""
    return text.translate(_BREAKS)


@contextmanager
def open_atomically(path: str | Path) -> Iterator[TextIO]:
    """Open a UTF-8 text file for writing. The file appears at `path` when the `with` block ends. After an error no file
    remains.

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
        sync_to_disk(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_lines(path: str | Path, lines: Iterable[str]) -> int:
    """Write lines as `open_atomically` does. Return their number."""
    rows = 0
    with open_atomically(path) as file:
        for line in lines:
            file.write(f"{line}\n")
            rows += 1
    return rows


def write_json_lines(path: str | Path, records: Iterable[Mapping[str, Any]]) -> int:
    """Write objects as JSON lines. Return their number."""
    return write_lines(path, (json.dumps(record, ensure_ascii=False) for record in records))
