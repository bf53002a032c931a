"""Passages as JSON lines: `{"id", "title", "text"}`. `_id` may replace `id`; the title may be absent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.base import NO_OPTIONS, Format, Head, Options, PassageBatch, Row
from blindspot.backend.data.formats.passage_lines import read_passage_lines
from blindspot.backend.data.formats.streams import has_invalid_utf8


def recognise(file_head: Head) -> bool:
    try:
        record = fields.parse_object(file_head.first_line)
    except fields.FieldError:
        # The line is longer than the head, so decide by its beginning.
        named = '"id"' in file_head.text or '"_id"' in file_head.text
        return (
            len(file_head.first_line) == len(file_head.text)
            and file_head.text.startswith('{"')
            and named
            and '"question"' not in file_head.text
        )
    return "text" in record and bool({"id", "_id"} & set(record)) and not {"question", "answers", "gold"} & set(record)


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[PassageBatch]:
    yield from read_passage_lines(path, _parse_passage)


def _parse_passage(line: int, text: str) -> list[Row]:
    if has_invalid_utf8(text):
        raise fields.FieldError("this line contains bytes that are not UTF-8")
    record = fields.parse_object(text)
    id = fields.identifier(record, "id", "_id")
    return [(id, fields.text(record, "title", ""), fields.required_text(record, "text"))]


FORMATS = [Format("passage-jsonl", "passages", "JSON lines with id, title and text", recognise, read)]
