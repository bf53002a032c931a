"""DPR's question "CSV": tab separated and without a header. A line holds a question and its answers as a Python list,
`who sang it\\t['Ada', "Bo's"]`.

Fields that contain quotes are quoted as in CSV. As in DPR, a right single quotation mark in a question becomes an
apostrophe. The answers are parsed with `ast.literal_eval`, so no code of the file is run. A question's id is the data
set (or the file name) and the line number.
"""

from __future__ import annotations

import ast
import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.base import (
    NO_OPTIONS,
    Format,
    Head,
    ImportedQuestion,
    Options,
    WriteResult,
    split_of,
)
from blindspot.backend.data.formats.files import one_line, open_atomically
from blindspot.backend.data.formats.question_jsonl import file_stem
from blindspot.backend.data.formats.question_lines import read_question_lines
from blindspot.backend.data.formats.streams import ByteSource, has_invalid_utf8, numbered_lines
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import BadInput
from blindspot.db.records import Question

_LIST = ("[", '"[', "(", '"(')
MAX_ANSWERS_TEXT = 1_000_000  # characters


def recognise(file_head: Head) -> bool:
    return (
        len(file_head.columns) == 2
        and file_head.columns[1].lstrip().startswith(_LIST)
        and file_head.columns[1].rstrip().endswith(("]", ")", '"'))
    )


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[ImportedQuestion | BadInput]:
    dataset, split = options.dataset or file_stem(path), split_of(path, options)
    prefix = "-".join(dataset.split())

    def question_of(line: int, text: str) -> Question:
        question, answers = _split_columns(text)
        return Question(
            id=f"{prefix}.{line}",
            text=question.replace("\u2019", "'"),
            answers=_parse_answers(answers),
            dataset=dataset,
            split=split,
        )

    yield from read_question_lines(path, numbered_lines(ByteSource(path)), question_of)


def _split_columns(line: str) -> list[str]:
    if has_invalid_utf8(line):
        raise fields.FieldError("this line contains bytes that are not UTF-8")
    try:
        columns = next(csv.reader([line], delimiter="\t"), [])
    except csv.Error as error:
        raise fields.FieldError(f"this line is not CSV ({error})") from None
    if len(columns) != 2:
        hint = "; a quote opens and does not close" if line.count('"') % 2 else ""
        raise fields.FieldError(f"{len(columns)} fields; there must be two, question and list of answers{hint}")
    return columns


def _parse_answers(text: str) -> tuple[str, ...]:
    if len(text) > MAX_ANSWERS_TEXT:
        raise fields.FieldError("the list of answers is too long")
    try:
        # An invalid list may cause a warning about its escapes before the error; the message below is enough.
        value = _literal_eval_quietly(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise fields.FieldError(
            f"the answers are {text[:60]!r}; they must be a list, as in ['Oslo', 'Kristiania']"
        ) from None
    if not isinstance(value, list | tuple) or not all(isinstance(answer, str) for answer in value):
        raise fields.FieldError("the answers must be a list of texts, as in ['Oslo', 'Kristiania']")
    return tuple(dict.fromkeys(value))


def _literal_eval_quietly(text: str) -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.literal_eval(text.strip())


def write(path: Path, questions: Iterable[Question]) -> WriteResult:
    """Write the texts and answers of questions. Tabs and line breaks in a question become spaces."""
    rows = folded = 0
    with open_atomically(path) as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        for question in questions:
            text = one_line(question.text)
            folded += text != question.text
            writer.writerow([text, repr(list(question.answers))])
            rows += 1
    return WriteResult(
        rows,
        (f"{quantity(folded, 'question')} contained tabs or line ends, which became spaces",) if folded else (),
    )


FORMATS = [
    Format(
        "dpr-csv",
        "questions",
        "DPR's questions, tab separated (question, ['answers'])",
        recognise,
        read,
        write,
        ".qa.csv",
    )
]
