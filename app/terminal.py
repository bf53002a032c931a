"""The only way to the terminal: what is printed holds no escape sequences but our own.

Relations, titles, names and messages come from files of others. A control character in them could move the cursor, hide text or
change the terminal's settings. `clean` replaces each with a visible sign. `clean_streams` puts standard output and error behind it,
so that `print`, tracebacks, log lines and typer's messages are cleaned; `Terminal` is rich's console, which cleans every text
and then adds its own colours. `app.cli.main` calls `clean_streams` once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

_KEPT = "\n\t"
_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in _KEPT}  # U+241B is a small "ESC"
_DELETE_AND_C1 = {0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}
_DIRECTION = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD)  # they make text read backwards
_SIGNS = {**_PICTURES, **_DELETE_AND_C1, **_DIRECTION}


def clean(text: str) -> str:
    """Return the text with a visible sign for every control character but line end and tab."""
    return text.translate(_SIGNS)


def clean_json(text: str) -> str:
    """Return JSON of the same meaning, with an escape for every character that `clean` would replace."""
    return "".join(f"\\u{ord(char):04x}" if ord(char) in _SIGNS else char for char in text)


class CleanStream:
    """A text stream that cleans what is written to it. `raw` is the stream behind it, for those who clean their own."""

    def __init__(self, raw: IO[str]):
        self.raw = raw

    def write(self, text: str) -> int:
        self.raw.write(clean(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class Terminal(Console):
    """Rich's console, which cleans every text before it adds its own sequences."""

    @property
    def file(self) -> IO[str]:
        stream = Console.file.fget(self)
        return stream.raw if isinstance(stream, CleanStream) else stream

    @file.setter
    def file(self, new: IO[str]) -> None:
        Console.file.fset(self, new)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=clean(segment.text))


def clean_streams() -> None:
    """Put standard output and error behind `clean`, for the rest of this process."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, CleanStream):
            setattr(sys, name, CleanStream(stream))
