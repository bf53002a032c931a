"""Read and rewrite files of rows. Unchanged rows keep their bytes; columns and order stay the same.

The kinds are JSON lines, JSON arrays, CSV and TSV with or without a header, Parquet, Arrow, saved datasets, BEIR
folders, and tables in memory. `blindspot.backend.data.table_files` reads the kinds that it supports.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, cast

from blindspot.backend.checking.formats.base import Values
from blindspot.backend.core.manifest import text_sha256
from blindspot.backend.data.formats.json_stream import open_json
from blindspot.backend.data.formats.streams import ByteSource, first_bytes, has_invalid_utf8, numbered_lines
from blindspot.backend.data.table_files import binary_kind, columns_of, rows_of, table_files, table_kind
from blindspot.db.errors import BadInput, Refused

if TYPE_CHECKING:
    import pyarrow as pa

Replacements = Mapping[int, Sequence[Values]]
"""The rows that replace a row, by its number from 0; an empty list removes the row."""
TRAIN = ("train", None)
_PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


class RowFile(ABC):
    """A file or folder that holds one training example per row.

    Attributes:
        path: The file or folder. kind: In a word or two.
    """

    kind = ""
    columns: list[str]

    def __init__(self, path: Path):
        self.path = path

    @abstractmethod
    def rows(self) -> Iterator[tuple[int, Values]]:
        """Yield the line number and the values of each row of the training split. Raises BadInput at the first invalid
        row.
        """

    @abstractmethod
    def write(self, target: Path, replacements: Replacements) -> int:
        """Write the file with its replaced rows, and return the number of rows written. An interrupted write leaves no
        file.
        """

    def held_out(self) -> Iterator[tuple[int, Values]]:
        """Yield the rows of the dev and test splits; nothing if the file has only one split."""
        return iter(())


class _Table(RowFile):
    """A file that `rows_of` reads."""

    def __init__(self, path: Path):
        super().__init__(path)
        self.columns = columns_of(path)

    def rows(self) -> Iterator[tuple[int, Values]]:
        return self._rows(True)

    def held_out(self) -> Iterator[tuple[int, Values]]:
        return self._rows(False) if self.path.is_dir() else iter(())  # only folders name splits

    def _rows(self, train: bool) -> Iterator[tuple[int, Values]]:
        for row in rows_of(self.path):
            if isinstance(row, BadInput):
                raise row
            if (row.split in TRAIN) == train:
                yield row.line, row.values


class JsonLines(_Table):
    kind = "JSON lines"

    def write(self, target: Path, replacements: Replacements) -> int:
        return _write_lines(self.path, target, replacements, _json_like)


class Csv(_Table):
    kind = "CSV"

    def write(self, target: Path, replacements: Replacements) -> int:
        count = 0
        with written_file(target) as out:
            for number, (raw, record) in enumerate(self._records(), -1):
                if number not in replacements:
                    out.write(raw.encode())
                    count += number >= 0 and bool(record)
                    continue
                buffer = io.StringIO()
                ending = "\r\n" if raw.endswith("\r\n") else "\n"
                quoting: Literal[0, 1] = csv.QUOTE_ALL if self._quotes_all else csv.QUOTE_MINIMAL
                writer = csv.writer(buffer, delimiter=self._separator, lineterminator=ending, quoting=quoting)
                for values in replacements[number]:
                    writer.writerow([values[name] for name in self.columns])
                    count += 1
                out.write(buffer.getvalue().encode())
        return count

    def _records(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the raw text and the fields of each record, header included. Blank lines belong to the raw text of the
        next record.
        """
        taken: list[str] = []

        def lines() -> Iterator[str]:
            for line in raw_lines(self.path):
                taken.append(line.decode("utf-8", "surrogateescape"))
                yield taken[-1]

        first = next(line for line in raw_lines(self.path) if line.strip()).decode("utf-8", "surrogateescape")
        first = first.removeprefix("\ufeff")
        self._separator = max("\t,;", key=first.count)
        self._quotes_all = first.startswith('"')
        for record in csv.reader(lines(), delimiter=self._separator):
            if record:
                yield "".join(taken), record
                taken.clear()


class BareTsv(RowFile):
    """A TSV file without header and quotes. The columns are called 0, 1, 2 and so on."""

    kind = "TSV without a header"

    def __init__(self, path: Path):
        super().__init__(path)
        _, first = next(numbered_lines(ByteSource(path)), (1, ""))
        self.columns = [str(place) for place in range(first.count("\t") + 1)]

    def rows(self) -> Iterator[tuple[int, Values]]:
        for number, text in numbered_lines(ByteSource(self.path)):
            if not text.isascii() and has_invalid_utf8(text):
                raise BadInput("this line contains bytes that are not UTF-8", self.path, number)
            values = text.split("\t")
            if len(values) != len(self.columns):
                raise BadInput(f"{len(values)} fields where the first line has {len(self.columns)}", self.path, number)
            yield number, dict(zip(self.columns, values, strict=True))

    def write(self, target: Path, replacements: Replacements) -> int:
        def line_of(values: Values, _: bytes) -> str:
            return "\t".join(str(values[name]) for name in self.columns)

        return _write_lines(self.path, target, replacements, line_of)


class JsonArray(_Table):
    """A JSON array of objects, as DPR's training files are."""

    kind = "JSON"

    def write(self, target: Path, replacements: Replacements) -> int:
        before, between, after = self._text_around_objects()
        stream, count = open_json(ByteSource(self.path)), 0
        with written_file(target) as out:
            out.write(before.encode())
            for number, _ in enumerate(stream.array()):
                raw = stream.raw_text()
                texts = [_json_like(each, raw.encode()) for each in replacements.get(number, ())]
                for text in texts if number in replacements else [raw]:
                    out.write((between if count else "").encode() + text.encode())
                    count += 1
            out.write(after.encode())
        return count

    def _text_around_objects(self) -> tuple[str, str, str]:
        """Return the text before the first object, the text between two objects, and the text after the last object."""
        text = first_bytes(self.path, 1 << 20).decode("utf-8", "ignore")
        begin = text.index("{")
        try:
            _, end = json.JSONDecoder().raw_decode(text, begin)
        except json.JSONDecodeError:  # the first object is longer than what was read here
            end = len(text)
        following = text.find("{", end)
        between = text[end:following] if following > 0 else ",\n"
        with _open_decompressed(self.path) as file:
            tail = b""
            while block := file.read(1 << 20):
                tail = (tail + block)[-4096:]
        last = tail.decode("utf-8", "ignore")
        return text[:begin], between, last[last.rindex("}") + 1 :]


class Parquet(_Table):
    kind = "Parquet"

    def write(self, target: Path, replacements: Replacements) -> int:
        if not replacements:  # writers of other versions lay out pages in other ways: only a copy has the same bytes
            import pyarrow.parquet as parquet

            with written_file(target) as out, open(self.path, "rb") as source:
                shutil.copyfileobj(source, out)
            return int(parquet.read_metadata(self.path).num_rows)
        return _write_parquet(self.path, target, replacements, 0)[1]


class Arrow(_Table):
    kind = "Arrow"

    def write(self, target: Path, replacements: Replacements) -> int:
        return _write_arrow(self.path, target, replacements, 0)[1]


class SavedDataset(_Table):
    """A folder that `Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote, or a folder of Parquet files."""

    kind = "saved dataset"

    def write(self, target: Path, replacements: Replacements) -> int:
        return _write_folder(self.path, target, replacements)


class InMemory(RowFile):
    """A `datasets.Dataset` or a pandas DataFrame."""

    kind = "table in memory"

    def __init__(self, data: Any):
        super().__init__(Path("the data in memory"))
        self.data = data
        self.is_frame = hasattr(data, "to_dict") and hasattr(data, "iloc")
        if not self.is_frame and not hasattr(data, "column_names"):
            raise BadInput(f"{type(data).__name__} is neither a datasets.Dataset nor a DataFrame; give one of them")
        if isinstance(getattr(data, "column_names", None), dict):
            raise BadInput("this is a DatasetDict; give one of its splits, such as data['train']")
        self.columns = [str(name) for name in (data.columns if self.is_frame else data.column_names)]

    def rows(self) -> Iterator[tuple[int, Values]]:
        for start in range(0, len(self.data), 1024):
            if self.is_frame:
                block = self.data.iloc[start : start + 1024].to_dict("records")
                block = [{name: _json_value(value) for name, value in row.items()} for row in block]
            else:
                columns = self.data.with_format(None)[start : start + 1024]
                block = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            yield from enumerate(block, start + 1)

    def write(self, target: Path, replacements: Replacements) -> int:
        raise Refused("a table in memory is not written to a file; call .cleaned()")

    def cleaned(self, replacements: Replacements) -> Any:
        """Return the Dataset or DataFrame with its replaced rows and with the same columns and types."""
        if self.is_frame:
            import pandas

            plain = [
                values for number, (_, row) in enumerate(self.rows()) for values in replacements.get(number, [row])
            ]
            frame = pandas.DataFrame(plain, columns=list(self.data.columns))
            return frame.astype(self.data.dtypes.to_dict())
        from datasets import Dataset

        rows = (values for number, (_, row) in enumerate(self.rows()) for values in replacements.get(number, [row]))
        return Dataset.from_list(list(rows), features=self.data.features)


def _json_value(value: Any) -> Any:
    """Convert a DataFrame's value to a JSON value: arrays become lists, NaN becomes None."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return None if isinstance(value, float) and value != value else value


def open_rows(path: str | Path) -> RowFile:
    """Open a file or folder of rows. Raises BadInput if it is missing, empty, a pickle or of an unknown kind."""
    from blindspot.backend.checking.beir_folder import BeirFolder, is_beir

    path = Path(path)
    if path.is_dir():
        return BeirFolder(path) if is_beir(path) else SavedDataset(path)
    binary = binary_kind(path)
    if binary is not None:
        return Parquet(path) if binary == "parquet" else Arrow(path)
    start = first_bytes(path, 4096)
    if not start:
        raise BadInput("the file is empty", path)
    if start.startswith(_PICKLES):
        raise BadInput("this is a pickle, which can run code when it is read; save it as JSON lines or Parquet", path)
    kind = table_kind(path)
    if kind == "csv" and b"\0" in start:
        raise BadInput("this is a binary file of no known kind; give JSON lines, CSV, Parquet or Arrow", path)
    if kind == "csv" and _has_no_header(start):
        return BareTsv(path)
    text_kinds: dict[str, Callable[[Path], RowFile]] = {"jsonl": JsonLines, "json": JsonArray, "csv": Csv}
    return text_kinds[kind](path)


def _has_no_header(start: bytes) -> bool:
    """Return whether a TSV has no header, judged by its first line: the fields do not look like column names."""
    line = start.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").split("\n")[0].rstrip("\r")
    fields = line.split("\t")
    if len(fields) < 3:
        return False
    names = [field.strip().lower() for field in fields]
    return not (all(name and len(name) < 40 and " " not in name for name in names) and not names[0].isdigit())


# Writing


@contextmanager
def written_file(target: Path) -> Iterator[IO[bytes]]:
    """Open a file that is renamed into place when the block ends; it is compressed if its name ends in .gz."""
    partial = target.with_name(f".{target.name}.partial")
    try:
        opened = cast("IO[bytes]", gzip.open(partial, "wb") if target.suffix == ".gz" else open(partial, "wb"))  # noqa: SIM115
    except OSError as error:
        raise Refused(f"{target}: cannot be written ({error.strerror or error}); choose another place") from error
    try:
        with opened as file:
            yield file
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _open_decompressed(path: Path) -> Iterator[IO[bytes]]:
    with open(path, "rb") as plain:
        if plain.read(2) == b"\x1f\x8b":
            plain.seek(0)
            with gzip.open(plain) as file:
                yield file  # type: ignore[misc]
        else:
            plain.seek(0)
            yield plain


def raw_lines(path: Path) -> Iterator[bytes]:
    """Yield the decompressed lines, including their line endings."""
    rest = b""
    for block in ByteSource(path):
        lines = (rest + block).split(b"\n")
        rest = lines.pop()
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def _write_lines(
    source: Path, target: Path, replacements: Replacements, line_of: Callable[[Values, bytes], str]
) -> int:
    """Write a file in which each line that is not blank is a row, and return the number of rows.

    Args:
        line_of: Returns the line of a new row, given its values and the line that it replaces.
    """
    count, number = 0, -1
    with written_file(target) as out:
        for line in raw_lines(source):
            if not line.strip():
                out.write(line)
                continue
            number += 1
            if number not in replacements:
                out.write(line)
                count += 1
                continue
            end = line[len(line.rstrip(b"\r\n")) :] or b"\n"
            for values in replacements[number]:
                out.write(line_of(values, line).encode() + end)
                count += 1
    return count


def _json_like(values: Values, raw: bytes) -> str:
    """Serialise an object as JSON in the style of the original `raw`: the same spaces, escapes and indents."""
    text = raw.decode("utf-8", "replace").strip()
    is_ascii = text.isascii() and "\\u" in text
    if "\n" in text:
        base = len(text.rsplit("\n", 1)[1]) - 1
        inner = text.split("\n")[1]
        step = max(1, len(inner) - len(inner.lstrip()) - base)
        return json.dumps(values, ensure_ascii=is_ascii, indent=step).replace("\n", "\n" + " " * base)
    separators = (", ", ": ") if '": ' in text[:200] else (",", ":")
    return json.dumps(values, ensure_ascii=is_ascii, separators=separators)


def _write_folder(source: Path, target: Path, replacements: Replacements) -> int:
    """Copy a dataset folder, replacing rows in its training split."""
    if target.exists() and any(target.iterdir()):
        raise Refused(f"{target} is not empty; choose another place")
    number = count = 0
    written = set()
    for table in table_files(source):
        place = target / table.path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        if table.split in TRAIN:
            write = _write_parquet if table_kind(table.path) == "parquet" else _write_arrow
            number, rows = write(table.path, place, replacements, number)
            count += rows
            written.add(table.path)
    for path in sorted(source.rglob("*")):
        if path.is_file() and path not in written:
            place = target / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.name == "state.json" and replacements:
                place.write_text(_new_fingerprint(path.read_text(encoding="utf-8"), replacements), encoding="utf-8")
            else:
                shutil.copyfile(path, place)
    return count


def _new_fingerprint(state: str, replacements: Replacements) -> str:
    """Return state.json with a new fingerprint. With the old one, `datasets` would reuse cached results of the old
    rows.
    """
    plain = json.loads(state)
    content = json.dumps([[number, list(rows)] for number, rows in sorted(replacements.items())], default=str)
    old = str(plain.get("_fingerprint"))
    return state.replace(f'"{old}"', f'"{text_sha256(old, content)[:16]}"')


def _write_parquet(source: Path, target: Path, replacements: Replacements, first: int) -> tuple[int, int]:
    """Write a Parquet file, a row group at a time. Returns the number of the next row, and the rows written."""
    import pyarrow.parquet as parquet

    number, count = first, 0
    with parquet.ParquetFile(source) as reader:
        groups = reader.metadata.num_row_groups
        compression = reader.metadata.row_group(0).column(0).compression if groups else "snappy"
        with (
            written_file(target) as out,
            parquet.ParquetWriter(out, reader.schema_arrow, compression=compression) as writer,
        ):
            for group in range(groups):
                table = reader.read_row_group(group)
                changed = _with_replacements(table, replacements, number)
                writer.write_table(changed, row_group_size=max(1, changed.num_rows))
                number, count = number + table.num_rows, count + changed.num_rows
    return number, count


def _write_arrow(source: Path, target: Path, replacements: Replacements, first: int) -> tuple[int, int]:
    """Write an Arrow file or stream, a record batch at a time. Returns the same as `_write_parquet`."""
    import pyarrow as pa

    number, count = first, 0
    with pa.memory_map(str(source)) as mapped:
        stream = mapped.read(6) != b"ARROW1"
        mapped.seek(0)
        reader = pa.ipc.open_stream(mapped) if stream else pa.ipc.open_file(mapped)
        batches = iter(reader) if stream else map(reader.get_batch, range(reader.num_record_batches))
        make = pa.ipc.new_stream if stream else pa.ipc.new_file
        with written_file(target) as out, make(out, reader.schema) as writer:
            for batch in batches:
                changed = _with_replacements(pa.Table.from_batches([batch]), replacements, number)
                if changed.num_rows:
                    writer.write_table(changed.combine_chunks())
                number, count = number + batch.num_rows, count + changed.num_rows
    return number, count


def _with_replacements(table: pa.Table, replacements: Replacements, first: int) -> pa.Table:
    """Return a table, whose first row has number `first`, with its replaced rows. Other rows are copied as slices."""
    import pyarrow as pa

    places = sorted(number - first for number in replacements if first <= number < first + table.num_rows)
    if not places:
        return table
    parts, begin = [], 0
    for place in places:
        parts.append(table.slice(begin, place - begin))
        parts.append(pa.Table.from_pylist(list(replacements[first + place]), schema=table.schema))
        begin = place + 1
    parts.append(table.slice(begin))
    return pa.concat_tables(parts).combine_chunks()


def first_rows(file: RowFile) -> list[Values]:
    """Return the values of the first 20 rows."""
    return [values for _, values in islice(file.rows(), 20)]


def texts_of_ids(path: Path, ids: Iterable[str]) -> dict[str, str]:
    """Return the texts of some ids in a TSV of id and text (and perhaps title), or in JSON lines. Raises BadInput."""
    left, found = set(ids), {}
    for number, text in numbered_lines(ByteSource(path)):
        if text.startswith("{"):
            try:
                record = json.loads(text)
            except ValueError:
                raise BadInput("this is not JSON", path, number) from None
            id = str(record.get("_id", record.get("id", record.get("docid", ""))))
            body = " ".join(filter(None, (record.get("title"), record.get("text", record.get("contents")))))
        else:
            id, tab, body = text.partition("\t")
            if not tab:
                raise BadInput("no tab between id and text", path, number)
            if id in left:
                fields = body.split("\t")
                body = fields[0] if len(fields) == 1 else f"{fields[1]} {fields[0]}"
        if id in left:
            found[id] = body
    return found
