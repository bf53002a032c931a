"""Entity frequencies: tab separated with a header. One column is `entity` (or `subject`), and the other one is the
count.

Fields are not quoted, so an entity may contain quotes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from blindspot.backend.data.formats.base import NO_OPTIONS, Format, Head, Options, text_fault
from blindspot.backend.data.formats.fields import MAX_INTEGER
from blindspot.backend.data.formats.streams import ByteSource, numbered_lines
from blindspot.db.errors import BadInput

_ENTITY = ("entity", "subject")


def recognise(file_head: Head) -> bool:
    names = _column_names(file_head.first_line)
    return len(names) == 2 and any(name in _ENTITY for name in names)


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[tuple[str, int, int] | BadInput]:
    lines = numbered_lines(ByteSource(path))
    number, header = next(lines, (1, None))
    if header is None:
        raise BadInput("the file is empty", path)
    names = _column_names(header)
    if len(names) != 2 or not any(name in _ENTITY for name in names):
        raise BadInput("the header must name two columns: entity and count", path, number)
    entity_at = 0 if names[0] in _ENTITY else 1
    empty = True
    for line, text in lines:
        empty = False
        values = text.split("\t")
        message = _line_problem(values, entity_at)
        yield BadInput(message, path, line) if message else (values[entity_at], int(values[1 - entity_at]), line)
    if empty:
        raise BadInput("the file has a header but no rows", path)


def _column_names(line: str) -> list[str]:
    return [name.strip().lower() for name in line.split("\t")]


def _line_problem(values: list[str], entity_column: int) -> str | None:
    if len(values) != 2:
        return f"{len(values)} fields; there must be two, entity and count"
    count = values[1 - entity_column]
    if not (count.isascii() and count.isdigit() and len(count) < 20 and int(count) <= MAX_INTEGER):
        return f"the count is {count[:40]!r}; it must be a whole number"
    return text_fault("entity", values[entity_column])


FORMATS = [Format("mentions-tsv", "frequencies", "tab-separated entity and count, with a header", recognise, read)]
