"""DPR's training JSON: an array of `{dataset?, question, answers, positive_ctxs, negative_ctxs, hard_negative_ctxs}`, a
ctx being `{title, text, score?, title_score?, passage_id | psg_id?}`.

Questions and positives are read, and the positives become gold passages. Negatives are ignored, because they are part
of a training set and not of the questions. DPR's trainer drops questions without positives; here they are kept without
gold. The split defaults to train. A question's id is the data set (or the file name) and the index from 0.
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
    as_split,
    id_fault,
    question_fault,
    text_fault,
)
from blindspot.backend.data.formats.json_stream import array_objects, open_json
from blindspot.backend.data.formats.question_jsonl import file_stem
from blindspot.backend.data.formats.streams import ByteSource
from blindspot.db.errors import BadInput
from blindspot.db.records import Question


def recognise(file_head: Head) -> bool:
    return file_head.start == "[" and '"positive_ctxs"' in file_head.text


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[ImportedQuestion | BadInput]:
    prefix = "-".join((options.dataset or file_stem(path)).split())
    for index, (line, record) in enumerate(array_objects(open_json(ByteSource(path)))):
        if isinstance(record, BadInput):
            yield record
            continue
        try:
            yield _question_of_record(record, f"{prefix}.{index}", path, line, options)
        except fields.FieldError as error:
            yield BadInput(str(error), path, line)


def _question_of_record(record: dict[str, Any], id: str, path: Path, line: int, options: Options) -> ImportedQuestion:
    question = Question(
        id=id,
        text=fields.required_text(record, "question"),
        answers=tuple(dict.fromkeys(fields.texts(record, "answers"))),
        dataset=options.dataset or fields.text(record, "dataset") or file_stem(path),
        split=as_split(options.split or "train"),
    )
    if message := question_fault(question):
        raise fields.FieldError(message)
    contexts = record.get("positive_ctxs", [])
    if not isinstance(contexts, list):
        raise fields.FieldError(f"'positive_ctxs' is {fields.type_in_words(contexts)}; it must be a list of passages")
    paragraphs = tuple(_parse_paragraph(context) for context in contexts)
    return ImportedQuestion(question, str(path), line, paragraphs if options.gold == "all" else paragraphs[:1])


def _parse_paragraph(value: Any) -> Paragraph:
    if not isinstance(value, dict):
        raise fields.FieldError(f"'positive_ctxs' holds {fields.type_in_words(value)}; it must be a list of passages")
    id = fields.identifier(
        value, *(name for name in ("passage_id", "psg_id") if value.get(name) is not None), required=False
    )
    title, text = fields.text(value, "title", ""), fields.text(value, "text", "")
    if (
        message := (id is not None and id_fault(id))
        or text_fault("title", title, empty=True)
        or text_fault("text", text, empty=id is not None)
    ):
        raise fields.FieldError(f"a positive: {message}")
    return Paragraph(title, text, id)


FORMATS = [Format("dpr-training", "questions", "DPR's training JSON (positive_ctxs become gold)", recognise, read)]
