"""Terminal output without control characters from data.

Relations, titles, names and messages come from other people's files. A control character in them could move the cursor,
hide text or change the terminal's settings. `clean` replaces each control character with a visible character.
`clean_streams` applies `clean` to standard output and error, and so to `print`, tracebacks, log lines and typer's
messages. `blindspot.app.console.Terminal` applies it to rich's output. `blindspot.app.cli.main` calls `clean_streams`
once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO, Any

_KEPT = "\n\t"
_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in _KEPT}  # U+241B is a small "ESC"
_DELETE_AND_C1 = {0x7F: 0x2421, **dict.fromkeys(range(0x80, 0xA0), 0xFFFD)}
_DIRECTION = dict.fromkeys(
    [*range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD
)  # characters that reverse the direction of text
_SIGNS = {**_PICTURES, **_DELETE_AND_C1, **_DIRECTION}


def clean(text: str) -> str:
    """Return the text with a visible character in place of every control character except newline and tab."""
    return text.translate(_SIGNS)


def clean_json(text: str) -> str:
    """Return equivalent JSON in which every character that `clean` would replace is written as an escape."""
    return "".join(f"\\u{ord(char):04x}" if ord(char) in _SIGNS else char for char in text)


class CleanStream:
    """A text stream that applies `clean` to everything written to it. `raw` is the underlying stream, for callers that
    clean text themselves.
    """

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


def clean_streams() -> None:
    """Apply `clean` to standard output and error for the rest of this process."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, CleanStream):
            setattr(sys, name, CleanStream(stream))
