"""SQuAD 1.1 and 2.0: `{"data": [{"title", "paragraphs": [{"context", "qas": [{"id", "question", "answers":
[{"text"}]}]}]}]}`.

A question's paragraph is matched to the collection and becomes its gold. A question that its paragraph does not answer
(2.0's `is_impossible`) has neither answers nor gold. The split comes from the options or the file name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.base import (
    NO_OPTIONS,
    Format,
    Head,
    ImportedQuestion,
    Options,
    Paragraph,
    question_fault,
    split_of,
    text_fault,
)
from blindspot.backend.data.formats.json_stream import open_json
from blindspot.backend.data.formats.question_jsonl import file_stem
from blindspot.backend.data.formats.streams import ByteSource
from blindspot.db.errors import BadInput
from blindspot.db.records import Question, Split


def recognise(file_head: Head) -> bool:
    return file_head.start == "{" and '"paragraphs"' in file_head.text and '"context"' in file_head.text


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[ImportedQuestion | BadInput]:
    split = split_of(path, options)
    stream, found = open_json(ByteSource(path)), False
    if stream.peek() != "{":
        raise BadInput("this is not a SQuAD file: it must be an object with 'data'", path, 1)
    for _, key in stream.object():
        if key != "data":
            stream.value()
            continue
        found = True
        for line, article in stream.array():
            yield from _article_questions(article, path, line, options.dataset or file_stem(path), split)
    stream.end()
    if not found:
        raise BadInput("this is not a SQuAD file: there is no 'data'", path)


def _article_questions(
    article: Any, path: Path, line: int, dataset: str, split: Split
) -> Iterator[ImportedQuestion | BadInput]:
    """Read an article's questions. The line numbers of questions are unknown, so messages name the article and the
    question.
    """
    try:
        title = fields.text(_expect_object(article, "an article"), "title", "") or ""
        for paragraph in _expect_list(article, "paragraphs"):
            context = fields.required_text(_expect_object(paragraph, "a paragraph"), "context")
            if message := text_fault("context", context) or text_fault("title", title, empty=True):
                raise fields.FieldError(message)
            place = Paragraph(title.replace("_", " "), context)
            for value in _expect_list(paragraph, "qas"):
                try:
                    yield _question_of_record(value, place, path, line, dataset, split)
                except fields.FieldError as error:
                    named = value.get("id") if isinstance(value, dict) else None
                    yield BadInput(f"article {title[:60]!r}, question {str(named)[:60]!r}: {error}", path, line)
    except fields.FieldError as error:
        yield BadInput(str(error), path, line)


def _question_of_record(
    value: Any, paragraph: Paragraph, path: Path, line: int, dataset: str, split: Split
) -> ImportedQuestion:
    record = _expect_object(value, "a question")
    impossible = record.get("is_impossible") is True
    answers = (
        []
        if impossible
        else [
            fields.required_text(_expect_object(each, "an answer"), "text") for each in _expect_list(record, "answers")
        ]
    )
    question = Question(
        fields.identifier(record, "id"),
        fields.required_text(record, "question"),
        tuple(dict.fromkeys(answers)),
        dataset=dataset,
        split=split,
    )
    if message := question_fault(question):
        raise fields.FieldError(message)
    return ImportedQuestion(question, str(path), line, () if impossible else (paragraph,))


def _expect_object(value: Any, noun: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise fields.FieldError(f"{noun} is {fields.type_in_words(value)}; it must be an object")
    return value


def _expect_list(record: dict[str, Any], name: str) -> list[Any]:
    value = record.get(name)
    if not isinstance(value, list):
        raise fields.FieldError(f"there is no list '{name}'")
    return value


FORMATS = [Format("squad", "questions", "SQuAD's JSON (data, paragraphs, qas)", recognise, read)]
