"""NQ-open: one JSON object a line, `{"question", "answer": [...]}`. TriviaQA's open form and PAQ without metadata are
the same.

The format has no paragraphs, so the questions have no gold. The split comes from the options or the file name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from backend.data.formats import fields
from backend.data.formats.base import NO_OPTIONS, Format, Head, ImportedQuestion, Options, as_split, question_fault
from backend.data.formats.question_jsonl import stem
from backend.data.formats.streams import ByteSource, not_utf8, numbered_lines
from db.errors import BadInput
from db.records import Question


def recognise(head: Head) -> bool:
    try:
        record = fields.parse_object(head.first_line)
    except fields.FieldError:
        return False
    return "question" in record and isinstance(record.get("answer"), list) and "answers" not in record


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[ImportedQuestion | BadInput]:
    # "NQ-open.train-dev.jsonl" is the dev part of train: the last word decides.
    splits = [word for word in re.split(r"[._-]", path.name.lower()) if word in ("train", "dev", "test")]
    split = options.split or (splits[-1] if splits else None)
    if split is None:
        raise BadInput("the file name does not give the split; use --split train, dev or test", path)
    dataset, empty = options.dataset or stem(path), True
    prefix = "-".join(dataset.split())
    for line, text in numbered_lines(ByteSource(path)):
        empty = False
        try:
            if not_utf8(text):
                raise fields.FieldError("this line contains bytes that are not UTF-8")
            record = fields.parse_object(text)
            answers = tuple(dict.fromkeys(fields.texts(record, "answer")))
            question = Question(
                f"{prefix}.{split}.{line}",
                fields.required_text(record, "question"),
                answers,
                dataset=dataset,
                split=as_split(split),
            )
            if message := question_fault(question):
                raise fields.FieldError(message)
            yield ImportedQuestion(question, str(path), line)
        except fields.FieldError as error:
            yield BadInput(str(error), path, line)
    if empty:
        raise BadInput("the file is empty", path)


FORMATS = [Format("nq-open", "questions", "NQ-open's JSON lines (question, answer)", recognise, read)]
