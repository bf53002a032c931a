"""Passages as JSON lines: `{"id", "title", "text"}`. `_id` may replace `id`; the title may be absent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.base import NO_OPTIONS, Format, Head, Options, PassageBatch, Row
from blindspot.backend.data.formats.passage_lines import read_passage_lines


def recognise(file_head: Head) -> bool:
    record = set(file_head.record)
    if not record:  # the line is longer than the head, so its beginning decides
        named = '"id"' in file_head.text or '"_id"' in file_head.text
        starts = file_head.is_cut_short and file_head.text.startswith('{"')
        return starts and named and '"question"' not in file_head.text
    return "text" in record and bool({"id", "_id"} & record) and not {"question", "answers", "gold"} & record


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[PassageBatch]:
    yield from read_passage_lines(path, _parse_passage)


def _parse_passage(line: int, text: str) -> list[Row]:
    record = fields.parse_object(text)
    id = fields.identifier(record, "id", "_id")
    return [(id, fields.text(record, "title", ""), fields.required_text(record, "text"))]


FORMATS = [Format("passage-jsonl", "passages", "JSON lines with id, title and text", recognise, read)]
