"""NQ-open: JSON lines `{"question", "answer": [...]}`. TriviaQA's open version has the same
format.

The format has no paragraphs, so the questions have no gold. The split comes from the options or the file name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.base import NO_OPTIONS, Format, Head, ImportedQuestion, Options, split_of
from blindspot.backend.data.formats.question_jsonl import file_stem
from blindspot.backend.data.formats.question_lines import read_question_lines
from blindspot.backend.data.formats.streams import ByteSource, numbered_lines
from blindspot.db.errors import BadInput
from blindspot.db.records import Question


def recognise(file_head: Head) -> bool:
    record = file_head.record
    return "question" in record and isinstance(record.get("answer"), list) and "answers" not in record


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[ImportedQuestion | BadInput]:
    dataset, split = options.dataset or file_stem(path), split_of(path, options)
    prefix = "-".join(dataset.split())

    def question_of(line: int, text: str) -> Question:
        record = fields.parse_object(text)
        answers = tuple(dict.fromkeys(fields.texts(record, "answer")))
        id, asked = f"{prefix}.{split}.{line}", fields.required_text(record, "question")
        return Question(id, asked, answers, dataset=dataset, split=split)

    yield from read_question_lines(path, numbered_lines(ByteSource(path)), question_of)


FORMATS = [Format("nq-open", "questions", "NQ-open's JSON lines (question, answer)", recognise, read)]
