"""Read the rows of tables: CSV, TSV, JSON lines, JSON arrays of objects, Parquet, Arrow, and folders that the package
`datasets` saved.

`rows_of` streams a file of any size and does not need the package `datasets`. All formats and checks that read tables
use it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.streams import (
    ByteSource,
    check_plain_file,
    first_bytes,
    has_invalid_utf8,
    numbered_lines,
    text_blocks,
)
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 1024  # rows of a Parquet or Arrow file that are Python objects at a time
MAX_FIELD = 8 << 20  # characters of a CSV field; a quote that never closes would otherwise take in the whole file
MAX_JSON = 16 << 20  # bytes of the description of a saved dataset
SUFFIXES = (".parquet", ".arrow", ".csv", ".tsv", ".jsonl")
BINARY = ("parquet", "arrow")
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow"}
_SAVED = "state.json"  # of a Dataset, written by save_to_disk
_SAVED_SPLITS = "dataset_dict.json"  # of a DatasetDict
_NAMED_SPLIT = re.compile(r"(train|dev|validation|valid|val|test)(?![a-z])")


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table.

    Attributes:
        values: The value of each column that was asked for.
        path, line: Its place: the line of a text file, or the number of the row in a binary file, from 1.
        split: The split that the folder or the file name gives, such as "validation"; None if it gives none.
    """

    values: dict[str, Any]
    path: str
    line: int
    split: str | None = None


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a table, and the split that its path names."""

    path: Path
    split: str | None = None


def rows_of(
    path: str | Path, columns: Sequence[str] | None = None, text: str | None = None
) -> Iterator[TableRow | BadInput]:
    """Yield the rows of a file or folder in order, and BadInput for an invalid row.

    Args:
        columns: The columns to read; None for all. In JSON lines, a row that lacks a column has None there.
        text: Read text files as "jsonl" or "csv"; default as they begin.

    Raises:
        BadInput: no table, a broken file, or one without one of the columns.
    """
    for file in table_files(path):
        kind = table_kind(file.path) if text is None else binary_kind(file.path) or text
        if kind in BINARY:
            yield from _binary_rows(file, columns, kind)
        elif kind == "csv":
            yield from _csv_rows(file, columns)
        else:
            yield from _json_rows(file, columns, kind)


def columns_of(path: str | Path) -> list[str]:
    """Return the names of a table's columns; for JSON, the fields of the first object. Raises BadInput if the file is
    no table.
    """
    file = table_files(path)[0]
    kind = table_kind(file.path)
    if kind in BINARY:
        with _open_batches(file.path, kind) as (schema, _):
            names = list(schema.names)
    elif kind in ("jsonl", "json"):
        first = next(_json_rows(file, None, kind), None)
        if isinstance(first, BadInput):
            raise first
        names = [] if first is None else list(first.values)
    else:
        names = _read_header(file.path, _csv_records(file.path))
    _check_columns(None, names, file.path, 1 if kind == "csv" else None)
    return names


def table_kind(path: Path) -> str:
    """Return "parquet", "arrow", "jsonl", "json" (an array) or "csv" (also for TSV), judged by the contents of a file.
    Raises BadInput if it cannot be read.
    """
    if kind := binary_kind(path):
        return kind
    return {b"{": "jsonl", b"[": "json"}.get(first_bytes(path, 64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1], "csv")


def binary_kind(path: Path) -> str | None:
    """Return "parquet" or "arrow" if a file begins with that format's magic bytes, else None. Raises BadInput if the
    path is not a file.
    """
    check_plain_file(path)
    try:
        with open(path, "rb") as file:
            start = file.read(8)
    except OSError as error:
        raise BadInput(f"cannot be read ({error.strerror or error})", path) from error
    return next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)


def table_files(path: str | Path) -> list[TableFile]:
    """Return the files of a table in order: the file itself, or the files of a folder. Raises BadInput for a folder
    without tables.
    """
    path = Path(path)
    if not path.is_dir():
        return [TableFile(path)]
    found = _folder_files(path)
    if not found:
        raise BadInput(f"this folder holds no table ({', '.join(SUFFIXES)}, or a saved dataset)", path)
    return found


def is_table_folder(path: Path) -> bool:
    """Return whether a folder is a saved Dataset or DatasetDict, or holds tables and no text files, as dataset
    repositories on the Hub do.
    """
    try:
        return path.is_dir() and bool(_folder_files(path))
    except (BadInput, OSError):
        return True  # reading it raises the error with its reason


def _folder_files(folder: Path) -> list[TableFile]:
    if (folder / _SAVED_SPLITS).is_file():
        splits = _json_file(folder / _SAVED_SPLITS).get("splits")
        if not isinstance(splits, list) or not splits:
            raise BadInput("names no splits; save the dataset again", folder / _SAVED_SPLITS)
        return [
            TableFile(file, str(split))
            for split in splits
            for file in _saved_dataset_files(_path_inside(folder, split))
        ]
    if (folder / _SAVED).is_file():
        split = _json_file(folder / _SAVED).get("_split")
        return [TableFile(file, split if isinstance(split, str) else None) for file in _saved_dataset_files(folder)]
    # A repository of the Hub holds its files at the top or in data/, all of one kind.
    for place in (folder, folder / "data"):
        for suffix in SUFFIXES:
            files = sorted(place.glob(f"*{suffix}")) if place.is_dir() else []
            if files:
                return [TableFile(file, _split_of(file)) for file in files]
    return []


def _saved_dataset_files(folder: Path) -> list[Path]:
    """Return the data files that are listed in state.json of a saved Dataset."""
    named = _json_file(folder / _SAVED).get("_data_files")
    names = [each.get("filename") for each in named if isinstance(each, dict)] if isinstance(named, list) else []
    if not names:
        raise BadInput("names no files of rows; save the dataset again", folder / _SAVED)
    return [_path_inside(folder, name) for name in names]


def _path_inside(folder: Path, name: Any) -> Path:
    """Return the file or folder `name` of a folder. Raises BadInput for a path that leaves the folder."""
    if not isinstance(name, str) or not name or Path(name).name != name or name == "..":
        raise BadInput(f"names {str(name)[:80]!r}, which is not in this folder", folder)
    return folder / name


def _json_file(path: Path) -> dict[str, Any]:
    check_plain_file(path)
    try:
        with open(path, "rb") as file:
            return fields.parse_object(file.read(MAX_JSON).decode("utf-8"))
    except (OSError, UnicodeDecodeError, fields.FieldError) as error:
        raise BadInput(f"cannot be read ({error}); save the dataset again", path) from None


def _split_of(file: Path) -> str | None:
    found = _NAMED_SPLIT.match(file.name)
    return found[1] if found else None


def column_names(names: Sequence[str]) -> str:
    """Return column names as text for a one-line message."""
    return ", ".join(" ".join(name.split())[:40] for name in names[:20])


def _check_columns(columns: Sequence[str] | None, names: Sequence[str], path: Path, line: int | None = None) -> None:
    """Raise BadInput if a table lacks a column, or names one twice."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"the column {twice[:40]!r} occurs twice; rename one", path, line)
    missing = [name for name in columns or () if name not in names]
    if missing:
        raise BadInput(f"there is no column {missing[0]!r}; the columns are {column_names(names)}", path, line)


# Text


def _csv_records(path: Path) -> Iterator[tuple[int, list[str] | BadInput]]:
    """Yield the number of the first line and the fields of each record; for a record with wrong quotes, BadInput
    instead of the fields.
    """
    csv.field_size_limit(MAX_FIELD)
    lines = (
        (line, text) for block in text_blocks(ByteSource(path)) for line, text in enumerate(block.lines, block.line)
    )
    header = next(((line, text) for line, text in lines if text.strip()), None)
    if header is None:
        raise BadInput("the file is empty", path)
    # The separator is the one that the header has most of; spreadsheets of some countries write semicolons.
    separator = max("\t,;", key=header[1].count)
    reader = csv.reader((f"{text}\n" for _, text in chain([header], lines)), delimiter=separator, strict=True)
    while True:
        line = header[0] + reader.line_num
        try:
            record = next(reader, None)
        except csv.Error as error:
            yield line, BadInput(f"this is not CSV ({error}); double the quotes inside a quoted field", path, line)
            continue
        if record is None:
            return
        if record:
            yield line, record


def _read_header(path: Path, records: Iterator[tuple[int, list[str] | BadInput]]) -> list[str]:
    line, header = next(records)
    if isinstance(header, BadInput):
        raise header
    names = [name.strip() for name in header]
    if any(has_invalid_utf8(name) for name in names):
        raise BadInput("the header contains bytes that are not UTF-8", path, line)
    return names


def _csv_rows(file: TableFile, columns: Sequence[str] | None) -> Iterator[TableRow | BadInput]:
    records = _csv_records(file.path)
    names = _read_header(file.path, records)
    _check_columns(columns, names, file.path, 1)
    for line, record in records:
        if isinstance(record, BadInput):
            yield record
            continue
        if len(record) != len(names):
            problem = f"{quantity(len(record), 'field')} where the header names {len(names)}"
            yield BadInput(problem, file.path, line)
            continue
        values = dict(zip(names, record, strict=True))
        chosen = values if columns is None else {name: values[name] for name in columns}
        if any(not value.isascii() and has_invalid_utf8(value) for value in chosen.values()):
            yield BadInput("this record contains bytes that are not UTF-8", file.path, line)
        else:
            yield TableRow(chosen, str(file.path), line, file.split)


def _json_rows(file: TableFile, columns: Sequence[str] | None, kind: str) -> Iterator[TableRow | BadInput]:
    """Yield the objects of JSON lines, or of a JSON array."""
    from blindspot.backend.data.formats.json_stream import array_objects, open_json

    source = ByteSource(file.path)
    for line, record in _json_line_objects(source) if kind == "jsonl" else array_objects(open_json(source)):
        if isinstance(record, BadInput):
            yield record
        else:
            chosen = record if columns is None else {name: record.get(name) for name in columns}
            yield TableRow(chosen, str(file.path), line, file.split)


def _json_line_objects(source: ByteSource) -> Iterator[tuple[int, dict[str, Any] | BadInput]]:
    for line, text in numbered_lines(source):
        try:
            yield line, fields.parse_object(text)
        except fields.FieldError as error:
            yield line, BadInput(str(error), source.path, line)


# Parquet and Arrow


def _binary_rows(file: TableFile, columns: Sequence[str] | None, kind: str) -> Iterator[TableRow | BadInput]:
    with _open_batches(file.path, kind, columns) as (schema, batches):
        _check_columns(columns, schema.names, file.path)
        row = 1
        for batch in batches:
            for start in range(0, batch.num_rows, BATCH):
                for values in batch.slice(start, BATCH).to_pylist():
                    yield TableRow(values, str(file.path), row, file.split)
                    row += 1


@contextmanager
def _open_batches(
    path: Path, kind: str, columns: Sequence[str] | None = None
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Open a Parquet or Arrow file. Yields its schema and the record batches of the chosen columns. Errors of pyarrow
    become BadInput.
    """
    import pyarrow as pa

    check_plain_file(path)
    try:
        if kind == "parquet":
            import pyarrow.parquet as parquet

            # Pages are read as they are needed; otherwise a row group is read whole.
            with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as reader:
                names = None if columns is None else list(columns)
                yield reader.schema_arrow, reader.iter_batches(BATCH, columns=names)
        else:
            with pa.memory_map(str(path)) as mapped:
                stream = mapped.read(6) != b"ARROW1"
                mapped.seek(0)
                reader = pa.ipc.open_stream(mapped) if stream else pa.ipc.open_file(mapped)
                numbers = () if stream else range(reader.num_record_batches)
                batches = iter(reader) if stream else map(reader.get_batch, numbers)
                yield reader.schema, _valid_batches(batches, columns)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise BadInput(f"cannot be read as {kind.title()} ({reason}); is it complete?", path) from error


def _valid_batches(batches: Iterator[pa.RecordBatch], columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
    """Yield the chosen columns of each batch after checking that all offsets are inside the buffers. With invalid
    offsets, a broken file could crash the process.
    """
    for batch in batches:
        batch = batch if columns is None else batch.select(list(columns))
        batch.validate(full=True)
        yield batch
