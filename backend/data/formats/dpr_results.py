"""The output of DPR's retriever: an array of `{question, answers, ctxs: [{id, title, text, score, has_answer}]}`.

Scores are text, as in DPR. Questions have no ids and are identified by their texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.base import NO_OPTIONS, Format, Head, Options, RunEntry, WriteResult
from blindspot.backend.data.formats.contexts import run_entry
from blindspot.backend.data.formats.files import open_atomically
from blindspot.backend.data.formats.json_stream import array_objects, open_json
from blindspot.backend.data.formats.streams import ByteSource
from blindspot.db.errors import BadInput
from blindspot.db.records import Passage, Question

Retrieved = Sequence[tuple[Passage, float, bool]]
"""A question's passages in rank order, each with its score and whether it contains an answer."""


def recognise(file_head: Head) -> bool:
    return file_head.start == "[" and '"ctxs"' in file_head.text


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[RunEntry | BadInput]:
    for line, record in array_objects(open_json(ByteSource(path))):
        if isinstance(record, BadInput):
            yield record
            continue
        try:
            yield run_entry(record, "ctxs", None, path, line)
        except fields.FieldError as error:
            yield BadInput(str(error), path, line)


def write(path: Path, name: str, entries: Iterable[tuple[Question, Retrieved]]) -> WriteResult:
    """Write the entries one at a time, so that memory stays small."""
    count = 0
    with open_atomically(path) as file:
        file.write("[")
        for question, retrieved in entries:
            file.write(",\n" if count else "\n")
            json.dump(_entry(question, retrieved), file, ensure_ascii=False)
            count += 1
        file.write("\n]\n")
    return WriteResult(count, unit="question")


def _entry(question: Question, hits: Retrieved) -> dict[str, Any]:
    contexts = [
        {"id": p.id, "title": p.title, "text": p.text, "score": str(float(score)), "has_answer": bool(has_answer)}
        for p, score, has_answer in hits
    ]
    return {"question": question.text, "answers": list(question.answers), "ctxs": contexts}


FORMATS = [Format("dpr", "runs", "DPR's retriever output (JSON, ctxs)", recognise, read, write, ".json")]
