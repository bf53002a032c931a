"""MS MARCO passage ranking: collection.tsv (id, text), queries.*.tsv (id, text) and runs (question, passage, rank), tab
separated without header and quoting. The files have no answers. Relevance comes from the qrels, which are in TREC
format with tabs and are read by `trec`.

A file is recognised only if its ids are numbers. For other ids the format must be named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from blindspot.backend.data.formats import fields, trec
from blindspot.backend.data.formats.base import (
    NO_OPTIONS,
    Context,
    Format,
    Head,
    ImportedQuestion,
    Options,
    PassageBatch,
    Row,
    RunEntry,
    WriteResult,
    id_fault,
    split_of,
)
from blindspot.backend.data.formats.contexts import group_by_question
from blindspot.backend.data.formats.dpr_results import Retrieved
from blindspot.backend.data.formats.fields import FieldError
from blindspot.backend.data.formats.files import one_line, open_atomically
from blindspot.backend.data.formats.passage_lines import read_passage_lines
from blindspot.backend.data.formats.question_jsonl import file_stem
from blindspot.backend.data.formats.question_lines import read_question_lines
from blindspot.backend.data.formats.streams import ByteSource, has_invalid_utf8, numbered_lines
from blindspot.backend.text.number_words import noun_form, quantity
from blindspot.db.errors import BadInput
from blindspot.db.records import Passage, Question


def recognise_texts(file_head: Head) -> bool:
    columns = file_head.columns
    return (
        len(columns) == 2
        and _is_number(columns[0])
        and not columns[1].lstrip('"').startswith("[")
        and not _is_number(columns[1].strip())
    )


def recognise_run(file_head: Head) -> bool:
    return len(file_head.columns) == 3 and all(map(_is_number, file_head.columns))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def read_collection(path: Path, options: Options = NO_OPTIONS) -> Iterator[PassageBatch]:
    yield from read_passage_lines(path, _parse_passage)


def _parse_passage(line: int, text: str) -> list[Row]:
    columns = text.split("\t")
    if len(columns) != 2:
        raise FieldError(f"{len(columns)} fields; there must be two, id and text")
    return [(columns[0], "", columns[1])]


def read_queries(path: Path, options: Options = NO_OPTIONS) -> Iterator[ImportedQuestion | BadInput]:
    """Read questions. The split comes from the options or the file name (queries.dev.small.tsv; eval is test)."""
    dataset, split = options.dataset or file_stem(path), split_of(path, options)

    def question_of(line: int, text: str) -> Question:
        columns = text.split("\t")
        if len(columns) != 2:
            raise FieldError(f"{len(columns)} fields; there must be two, id and text")
        return Question(columns[0], columns[1], dataset=dataset, split=split)

    yield from read_question_lines(path, numbered_lines(ByteSource(path)), question_of)


def read_run(path: Path, options: Options = NO_OPTIONS) -> Iterator[RunEntry | BadInput]:
    """Read a run. The score of a hit is 1 / rank."""
    yield from group_by_question(path, _run_lines(path))


def _run_lines(path: Path) -> Iterator[tuple[str, Context] | BadInput]:
    for line, text in numbered_lines(ByteSource(path)):
        try:
            question_id, passage_id, rank = _run_columns(text)
            yield question_id, Context(passage_id, 1 / int(rank), line)
        except fields.FieldError as error:
            yield BadInput(str(error), path, line)


def _run_columns(text: str) -> list[str]:
    columns = text.split("\t")
    if len(columns) != 3:
        raise fields.FieldError(f"{len(columns)} fields; there must be three: question, passage, rank")
    if has_invalid_utf8(text):
        raise fields.FieldError("this line contains bytes that are not UTF-8")
    if message := id_fault(columns[0]) or id_fault(columns[1]):
        raise fields.FieldError(message)
    if not (_is_number(columns[2]) and len(columns[2]) < 10 and int(columns[2])):
        raise fields.FieldError(f"the rank is {columns[2][:40]!r}; it must be a whole number from 1")
    return columns


def write_collection(path: Path, passages: Iterable[Passage]) -> WriteResult:
    titles = folded = rows = 0
    with open_atomically(path) as file:
        for passage in passages:
            text = one_line(passage.text)
            file.write(f"{passage.id}\t{text}\n")
            rows, titles, folded = rows + 1, titles + bool(passage.title), folded + (text != passage.text)
    notes = (
        [f"{quantity(titles, 'title')} {noun_form(titles, 'was')} left out: the format has no place for titles"]
        if titles
        else []
    )
    return WriteResult(rows, (*notes, *_whitespace_notes(folded, "text")))


def write_queries(path: Path, questions: Iterable[Question]) -> WriteResult:
    folded = rows = 0
    with open_atomically(path) as file:
        for question in questions:
            text = one_line(question.text)
            file.write(f"{question.id}\t{text}\n")
            rows, folded = rows + 1, folded + (text != question.text)
    return WriteResult(rows, _whitespace_notes(folded, "question"))


def write_qrels(path: Path, judgements: Iterable[tuple[str, str, int]]) -> WriteResult:
    return trec.write_qrels(path, judgements, "\t")


def write_run(path: Path, name: str, entries: Iterable[tuple[Question, Retrieved]]) -> WriteResult:
    rows = 0
    with open_atomically(path) as file:
        for question, retrieved in entries:
            file.writelines(f"{question.id}\t{p.id}\t{rank}\n" for rank, (p, _, _) in enumerate(retrieved, 1))
            rows += len(retrieved)
    return WriteResult(rows, ("The format has ranks only; scores were left out.",), "line")


def _whitespace_notes(count: int, noun: str) -> tuple[str, ...]:
    return (f"{quantity(count, noun)} contained tabs or line ends, which became spaces",) if count else ()


FORMATS = [
    Format(
        "msmarco", "passages", "MS MARCO's collection.tsv", recognise_texts, read_collection, write_collection, ".tsv"
    ),
    Format("msmarco", "questions", "MS MARCO's queries.*.tsv", recognise_texts, read_queries, write_queries, ".tsv"),
    Format("msmarco", "runs", "an MS MARCO run (question, passage, rank)", recognise_run, read_run, write_run, ".tsv"),
    Format("msmarco", "qrels", "MS MARCO's qrels, with tabs", lambda head: False, trec.read_qrels, write_qrels, ".tsv"),
]
