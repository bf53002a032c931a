"""Entries of retriever output in the formats of DPR and Pyserini, which differ only in field names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.base import Context, RunEntry, id_fault, text_fault
from blindspot.db.errors import BadInput

LINES_PER_BLOCK = 300_000  # lines of a run without texts, about 60 MB
IDS = ("id", "docid", "passage_id", "psg_id")
_LARGEST = 3.4e38  # the largest float32; scores are stored as float32


def run_entry(record: dict[str, Any], passages_field: str, question_id: str | None, path: Path, line: int) -> RunEntry:
    """Read an entry whose passages are in the field `passages_field`. Raises `fields.FieldError` if the question
    is invalid.
    """
    question = fields.required_text(record, "question")
    message = text_fault("question", question) or (question_id is not None and id_fault(question_id))
    if message:
        raise fields.FieldError(message)
    answers = fields.texts(record, "answers")
    values = record.get(passages_field)
    if not isinstance(values, list):
        raise fields.FieldError(f"there is no list '{passages_field}'")
    contexts, problems = [], []
    for number, value in enumerate(values, 1):
        try:
            contexts.append(_parse_context(value, line))
        except fields.FieldError as error:
            problems.append(BadInput(f"passage {number} of the question {question[:60]!r}: {error}", path, line))
    return RunEntry(question_id, question, answers, contexts, str(path), line, tuple(problems))


def group_by_question(path: Path, rows: Iterable[tuple[str, Context] | BadInput]) -> Iterator[RunEntry | BadInput]:
    """Group the lines of a run, each with a question and a passage, into entries.

    Lines of a question may be in any order; the lines within one block of LINES_PER_BLOCK lines become one entry. An
    invalid line is yielded after the entries of all lines before it, so a caller that stops there stops at the first
    error of the file.
    """
    block: dict[str, list[Context]] = {}
    count = 0

    def entries() -> Iterator[RunEntry]:
        for question_id, contexts in block.items():
            yield RunEntry(question_id, None, (), contexts, str(path), contexts[0].line)

    for row in rows:
        if isinstance(row, BadInput) or count == LINES_PER_BLOCK:
            yield from entries()
            block, count = {}, 0
        if isinstance(row, BadInput):
            yield row
            continue
        block.setdefault(row[0], []).append(row[1])
        count += 1
    yield from entries()


def parse_score(value: Any) -> float:
    """Read a score, which DPR writes as text. Raises `fields.FieldError` if it is not a number."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not abs(number) < _LARGEST:
        raise fields.FieldError(f"the score is {str(value)[:40]!r}; it must be a number")
    return number


def _parse_context(value: Any, line: int) -> Context:
    if not isinstance(value, dict):
        raise fields.FieldError(f"this is {fields.type_in_words(value)}, not a passage")
    id = fields.identifier(value, *IDS)
    if message := id_fault(id):
        raise fields.FieldError(message)
    holds = value.get("has_answer")
    if holds is not None and not isinstance(holds, bool):
        raise fields.FieldError("'has_answer' must be true or false")
    if "score" not in value:
        raise fields.FieldError("there is no 'score'")
    title, text = fields.text(value, "title"), fields.text(value, "text")
    if title is None and text is not None:
        title, text = split_contents(text)
    return Context(id, parse_score(value["score"]), line, title, text, holds)


def split_contents(contents: str) -> tuple[str, str]:
    """Split Pyserini's `"title"\\ntext` into title and text. If there is no line break, the whole string is
    the text.
    """
    title, end, text = contents.partition("\n")
    if not end:
        return "", contents
    if len(title) > 1 and title[0] == title[-1] == '"':
        title = title[1:-1].replace('""', '"')
    return title, text
