"""Pyserini's version of DPR's retriever output: an object that maps each question id to `{question, answers, contexts:
[{docid, score, text, has_answer}]}`. A text consists of `"title"`, a line break and the passage. Without Pyserini's
option `--store-raw` there are no texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.base import NO_OPTIONS, Format, Head, Options, RunEntry, WriteResult
from blindspot.backend.data.formats.contexts import run_entry
from blindspot.backend.data.formats.dpr_results import Retrieved
from blindspot.backend.data.formats.files import one_line, open_atomically
from blindspot.backend.data.formats.json_stream import open_json
from blindspot.backend.data.formats.streams import ByteSource
from blindspot.db.errors import BadInput
from blindspot.db.records import Question


def recognise(file_head: Head) -> bool:
    return file_head.start == "{" and '"contexts"' in file_head.text


def read(path: Path, options: Options = NO_OPTIONS) -> Iterator[RunEntry | BadInput]:
    stream, seen = open_json(ByteSource(path)), set()
    for line, key in stream.object():
        record = stream.value()
        try:
            if key in seen:
                raise fields.FieldError(f"the question id {key[:60]!r} occurs twice")
            seen.add(key)
            if not isinstance(record, dict):
                raise fields.FieldError(f"this is {fields.type_in_words(record)}, not an object")
            yield run_entry(record, "contexts", key, path, line)
        except fields.FieldError as error:
            yield BadInput(str(error), path, line)
    stream.end()


def write(path: Path, name: str, entries: Iterable[tuple[Question, Retrieved]]) -> WriteResult:
    """Write a run. Tabs and line breaks within a passage become spaces, because Pyserini's evaluation ends the title at
    the first line break.
    """
    count = 0
    with open_atomically(path) as file:
        file.write("{")
        for question, retrieved in entries:
            file.write(",\n" if count else "\n")
            json.dump(question.id, file, ensure_ascii=False)
            file.write(": ")
            json.dump(_entry(question, retrieved), file, ensure_ascii=False)
            count += 1
        file.write("\n}\n")
    return WriteResult(count, unit="question")


def _entry(question: Question, hits: Retrieved) -> dict[str, Any]:
    contexts = [
        {"docid": p.id, "score": str(float(score)), "text": _contents(p.title, p.text), "has_answer": bool(has_answer)}
        for p, score, has_answer in hits
    ]
    return {"question": question.text, "answers": list(question.answers), "contexts": contexts}


def _contents(title: str, text: str) -> str:
    quoted = one_line(title).replace('"', '""')
    return f'"{quoted}"\n{one_line(text)}'


FORMATS = [Format("pyserini", "runs", "Pyserini's DPR output (JSON, contexts)", recognise, read, write, ".json")]
