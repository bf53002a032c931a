"""Read triples: a subject, a relation, an object, and optionally how often the subject is mentioned.

The file is tab separated with a header that names the columns `subject`, `relation`, `object` and optionally
`frequency`, or JSON lines with these fields, where `object` may be a list. Templates are a JSON object from relations
to questions, with [X] for the subject.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.base import text_fault
from blindspot.backend.data.formats.streams import (
    MAX_LINE,
    ByteSource,
    check_plain_file,
    has_invalid_utf8,
    numbered_lines,
)
from blindspot.db.errors import BadInput

COLUMNS = ("subject", "relation", "object")


class Triple(NamedTuple):
    """A fact with one or several objects. `frequency` is None if the file does not contain it."""

    subject: str
    relation: str
    objects: tuple[str, ...]
    frequency: int | None


def read_triples(source: ByteSource) -> Iterator[Triple | BadInput]:
    """Yield the triples, and BadInput for an invalid row. Raises BadInput for a file of another format."""
    lines = numbered_lines(source)
    number, first = next(lines, (1, None))
    if first is None:
        raise BadInput("the file is empty", source.path)
    read: Callable[[str], Triple]
    if first.lstrip().startswith("{"):
        yield _parse_or_error(_parse_json, first, source.path, number)
        rows, read = lines, _parse_json
    else:
        rows, read = lines, _column_parser(first, source.path, number)
    for number, text in rows:
        yield _parse_or_error(read, text, source.path, number)


def _parse_or_error(parse_line: Callable[[str], Triple], text: str, path: Path, line: int) -> Triple | BadInput:
    try:
        if has_invalid_utf8(text):
            raise fields.FieldError("this line contains bytes that are not UTF-8")
        return _check_triple(parse_line(text))
    except fields.FieldError as error:
        return BadInput(str(error), path, line)


def _column_parser(header: str, path: Path, line: int) -> Callable[[str], Triple]:
    names = [name.strip().lower() for name in header.split("\t")]
    if absent := [name for name in COLUMNS if name not in names]:
        raise BadInput(
            f"the header names no column {absent[0]!r}; it must name subject, relation and object, with tabs "
            "between, or the file holds JSON lines",
            path,
            line,
        )

    def parse_line(text: str) -> Triple:
        values = text.split("\t")
        if len(values) != len(names):
            raise fields.FieldError(f"{len(values)} fields; the header names {len(names)}")
        row = dict(zip(names, values, strict=True))
        return Triple(row["subject"], row["relation"], (row["object"],), _parse_count(row.get("frequency", "")))

    return parse_line


def _parse_count(text: str) -> int | None:
    if not text.strip():
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= fields.MAX_INTEGER):
        raise fields.FieldError(f"the frequency is {text[:40]!r}; it must be a whole number")
    return int(text)


def _parse_json(text: str) -> Triple:
    record = fields.parse_object(text)
    objects = (
        fields.texts(record, "object")
        if isinstance(record.get("object"), list)
        else (fields.required_text(record, "object"),)
    )
    if not objects:
        raise fields.FieldError("there is no 'object'")
    return Triple(
        fields.required_text(record, "subject"),
        fields.required_text(record, "relation"),
        objects,
        fields.integer(record, "frequency"),
    )


def _check_triple(triple: Triple) -> Triple:
    named = [("subject", triple.subject), ("relation", triple.relation), *(("object", each) for each in triple.objects)]
    for name, text in named:
        if message := text_fault(name, text):
            raise fields.FieldError(message)
    return triple._replace(
        subject=triple.subject.strip(),
        relation=triple.relation.strip(),
        objects=tuple(each.strip() for each in triple.objects),
    )


def read_templates(path: str | Path) -> dict[str, str]:
    """Read a question template for each relation. Raises BadInput for a file of another format."""
    path = Path(path)
    check_plain_file(path)
    if path.stat().st_size > MAX_LINE:
        raise BadInput(f"is larger than {MAX_LINE >> 20} MB; is this a file of templates?", path)
    try:
        templates = fields.parse_object(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadInput(f"cannot be read ({error.strerror or error})", path) from error
    except UnicodeDecodeError:
        raise BadInput("bytes that are not UTF-8", path) from None
    except fields.FieldError as error:
        raise BadInput(str(error), path) from None
    for relation, template in templates.items():
        if not isinstance(template, str) or template.count("[X]") != 1:
            raise BadInput(f'the question of {relation!r} must be text with one [X], as in "Where was [X] born?"', path)
    return templates
