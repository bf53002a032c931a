"""Read logs of retrievers: each question as a user asked it, with the retrieved chunks.

Read from JSON lines, JSON arrays, CSV, Parquet and Arrow (`blindspot.backend.data.table_files`), in these shapes:

- OpenInference spans, as Phoenix exports them (`get_spans_dataframe`, and spans as JSON) and as OTLP/JSON: spans of kind
  RETRIEVER with `input.value` and `retrieval.documents` (Arize-ai/openinference, spec/semantic_conventions.md);
- Langfuse's observations with `input` and `output` (langfuse.com, blob storage export field reference; export from the UI);
- LangSmith's runs of `run_type` retriever: `inputs.query`, `outputs.documents` with `page_content` (langsmith.schemas.Run,
  bulk export as Parquet);
- a table with a question and its list of chunks on each row, or a question and one chunk; columns by their usual names, or
  chosen.

Rows of other kinds, such as calls of a language model, are skipped.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from blindspot.backend.core.sampling import text_key
from blindspot.backend.data.formats.base import MAX_ID, Context, RunEntry, text_fault
from blindspot.backend.data.formats.fields import parse_structured_text
from blindspot.backend.data.table_files import column_names, columns_of, rows_of
from blindspot.db.errors import BadInput

LOOKED_AT = 500  # rows by which the shape is recognised: retrievers' spans are few among others
SHOWN_ROWS = 3  # of a preview
FIELDS, FIELD_NAME, FIELD_VALUE = 30, 60, 200
TEXT = ("document.content", "content", "page_content", "pageContent", "text", "chunk", "body", "passage", "node.text")
CHUNK_ID = (
    *("document.id", "id", "chunk_id", "doc_id", "document_id", "passage_id", "docid", "_id"),
    *("metadata.id", "metadata.chunk_id", "metadata.doc_id", "metadata._id", "node.id_"),
)
SCORE = ("document.score", "score", "similarity", "relevance_score", "metadata.score", "metadata.relevance_score")
TITLE = ("title", "metadata.title", "document.metadata.title")
ASKED = ("query", "question", "input", "user_input", "query_str", "search_query", "text", "value")
DATES = ("date", "time", "timestamp", "created_at", "start_time", "startTime")
TABLE: Mapping[str, tuple[str, ...]] = {
    "question": ("question", "query", "user_input", "user_query", "input", "prompt"),
    "chunks": (
        *("contexts", "retrieved_contexts", "retrieval_context", "documents", "chunks", "passages", "retrieved"),
        *("ctxs", "results", "context", "chunk", "content", "page_content", "document", "passage", "text"),
    ),
    "id": ("request_id", "trace_id", "query_id", "event_id"),
    "chunk_id": ("chunk_id", "doc_id", "document_id", "passage_id", "docid", "ids", "chunk_ids", "doc_ids"),
    "score": ("score", "scores", "similarity"),
}
"""The columns of a table, each with its usual names; the user can choose another column for each."""


@dataclass(frozen=True)
class LogShape:
    """The layout of one tool's log rows. All attributes except `marks` are paths: names of nested fields joined by
    dots.

    Attributes:
        marks: Columns by which the shape is recognised. kind: Where the kind of a row is, and that of a retriever.
        fields: Name of a field of ours, and its path. metadata: Objects whose members become fields.
    """

    name: str
    marks: tuple[str, ...]
    kind: tuple[tuple[str, ...], str]
    question: str
    chunks: tuple[str, ...]
    id: tuple[str, ...]
    date: tuple[str, ...]
    fields: Mapping[str, str]
    metadata: tuple[str, ...]


SHAPES = (
    LogShape(
        "OpenInference spans",
        ("attributes.openinference.span.kind", "attributes.retrieval.documents", "attributes", "span_kind"),
        (("attributes.openinference.span.kind", "span_kind"), "RETRIEVER"),
        "attributes.input.value",
        ("attributes.retrieval.documents",),
        ("context.span_id", "span_id", "spanId"),
        ("start_time", "startTimeUnixNano"),
        {"session": "attributes.session.id", "retriever": "name"},
        ("attributes.metadata", "attributes.tag.tags"),
    ),
    LogShape(
        "LangSmith runs",
        ("run_type",),
        (("run_type",), "RETRIEVER"),
        "inputs",
        ("outputs.documents", "outputs.output", "outputs"),
        ("id", "run_id"),
        ("start_time",),
        {"session": "extra.metadata.session_id", "project": "session_name", "retriever": "name"},
        ("extra.metadata", "feedback_stats"),
    ),
    LogShape(
        "Langfuse observations",
        ("traceId", "trace_id"),
        (("type",), "RETRIEVER"),
        "input",
        ("output.documents", "output"),
        ("id",),
        ("startTime", "start_time", "timestamp"),
        {"session": "sessionId", "session_id": "session_id", "retriever": "name"},
        ("metadata", "scores"),
    ),
)


@dataclass(frozen=True)
class OpenedLog:
    """A log whose layout has been recognised. columns: for a table, the column for each name of `TABLE`; else {}."""

    path: Path
    name: str
    shape: LogShape | None
    columns: Mapping[str, str]

    def entries(self) -> Iterator[RunEntry | BadInput]:
        """Yield each question as it was asked, with its chunks, and BadInput for an invalid row."""
        rows = _log_rows(self.path)
        made = _table_entries(rows, self.columns) if self.shape is None else _span_entries(rows, self.shape)
        chunks = _EventConverter(self.path)
        for number, each in enumerate(made, 1):
            yield each if isinstance(each, BadInput) else chunks.entry(each, number)


@dataclass
class _Event:
    """One occurrence of a question. chunks: objects or texts in the retriever's order."""

    question: str
    chunks: list[Any]
    id: str | None
    fields: dict[str, str]
    line: int


def open_log(path: str | Path, chosen_columns: Mapping[str, str] | None = None) -> OpenedLog:
    """Recognise the layout of a log.

    Args:
        chosen_columns: Columns of a table by the names of `TABLE`, where they have other names than the usual ones.

    Raises BadInput for a file of unknown layout; the message names its columns.
    """
    path = Path(path)
    columns = columns_of(path)
    for name in chosen_columns or {}:
        if name not in TABLE:
            raise BadInput(f"{name!r} is no part of a log; choose {', '.join(TABLE)}", path)
    if absent := next((column for column in (chosen_columns or {}).values() if column not in columns), None):
        raise BadInput(f"there is no column {absent!r}; the columns are {column_names(columns)}", path)
    if not chosen_columns:
        sample = [row for row in islice(_log_rows(path), LOOKED_AT) if not isinstance(row, BadInput)]
        for shape in SHAPES:
            marked = any(mark in row for _, row in sample for mark in shape.marks)
            if marked and next(_span_entries(sample, shape), None) is not None:
                return OpenedLog(path, shape.name, shape, {})
    taken = usual_columns(columns) | dict(chosen_columns or {})
    if {"question", "chunks"} <= set(taken) and taken["question"] != taken["chunks"]:
        return OpenedLog(path, "table", None, taken)
    raise BadInput(
        f"no retrieval log of a known shape; the columns are {column_names(columns)}; choose the column of the question and of "
        "the chunks with --set question=COLUMN --set chunks=COLUMN",
        path,
    )


def usual_columns(columns: Sequence[str]) -> dict[str, str]:
    """Return the column for each part of a log (question, chunk, ...) that has a usual name."""
    found = {name: next((each for each in usual if each in columns), None) for name, usual in TABLE.items()}
    return {name: column for name, column in found.items() if column is not None}


def preview(path: str | Path) -> dict[str, list[str]]:
    """Return the first values of each column of a table, shortened, so that a person can choose columns. Raises
    BadInput for an unreadable file.
    """
    columns = columns_of(path)
    first = [row.values for row in islice(rows_of(path), SHOWN_ROWS) if not isinstance(row, BadInput)]
    return {name: [" ".join(str(values.get(name, "")).split())[:80] for values in first] for name in columns}


def _log_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]] | BadInput]:
    for row in rows_of(path):
        if isinstance(row, BadInput):
            yield row
        elif "resourceSpans" in row.values:
            yield from ((row.line, span) for span in _otlp_spans(row.values))
        else:
            yield row.line, row.values


def _otlp_spans(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spans of a line of OTLP/JSON, with their attributes as an object (opentelemetry-proto, trace.proto)."""
    for resource in values["resourceSpans"] or ():
        for scope in resource.get("scopeSpans") or ():
            for span in scope.get("spans") or ():
                attributes = {
                    each["key"]: next(iter((each.get("value") or {"": None}).values()))
                    for each in span.get("attributes") or ()
                }
                yield {**span, "attributes": attributes}


# Spans


def _span_entries(
    rows: Iterable[tuple[int, dict[str, Any]] | BadInput], log_shape: LogShape
) -> Iterator[_Event | BadInput]:
    for row in rows:
        if isinstance(row, BadInput):
            yield row
            continue
        line, values = row
        kind = next((str(found) for path in log_shape.kind[0] if (found := value_at(values, path))), None)
        if kind is not None and kind.upper() != log_shape.kind[1]:
            continue
        question = _question_in(value_at(values, log_shape.question))
        chunks = next((found for path in log_shape.chunks if (found := _list_at(values, path)) is not None), None)
        if question is None or (chunks is None and kind is None):
            continue
        fields = {name: value_at(values, path) for name, path in log_shape.fields.items()}
        for path in log_shape.metadata:
            found = parse_structured_text(value_at(values, path))
            fields |= found if isinstance(found, dict) else {}
        fields["date"] = _first_value(values, log_shape.date)
        id = _first_value(values, log_shape.id)
        yield _Event(question, chunks or [], None if id is None else str(id), _short_fields(fields), line)


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path of nested objects, or None. Objects may be JSON texts, and names may contain dots."""
    value = parse_structured_text(value)
    if not isinstance(value, dict):
        return None
    if path in value:
        return value[path]
    for dot in re.finditer(r"\.", path):
        if path[: dot.start()] in value:
            found = value_at(value[path[: dot.start()]], path[dot.end() :])
            if found is not None:
                return found
    return None


def _list_at(values: dict[str, Any], path: str) -> list[Any] | None:
    """Return the list at a path. The list may be flattened into numbered names such as
    `documents.0.document.content`.
    """
    found = parse_structured_text(value_at(values, path))
    if isinstance(found, list):
        return found
    head, _, tail = path.partition(".")
    flat: dict[int, dict[str, Any]] = {}
    for prefix, inner in ((path, values), (tail, parse_structured_text(values.get(head)))):
        for name, value in inner.items() if isinstance(inner, dict) and prefix else ():
            if number := re.fullmatch(rf"{re.escape(prefix)}\.(\d+)\.(.+)", name):
                flat.setdefault(int(number[1]), {})[number[2]] = value
    return [flat[number] for number in sorted(flat)] or None


def _question_in(value: Any) -> str | None:
    """Return the question in an input value: the text itself, or a usual field of an object."""
    value = parse_structured_text(value)
    if isinstance(value, list) and len(value) == 1:
        value = parse_structured_text(value[0])
    if isinstance(value, dict):
        value = next((value[name] for name in ASKED if isinstance(value.get(name), str)), None)
    return value if isinstance(value, str) and value.strip() else None


def _first_value(values: Any, paths: Sequence[str]) -> Any:
    return next((found for path in paths if (found := value_at(values, path)) is not None), None)


def _short_fields(values: Mapping[str, Any]) -> dict[str, str]:
    """Return further fields of a question as short texts, with dates shortened to the day. Lists and long texts are
    left out.
    """
    column_of_field: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, dict):  # LangSmith's feedback_stats: {"user_score": {"n": 1, "avg": 1.0}}
            value = value.get("avg", value.get("value"))
        name = "date" if name in DATES else " ".join(str(name).split())
        text = _day_of(value) if name == "date" else "" if isinstance(value, list | dict | None) else str(value).strip()
        if 0 < len(name) <= FIELD_NAME and 0 < len(text) <= FIELD_VALUE and len(column_of_field) < FIELDS:
            column_of_field[name] = " ".join(text.split())
    return column_of_field


def _day_of(value: Any) -> str:
    """Return the day of a date, an ISO text, or a number of seconds, milliseconds or nanoseconds since 1970."""
    if isinstance(value, date):
        return value.isoformat()[:10]
    text = str(value or "")
    if text.isdigit() and len(text) >= 9:
        return datetime.fromtimestamp(int(text[:10]), UTC).date().isoformat()
    return text[:10] if re.match(r"\d{4}-\d\d-\d\d", text) else ""


# Tables


def _table_entries(
    rows: Iterable[tuple[int, dict[str, Any]] | BadInput], columns: Mapping[str, str]
) -> Iterator[_Event | BadInput]:
    """Yield the events of a table. If each row has one chunk, consecutive rows with the same question are one event."""
    waiting: _Event | None = None
    for row in rows:
        if isinstance(row, BadInput):
            yield row
            continue
        line, values = row
        question, chunks = values.get(columns["question"]), parse_structured_text(values.get(columns["chunks"]))
        if not isinstance(question, str) or not question.strip():
            yield BadInput(f"{columns['question']!r} holds no question", "", line)
            continue
        id = values.get(columns.get("id", ""))
        others = {name: value for name, value in values.items() if name not in columns.values()}
        event = _Event(question, [], None if id in (None, "") else str(id), _short_fields(others), line)
        beside = {
            name: parse_structured_text(values.get(columns[name])) for name in ("chunk_id", "score") if name in columns
        }
        if isinstance(chunks, list):
            event.chunks = [_chunk_with_parallel_values(chunk, place, beside) for place, chunk in enumerate(chunks)]
            yield event
            continue
        if waiting is None or (waiting.question, waiting.id) != (question, event.id):
            if waiting is not None:
                yield waiting
            waiting = event
        if chunks not in (None, ""):
            text = chunks if isinstance(chunks, dict) else {"text": str(chunks)}
            waiting.chunks.append({**text, **{_OURS[name]: value for name, value in beside.items()}})
    if waiting is not None:
        yield waiting


_OURS = {"chunk_id": "id", "score": "score"}


def _chunk_with_parallel_values(chunk: Any, position: int, parallel_lists: Mapping[str, Any]) -> Any:
    """Return a chunk with its id and score, taken from the lists of ids and scores that are parallel to the list of
    chunks.
    """
    own = {
        _OURS[name]: values[position]
        for name, values in parallel_lists.items()
        if isinstance(values, list) and position < len(values)
    }
    return {**(chunk if isinstance(chunk, dict) else {"text": chunk}), **own} if own else chunk


# Chunks


class _EventConverter:
    """Converts events to run entries. A chunk is identified by its id, or else by its text. If an id occurs again with
    a different text, the chunk is stored as another version.
    """

    def __init__(self, path: Path):
        self.path = path
        self._versions: dict[str, dict[bytes, str]] = {}

    def entry(self, event: _Event, number: int) -> RunEntry | BadInput:
        if problem := text_fault("question", event.question):
            return BadInput(problem, self.path, event.line)
        contexts: dict[str, Context] = {}
        for chunk in event.chunks:
            read = self._read_chunk(chunk, event.line)
            if isinstance(read, BadInput):
                return read
            if read is not None:
                contexts.setdefault(read.id, read)
        found = list(contexts.values())
        scores = [each.score for each in found]
        # The order of the log counts. Where the scores do not fall (distances, or none), the rank stands for the score.
        if any(a < b or a != a for a, b in zip(scores, scores[1:], strict=False)) or any(s != s for s in scores):
            found = [each._replace(score=float(-rank)) for rank, each in enumerate(found)]
        id = None if event.id is None else _plain_id(event.id)
        return RunEntry(id, event.question, (), found, str(self.path), event.line, (), event.fields)

    def _read_chunk(self, chunk: Any, line: int) -> Context | BadInput | None:
        """Read a chunk; None if it has no text."""
        chunk = parse_structured_text(chunk)
        text = chunk if isinstance(chunk, str) else _first_value(chunk, TEXT)
        if text is not None and not isinstance(text, str):
            return BadInput("a chunk's text is no text", self.path, line)
        id = None if isinstance(chunk, str) else _first_value(chunk, CHUNK_ID)
        if not text or text.isspace():
            problem = f"the chunk {str(id)[:80]!r} has no text; log the texts, or import passages and then the run"
            return BadInput(problem, self.path, line) if text is None and id is not None else None
        text = text.replace("\0", " ")
        title = None if isinstance(chunk, str) else _first_value(chunk, TITLE)
        score = None if isinstance(chunk, str) else _first_value(chunk, SCORE)
        return Context(
            self._chunk_id(id, text), _parse_score(score), line, title if isinstance(title, str) else "", text
        )

    def _chunk_id(self, id: Any, text: str) -> str:
        digest = text_key(" ".join(text.split()))
        plain = f"text-{digest.hex()[:16]}" if id in (None, "") else _plain_id(str(id))
        versions = self._versions.setdefault(plain, {})
        return versions.setdefault(digest, plain if not versions else f"{plain}~{len(versions) + 1}")


def _plain_id(id: str) -> str:
    """Return an id without characters that URLs or TREC files do not allow."""
    plain = re.sub(r"[\s\x00-\x1f\x7f]+", "_", id.strip()) or "_"
    return plain if len(plain) <= MAX_ID - 8 else f"{plain[:200]}-{hashlib.sha256(plain.encode()).hexdigest()[:16]}"


def _parse_score(value: Any) -> float:
    try:
        return float("nan") if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return float("nan")
