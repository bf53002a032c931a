"""Passages as JSON lines: `{"id", "title", "text"}`. `_id` may replace `id`; the title may be absent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from backend.data.formats import fields
from backend.data.formats.base import NO_OPTIONS, Format, Head, Options, PassageBatch
from backend.data.formats.streams import ByteSource, not_utf8, numbered_lines
from db.errors import BadInput

_BATCH = 4096


def recognise(head: Head) -> bool:
    try:
        record = fields.parse_object(head.first_line)
    except fields.FieldError:
        # The line is longer than the head, so decide by its beginning.
        named = '"id"' in head.text or '"_id"' in head.text
        return (
            len(head.first_line) == len(head.text)
            and head.text.startswith('{"')
            and named
            and '"question"' not in head.text
        )
    return "text" in record and bool({"id", "_id"} & set(record)) and not {"question", "answers", "gold"} & set(record)


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[PassageBatch]:
    source = ByteSource(path)
    batch, empty = PassageBatch(), True
    for line, text in numbered_lines(source):
        empty = False
        try:
            if not_utf8(text):
                raise fields.FieldError("this line contains bytes that are not UTF-8")
            record = fields.parse_object(text)
            id = fields.identifier(record, "id", "_id")
            batch.rows.append((id, fields.text(record, "title", ""), fields.required_text(record, "text")))
            batch.lines.append(line)
        except fields.FieldError as error:
            batch.problems.append(BadInput(str(error), path, line))
        if len(batch.rows) + len(batch.problems) >= _BATCH:
            batch.share = source.read / max(source.size, 1)
            yield batch
            batch = PassageBatch()
    if empty:
        raise BadInput("the file is empty", path)
    batch.share, batch.sha256 = 1.0, source.sha256
    yield batch


FORMATS = [Format("passage-jsonl", "passages", "JSON lines with id, title and text", recognise, read)]
