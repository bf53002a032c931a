"""PopQA (Mallen et al. 2023): tab separated with a header, fields quoted as in CSV. The following columns are read:
`id`, `question`, `subj`, `prop` (the relation), `s_pop` (the subject's popularity, which becomes its frequency) and
`possible_answers`, a JSON list.

All questions belong to the split test. A question without `id` gets its data set and line number as its id.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.base import NO_OPTIONS, Format, Head, ImportedQuestion, Options, as_split
from blindspot.backend.data.formats.question_lines import read_question_lines
from blindspot.backend.data.formats.streams import ByteSource, has_invalid_utf8, numbered_lines
from blindspot.db.errors import BadInput
from blindspot.db.records import Question

COLUMNS = ("question", "subj", "prop", "s_pop", "possible_answers")


def recognise(file_head: Head) -> bool:
    return {"question", "s_pop", "possible_answers"} <= set(_column_names(file_head.first_line))


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[ImportedQuestion | BadInput]:
    lines = numbered_lines(ByteSource(path))
    number, header = next(lines, (1, None))
    if header is None:
        raise BadInput("the file is empty", path)
    names = _column_names(header)
    missing = [name for name in COLUMNS if names.count(name) != 1]
    if missing:
        raise BadInput(f"the header does not name the column {' and '.join(missing)} once", path, number)
    dataset = options.dataset or "popqa"

    def question_of(line: int, text: str) -> Question:
        return _question(dict(zip(names, _split_columns(text, len(names)), strict=True)), dataset, line, options)

    yield from read_question_lines(path, lines, question_of, "the file has a header but no rows")


def _column_names(header: str) -> list[str]:
    return [name.strip().strip('"').lower() for name in header.split("\t")]


def _split_columns(line: str, width: int) -> list[str]:
    if has_invalid_utf8(line):
        raise fields.FieldError("this line contains bytes that are not UTF-8")
    try:
        columns = next(csv.reader([line], delimiter="\t"), [])
    except csv.Error as error:
        raise fields.FieldError(f"this line is not CSV ({error})") from None
    if len(columns) != width:
        raise fields.FieldError(f"{len(columns)} fields where the header names {width}")
    return columns


def _question(row: dict[str, str], dataset: str, line: int, options: Options) -> Question:
    popularity = row["s_pop"]
    if not (popularity.isascii() and popularity.isdigit() and len(popularity) < 19):
        raise fields.FieldError(f"s_pop is {popularity[:40]!r}; it must be a whole number")
    answers = fields.parse(row["possible_answers"])
    return Question(
        id=row.get("id") or f"{'-'.join(dataset.split())}.{line}",
        text=row["question"],
        answers=tuple(dict.fromkeys(fields.texts({"possible_answers": answers}, "possible_answers"))),
        relation=row["prop"] or None,
        subject=row["subj"] or None,
        frequency=int(popularity),
        dataset=dataset,
        split=as_split(options.split or "test"),
    )


FORMATS = [Format("popqa", "questions", "PopQA's TSV (subj, prop, s_pop, possible_answers)", recognise, read)]
