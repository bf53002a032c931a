"""DPR's passage file, `psgs_w100.tsv`: tab separated with a header that names id, text and title in any order. Fields
are quoted as in CSV (inner quotes doubled), and white space is kept. Other columns are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from blindspot.backend.data.formats.base import MAX_TEXT, NO_OPTIONS, Format, Head, Options, PassageBatch, WriteResult
from blindspot.backend.data.formats.files import write_lines
from blindspot.backend.data.formats.streams import ByteSource, text_blocks
from blindspot.db.errors import BadInput, Refused
from blindspot.db.records import Passage

COLUMNS = ("id", "title", "text")
MAX_RECORD_LINES = 1000
SETTINGS = {"quotes": "csv"}
QUOTES = ("csv", "none")
_ADVICE = "; if the file quotes nothing, read it with --set quotes=none"
_BATCH = 4096


class _UnclosedQuote(Exception):
    """Raised if the text ends inside a quoted field."""


class _Malformed(Exception):
    """Raised if a quote closes in the middle of a field."""


def recognise(file_head: Head) -> bool:
    names = [name.strip('"').lower() for name in file_head.first_line.split("\t")]
    return len(names) > 1 and bool({"id", "text"} & set(names)) and not {"question", "query", "answers"} & set(names)


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[PassageBatch]:
    """Yield the passages in batches. Raises BadInput for a broken file or a header without these columns."""
    quotes = {**SETTINGS, **options.settings}["quotes"]
    if quotes not in QUOTES:
        raise Refused(f"--set quotes={quotes}: quotes must be one of {', '.join(QUOTES)}")
    source = ByteSource(path)
    parser: _Parser | None = None
    for block in text_blocks(source):
        lines, line = block.lines, block.line
        if parser is None:
            parser, lines, line = _Parser(path, lines[0], quotes == "csv"), lines[1:], line + 1
        yield from _batches_with_source(parser.parse(lines, line), source)
    if parser is None:
        raise BadInput("the file is empty", path)
    yield from _batches_with_source(parser.finish(), source)
    yield PassageBatch(share=1.0, sha256=source.sha256)


def _batches_with_source(batches: Iterator[PassageBatch], source: ByteSource) -> Iterator[PassageBatch]:
    for batch in batches:
        batch.share = source.read / max(source.size, 1)
        yield batch


class _Parser:
    """Parses lines into rows. A line whose quoted fields all end on the same line is split at its tabs, which is
    faster.
    """

    def __init__(self, path: Path, header: str, quoted: bool = True):
        self.path, self.quoted = path, quoted
        self.crlf = header.endswith("\r")
        names = [name.strip().lower() for name in _header_fields(header.removesuffix("\r"), path)]
        missing = [column for column in COLUMNS if names.count(column) != 1]
        if missing:
            columns = ", ".join(name[:40] for name in names[:8])
            problem = "names twice" if missing[0] in names else "does not name"
            raise BadInput(f"the header {problem} the column {' and '.join(missing)}; it has: {columns}", path, 1)
        self.width = len(names)
        self.order = tuple(names.index(column) for column in COLUMNS)
        self.kept: list[str] = []
        self.kept_line = 0

    def parse(self, raw: list[str], line: int, is_last: bool = False) -> Iterator[PassageBatch]:
        """Yield the rows of a block of whole lines. A record that continues after the block is kept for the
        next block.
        """
        if self.kept:
            raw, line, self.kept = self.kept + raw, self.kept_line, []
        lines = [text.removesuffix("\r") for text in raw] if self.crlf else raw
        batch = PassageBatch()
        rows, numbers = batch.rows, batch.lines
        first, second, third = self.order
        width, at, end = self.width, 0, len(lines)
        while at < end:
            here = at
            row = lines[at]
            at += 1
            if self.quoted and '"' in row:
                fields = _split_quoted(row)
                if fields is None:
                    try:
                        fields, at = self._multiline_record(raw, here, is_last)
                        batch.spanning += at > here + 1
                    except _UnclosedQuote:
                        self.kept, self.kept_line = raw[here:], line + here
                        break
                    except _Malformed as error:
                        batch.problems.append(BadInput(str(error) + _ADVICE, self.path, line + here))
                        continue
            else:
                fields = row.split("\t")
            if len(fields) != width:
                if fields != [""]:
                    problem = f"{len(fields)} fields where the header names {width}"
                    batch.problems.append(BadInput(problem, self.path, line + here))
                continue
            rows.append((fields[first], fields[second], fields[third]))
            numbers.append(line + here)
            if len(rows) == _BATCH:
                yield batch
                batch = PassageBatch()
                rows, numbers = batch.rows, batch.lines
        yield batch

    def finish(self) -> Iterator[PassageBatch]:
        if self.kept:
            yield from self.parse([], self.kept_line, is_last=True)

    def _multiline_record(self, raw: list[str], start: int, is_last: bool) -> tuple[list[str], int]:
        """Return the record that begins at line `start` and may span several lines, and the number of the line after
        it.
        """
        for count in (1, 16, MAX_RECORD_LINES):
            chunk = "\n".join(raw[start : start + count])
            try:
                fields, used = _parse_record(chunk)
                return fields, start + chunk.count("\n", 0, used) + 1
            except _UnclosedQuote:
                if len(chunk) > 2 * MAX_TEXT:
                    break
                if start + count < len(raw):
                    continue
                if not is_last and len(raw) - start < MAX_RECORD_LINES:
                    raise
                break
        raise _Malformed(
            f"a quote opens here and does not close (within {MAX_RECORD_LINES:,} lines); double the quotes "
            "inside a quoted field"
        )


def _split_quoted(row: str) -> list[str] | None:
    """Return the fields of a line; None if a quoted field contains a tab or a line end."""
    fields = row.split("\t")
    for i, value in enumerate(fields):
        if value[:1] != '"':
            continue
        inner = value[1:-1]
        if len(value) < 2 or value[-1] != '"':
            return None
        if '"' in inner:
            pieces = inner.split('""')
            inner = '"'.join(pieces)
            if inner.count('"') != len(pieces) - 1:
                return None
        fields[i] = inner
    return fields


def _parse_record(text: str) -> tuple[list[str], int]:
    """Return the fields of the first record of a text, and the offset of its end.

    Raises _Open if the text ends inside quotes, _Malformed if other characters follow a closing quote.
    """
    fields, at = [], 0
    while True:
        if text[at : at + 1] == '"':
            value, at = _quoted_field(text, at + 1)
        else:
            ends = [end for end in (text.find("\t", at), text.find("\n", at)) if end >= 0]
            end = min(ends, default=len(text))
            value = text[at:end].removesuffix("\r") if text[end : end + 1] != "\t" else text[at:end]
            at = end
        fields.append(value)
        if text[at : at + 1] == "\t":
            at += 1
        elif text[at : at + 1] in ("", "\n") or text[at : at + 2] in ("\r", "\r\n"):
            return fields, at
        else:
            raise _Malformed(
                "a quote closes in the middle of a field; double the quotes inside a quoted field, or close the "
                "one that opens in this line"
            )


def _quoted_field(text: str, start: int) -> tuple[str, int]:
    pieces = []
    while True:
        quote = text.find('"', start)
        if quote < 0:
            raise _UnclosedQuote
        if text[quote + 1 : quote + 2] != '"':
            pieces.append(text[start:quote])
            return "".join(pieces), quote + 1
        pieces.append(text[start : quote + 1])
        start = quote + 2


def _header_fields(line: str, path: Path) -> list[str]:
    try:
        return _parse_record(line)[0]
    except (_UnclosedQuote, _Malformed):
        raise BadInput("the header's quotes do not close", path, 1) from None


def write(path: Path, passages: Iterable[Passage]) -> WriteResult:
    """Write the passages. Fields that contain a quote, a tab or a line end are quoted."""
    lines = (f"{p.id}\t{_quote_if_needed(p.text)}\t{_quote_if_needed(p.title)}" for p in passages)
    return WriteResult(write_lines(path, chain(["id\ttext\ttitle"], lines)) - 1)


def _quote_if_needed(value: str) -> str:
    if '"' in value or "\t" in value or "\n" in value or "\r" in value:
        return '"' + value.replace('"', '""') + '"'
    return value


FORMATS = [
    Format(
        "psgs",
        "passages",
        "DPR's tab-separated passages (id, text, title)",
        recognise,
        read,
        write,
        ".tsv",
        settings=SETTINGS,
    )
]
