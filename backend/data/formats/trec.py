"""TREC runs, `question Q0 passage rank score run`, and qrels, `question 0 passage grade`: separated by white space.

As in trec_eval, hits are ordered by score, and the ranks in the file are ignored. MS MARCO's qrels have the same format
with tabs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from blindspot.backend.data.formats import fields
from blindspot.backend.data.formats.base import (
    NO_OPTIONS,
    Context,
    Format,
    Head,
    Options,
    Qrel,
    RunEntry,
    WriteResult,
    id_fault,
)
from blindspot.backend.data.formats.contexts import group_by_question
from blindspot.backend.data.formats.contexts import parse_score as score_of
from blindspot.backend.data.formats.dpr_results import Retrieved
from blindspot.backend.data.formats.files import write_lines
from blindspot.backend.data.formats.streams import ByteSource, has_invalid_utf8, numbered_lines
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.db.errors import BadInput, Refused
from blindspot.db.records import Question

_ITERATION = ("0", "Q0")


def recognise_run(file_head: Head) -> bool:
    parts = file_head.first_line.split()
    return len(parts) == 6 and parts[1] in _ITERATION and parts[3].isdigit()


def recognise_qrels(file_head: Head) -> bool:
    parts = file_head.first_line.split()
    return len(parts) == 4 and parts[1] in _ITERATION and parts[3].lstrip("-").isdigit()


def read_run(path: Path, options: Options = NO_OPTIONS) -> Iterator[RunEntry | BadInput]:
    yield from group_by_question(path, _run_lines(path))


def _run_lines(path: Path) -> Iterator[tuple[str, Context] | BadInput]:
    for line, text in numbered_lines(ByteSource(path)):
        try:
            parts = _split_columns(text, 6, "question Q0 passage rank score run")
            yield parts[0], Context(parts[2], score_of(parts[4]), line)
        except fields.FieldError as error:
            yield BadInput(str(error), path, line)


def read_qrels(path: Path, options: Options = NO_OPTIONS) -> Iterator[Qrel | BadInput]:
    for line, text in numbered_lines(ByteSource(path)):
        try:
            parts = _split_columns(text, 4, "question 0 passage grade")
            yield Qrel(parts[0], parts[2], parse_grade(parts[3]), str(path), line)
        except fields.FieldError as error:
            yield BadInput(str(error), path, line)


def parse_grade(text: str) -> int:
    """Read a relevance grade. Raises `fields.FieldError` if it is not a whole number."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise fields.FieldError(f"the grade is {text[:40]!r}; it must be a whole number")
    return int(text)


def _split_columns(text: str, count: int, form: str) -> list[str]:
    if not text.isascii() and has_invalid_utf8(text):
        raise fields.FieldError("this line contains bytes that are not UTF-8")
    parts = text.split()
    if len(parts) != count:
        raise fields.FieldError(f"{len(parts)} fields; there must be {count}: {form}")
    if message := id_fault(parts[0]) or id_fault(parts[2]):
        raise fields.FieldError(message)
    return parts


def write(path: Path, name: str, entries: Iterable[tuple[Question, Retrieved]]) -> WriteResult:
    """Write a run. A question without hits has no line.

    Evaluation tools sort by score and break ties in different ways. Therefore the written scores are strictly
    decreasing: a score that is not below the previous one is lowered to the next smaller float32. Numbers are written
    with enough digits to read back as the same float32.

    Raises:
        Refused: white space in the name or an id, or scores that rise or are not numbers.
    """
    _refuse_space("the run's name", name)
    questions = silent = 0

    def lines() -> Iterator[str]:
        nonlocal questions, silent
        for question, retrieved in entries:
            questions += 1
            silent += not retrieved
            _refuse_space("a question id", question.id)
            scores = strictly_decreasing_scores(np.array([score for _, score, _ in retrieved]), question.id)
            for rank, ((passage, _, _), score) in enumerate(zip(retrieved, scores, strict=True), 1):
                _refuse_space("a passage id", passage.id)
                yield f"{question.id} Q0 {passage.id} {rank} {score:.9g} {name}"

    rows = write_lines(path, lines())
    notes = [quantity(questions, "question")]
    if silent:
        notes.append(f"{quantity(silent, 'question')} without hits {noun_form(silent, 'has')} no line")
    return WriteResult(rows, tuple(notes), "line")


def write_qrels(path: Path, judgements: Iterable[tuple[str, str, int]], separator: str = " ") -> WriteResult:
    def lines() -> Iterator[str]:
        for question_id, passage_id, grade in judgements:
            _refuse_space("a question id", question_id)
            _refuse_space("a passage id", passage_id)
            yield separator.join((question_id, "0", passage_id, str(grade)))

    return WriteResult(write_lines(path, lines()))


def strictly_decreasing_scores(scores: np.ndarray, question_id: str = "") -> np.ndarray:
    """Return the scores as strictly decreasing (k,) float32."""
    values = np.array(scores, dtype=np.float32)
    if not np.isfinite(values).all() or (np.diff(values) > 0).any():
        raise Refused(f"question {question_id!r}: its scores are not falling numbers; retrieve the run again")
    for i in range(1, len(values)):
        if values[i] >= values[i - 1]:
            values[i] = np.nextafter(values[i - 1], np.float32(-np.inf))
    return values


def _refuse_space(noun: str, value: str) -> None:
    if not value or value.split() != [value]:
        raise Refused(f"{noun} is {value!r}; TREC files are separated by spaces, so it must contain none")


FORMATS = [
    Format("trec", "runs", "a TREC run", recognise_run, read_run, write, ".trec"),
    Format("trec", "qrels", "TREC qrels", recognise_qrels, read_qrels, write_qrels, ".qrels"),
]
