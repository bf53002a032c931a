"""NQ-open: JSON lines `{"question", "answer": [...]}`. TriviaQA's open version and PAQ without metadata have the same
format.

The format has no paragraphs, so the questions have no gold. The split comes from the options or the file name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.base import NO_OPTIONS, Format, Head, ImportedQuestion, Options, as_split
from blindspot.backend.data.formats.question_jsonl import file_stem
from blindspot.backend.data.formats.question_lines import read_question_lines
from blindspot.backend.data.formats.streams import ByteSource, has_invalid_utf8, numbered_lines
from blindspot.db.errors import BadInput
from blindspot.db.records import Question


def recognise(file_head: Head) -> bool:
    try:
        record = fields.parse_object(file_head.first_line)
    except fields.FieldError:
        return False
    return "question" in record and isinstance(record.get("answer"), list) and "answers" not in record


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[ImportedQuestion | BadInput]:
    # "NQ-open.train-dev.jsonl" is the dev part of train: the last word decides.
    splits = [word for word in re.split(r"[._-]", path.name.lower()) if word in ("train", "dev", "test")]
    split = options.split or (splits[-1] if splits else None)
    if split is None:
        raise BadInput("the file name does not give the split; use --split train, dev or test", path)
    dataset, known_split = options.dataset or file_stem(path), as_split(split)
    prefix = "-".join(dataset.split())

    def question_of(line: int, text: str) -> Question:
        if has_invalid_utf8(text):
            raise fields.FieldError("this line contains bytes that are not UTF-8")
        record = fields.parse_object(text)
        answers = tuple(dict.fromkeys(fields.texts(record, "answer")))
        id, asked = f"{prefix}.{split}.{line}", fields.required_text(record, "question")
        return Question(id, asked, answers, dataset=dataset, split=known_split)

    yield from read_question_lines(path, numbered_lines(ByteSource(path)), question_of)


FORMATS = [Format("nq-open", "questions", "NQ-open's JSON lines (question, answer)", recognise, read)]
