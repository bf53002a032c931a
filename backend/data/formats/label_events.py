"""Label events as JSON lines and as CSV, with a column for each field of `blindspot.db.events.EventRow` and for the
question's split.

In a spreadsheet, a CSV cell that begins with = + - @ is a formula. A text that begins with one of these characters, a
tab, a line break or an apostrophe is therefore written with an apostrophe in front, which is removed on reading. Every
text is quoted.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from blindspot.backend.core.spreadsheets import plain_cell, safe_cell
from blindspot.backend.data.formats.streams import has_invalid_utf8
from blindspot.db.errors import BadInput
from blindspot.db.events import COLUMNS, LABELLING, MAX_NUMBER, Choice, EventRow, LabelEvent, validate
from blindspot.db.names import check_display_name

HEADER = (*COLUMNS, "split")
_WHOLE = {"number", "part", "undoes", "practice", "blind", "rank", "milliseconds"}
_REAL = {"score", "suggestion", "inclusion_probability", "client_time", "server_time"}
_CELL_READERS: dict[str, Callable[[str], Any]] = {**dict.fromkeys(_WHOLE, int), **dict.fromkeys(_REAL, float)}
_NEEDED = {*"number gesture part kind question annotator practice blind guideline_version server_time".split()}
MAX_LINE = 4 << 20  # characters; a note of a whole page has 4,000
_LARGEST = 2**63 - 1


class EventLine(NamedTuple):
    """An event and the line (from 1) on which it begins."""

    line: int
    event: EventRow


class EventProblem(NamedTuple):
    """An error in a line of the file. `line` is None if the line number is unknown."""

    line: int | None
    message: str


@dataclass(frozen=True, slots=True)
class EventFormat:
    """A file format for label events.

    Attributes:
        read: Yields the lines of a file. Raises BadInput if the file cannot be read any further.
        writer: Returns, for an open file, a function that writes an event and the split of its question.
    """

    read: Callable[[Path], Iterator[EventLine | EventProblem]]
    writer: Callable[[TextIO], Callable[[EventRow, str], None]]


def _json_writer(file: TextIO) -> Callable[[EventRow, str], None]:
    def write(event: EventRow, split: str) -> None:
        file.write(
            json.dumps(dict(zip(HEADER, (*_column_values(event), split), strict=True)), ensure_ascii=False) + "\n"
        )

    return write


def _csv_writer(file: TextIO) -> Callable[[EventRow, str], None]:
    rows = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    rows.writerow(HEADER)

    def write(event: EventRow, split: str) -> None:
        values = (
            "" if value is None else safe_cell(value) if isinstance(value, str) else value
            for value in (*_column_values(event), split)
        )
        rows.writerow(values)

    return write


def _read_json(path: Path) -> Iterator[EventLine | EventProblem]:
    with _open_text(path, "\n") as file:
        for line, text in enumerate(_bounded_lines(file, path), 1):
            if not text.strip():
                continue
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                yield EventProblem(line, "this is not JSON")
                continue
            if isinstance(value, dict):
                yield _event_of_line(line, value)
            else:
                yield EventProblem(line, "this is not a JSON object")


def _read_csv(path: Path) -> Iterator[EventLine | EventProblem]:
    with _open_text(path, "") as file:
        rows = csv.reader(_bounded_lines(file, path), strict=True)
        try:
            header = next(rows, [])
            if missing := _NEEDED - set(header):
                raise BadInput(f"the header must name the column {sorted(missing)[0]}", path, 1)
            first = rows.line_num + 1
            for row in rows:
                if row:
                    yield _csv_line(first, header, row)
                first = rows.line_num + 1
        except csv.Error as error:
            raise BadInput(f"is not CSV ({error})", path, rows.line_num) from error


def _csv_line(line: int, header: list[str], row: list[str]) -> EventLine | EventProblem:
    if len(row) != len(header):
        return EventProblem(line, f"{len(row)} cells; the header has {len(header)}")
    value: dict[str, Any] = {}
    for name, cell in zip(header, row, strict=True):
        try:
            value[name] = None if cell == "" else _CELL_READERS.get(name, plain_cell)(cell)
        except ValueError:
            return EventProblem(line, f"{name} is {cell[:40]!r}; it must be a number")
    return _event_of_line(line, value)


def _event_of_line(line: int, value: dict[str, Any]) -> EventLine | EventProblem:
    try:
        return EventLine(line, _parse_event(value))
    except BadInput as error:
        return EventProblem(line, error.message)


def _parse_event(value: dict[str, Any]) -> EventRow:
    """Read an event. Raises BadInput for an invalid event. The importer makes the checks that need other events or the
    study.
    """
    if absent := [name for name in HEADER if name in _NEEDED and value.get(name) is None]:
        raise BadInput(f"there is no {absent[0]}")
    for name in COLUMNS:
        _check_type(name, value.get(name))
    columns: dict[str, Any] = {
        name: float(value[name]) if name in _REAL and value.get(name) is not None else value.get(name)
        for name in COLUMNS
    }
    event = EventRow(**columns)
    choices: tuple[Choice, ...] = ()
    if event.passage is not None and event.kind != "undo":
        choices = (Choice(event.passage, event.label, event.run, event.rank, event.score, event.suggestion),)
    if event.label is not None and event.kind not in LABELLING:
        raise BadInput(f"an event of the kind {event.kind!r} has no label")
    validate(
        LabelEvent(
            event.gesture,
            event.kind,
            event.question,
            choices,
            event.note,
            None if event.undoes is None else str(event.undoes),
            event.batch,
            bool(event.blind),
            event.guideline_version,
            event.milliseconds,
            event.client_time,
        )
    )
    number = value["number"]
    if number > MAX_NUMBER:
        raise BadInput(f"number is {number}; the limit is {MAX_NUMBER}")
    if number < 1 or event.part < 0 or event.practice not in (0, 1) or event.blind not in (0, 1):
        raise BadInput("number is from 1, part from 0, practice and blind are 0 or 1")
    if event.inclusion_probability is not None and not 0 < event.inclusion_probability <= 1:
        raise BadInput("inclusion_probability must be above 0 and at most 1")
    check_display_name(event.annotator, "annotator's")
    return event


def _check_type(name: str, value: Any) -> None:
    if value is None:
        return
    if name in _WHOLE:
        fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST
    elif name in _REAL:
        fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300
    else:
        fits = isinstance(value, str) and value != "" and not has_invalid_utf8(value) and "\0" not in value
    if not fits:
        kind = "a whole number" if name in _WHOLE else "a number" if name in _REAL else "text, and not empty"
        raise BadInput(f"{name} must be {kind}")


def _column_values(event: EventRow) -> tuple[Any, ...]:
    return tuple(getattr(event, name) for name in COLUMNS)


def _bounded_lines(file: TextIO, path: Path) -> Iterator[str]:
    """Yield the lines of a file. Raises BadInput for a line longer than MAX_LINE, without reading all of it."""
    line = 0
    while text := file.readline(MAX_LINE + 1):
        line += 1
        if len(text) > MAX_LINE:
            raise BadInput(f"a line of more than {MAX_LINE >> 20} MB; is this a file of labels?", path, line)
        yield text


def _open_text(path: Path, newline: str) -> TextIO:
    if path.exists() and not path.is_file():
        raise BadInput("is not a regular file; give a file of labels", path)
    try:
        return open(path, encoding="utf-8-sig", errors="surrogateescape", newline=newline)
    except OSError as error:
        raise BadInput(f"cannot be read ({error.strerror or error})", path) from error


JSONL = EventFormat(_read_json, _json_writer)
CSV = EventFormat(_read_csv, _csv_writer)
