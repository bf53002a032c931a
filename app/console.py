"""Rich's console, with control characters removed from its texts: see `blindspot.app.terminal`. It is a separate module
because importing rich is slow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from blindspot.app.terminal import CleanStream, clean

_CONSOLE_FILE: Any = vars(Console)["file"]  # the property of the base class, whose setter `super()` cannot reach


class Terminal(Console):
    """Rich's console. Control characters in every text are replaced before rich adds its own."""

    @property
    def file(self) -> IO[str]:
        stream = _CONSOLE_FILE.fget(self)
        return stream.raw if isinstance(stream, CleanStream) else stream

    @file.setter
    def file(self, new_stream: IO[str]) -> None:
        _CONSOLE_FILE.fset(self, new_stream)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=clean(segment.text))
