"""BEIR: a folder with corpus.jsonl (`_id`, `title`, `text`), queries.jsonl (`_id`, `text`) and
qrels/{train,dev,test}.tsv (a header, then question, passage, grade; or .jsonl, as in MTEB's repositories).

A question has the split of the qrels that contain it; if several do, test comes before dev before train. A question in
no qrels is unlabelled. Passages with a grade above 0 are gold, and all grades are kept. A single queries.jsonl or qrels file can be read by
itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from blindspot.backend.data.formats import fields, passage_jsonl
from blindspot.backend.data.formats.base import (
    NO_OPTIONS,
    Format,
    Head,
    ImportedQuestion,
    Options,
    Qrel,
    WriteResult,
    id_fault,
    kept_gold,
    question_fault,
)
from blindspot.backend.data.formats.files import written_whole
from blindspot.backend.data.formats.question_jsonl import stem
from blindspot.backend.data.formats.streams import ByteSource, not_utf8, numbered_lines
from blindspot.backend.data.formats.trec import grade
from blindspot.db.errors import BadInput
from blindspot.db.records import Passage, Question

HEADER = ("query-id", "corpus-id", "score")
_SPLITS = ("test", "dev", "train")


def recognise_folder(head: Head) -> bool:
    return head.folder and bool({"corpus.jsonl", "corpus.jsonl.gz"} & head.names)


def recognise_queries(head: Head) -> bool:
    if head.folder:
        return bool({"queries.jsonl", "queries.jsonl.gz"} & head.names)
    try:
        record = fields.parse_object(head.first_line)
    except fields.FieldError:
        return False
    return {"_id", "text"} <= set(record) and not {
        "title",
        "answers",
        "gold",
        "split",
        "relation",
        "set",
        "subject",
    } & set(record)


def recognise_qrels(head: Head) -> bool:
    if head.start == "{":
        try:
            return set(HEADER) <= set(fields.parse_object(head.first_line))
        except fields.FieldError:
            return False
    return tuple(name.strip().lower() for name in head.columns) == HEADER


def corpus_files(folder: Path) -> list[Path]:
    return [_part(folder, "corpus")]


def query_files(folder: Path) -> list[Path]:
    return [
        _part(folder, "queries"),
        *(file for split in _SPLITS if (file := _qrels_file(folder, split)).is_file()),
    ]


def _qrels_file(folder: Path, split: str) -> Path:
    """The qrels of a split: BEIR's TSV, else JSON lines as MTEB's repositories hold them."""
    return _first(folder / "qrels" / f"{split}{suffix}" for suffix in (".tsv", ".jsonl", ".tsv.gz", ".jsonl.gz"))


def _part(folder: Path, name: str) -> Path:
    return _first(folder / f"{name}{suffix}" for suffix in (".jsonl", ".jsonl.gz"))


def _first(files: Iterable[Path]) -> Path:
    """Return the first of the files that exists, else the first."""
    files = list(files)
    return next((file for file in files if file.is_file()), files[0])


def read_qrels(path: Path, options: Options = NO_OPTIONS) -> Iterator[Qrel | BadInput]:
    lines = numbered_lines(ByteSource(path))
    number, header = next(lines, (1, ""))
    if header.lstrip().startswith("{"):
        yield from _json_qrels(path, chain([(number, header)], lines))
        return
    if tuple(name.strip().lower() for name in header.split("\t")) != HEADER:
        raise BadInput(f"the header must be {', '.join(HEADER)}, with tabs between", path, number)
    for line, text in lines:
        try:
            if not_utf8(text):
                raise fields.FieldError("this line contains bytes that are not UTF-8")
            columns = text.split("\t")
            if len(columns) != 3:
                raise fields.FieldError(f"{len(columns)} fields; there must be three: {', '.join(HEADER)}")
            if message := id_fault(columns[0]) or id_fault(columns[1]):
                raise fields.FieldError(message)
            yield Qrel(columns[0], columns[1], grade(columns[2]), str(path), line)
        except fields.FieldError as error:
            yield BadInput(str(error), path, line)


def _json_qrels(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[Qrel | BadInput]:
    for line, text in lines:
        try:
            if not_utf8(text):
                raise fields.FieldError("this line contains bytes that are not UTF-8")
            record = fields.parse_object(text)
            question, passage = (fields.identifier(record, name) for name in HEADER[:2])
            if message := id_fault(question) or id_fault(passage):
                raise fields.FieldError(message)
            yield Qrel(question, passage, grade(str(record.get("score"))), str(path), line)
        except fields.FieldError as error:
            yield BadInput(str(error), path, line)


class _Judgements:
    """The qrels of a folder: each question's split, and its judgements by passage."""

    def __init__(self) -> None:
        self.splits: dict[str, str] = {}
        self.of_question: dict[str, dict[str, Qrel]] = {}

    def read(self, file: Path) -> Iterator[BadInput]:
        seen: set[tuple[str, str]] = set()
        for row in read_qrels(file):
            if isinstance(row, BadInput):
                yield row
            elif (row.question_id, row.passage_id) in seen:
                yield BadInput(
                    f"question {row.question_id!r} and passage {row.passage_id!r} occur twice", row.path, row.line
                )
            else:
                seen.add((row.question_id, row.passage_id))
                self.splits.setdefault(row.question_id, file.name.split(".")[0])
                self.of_question.setdefault(row.question_id, {}).setdefault(row.passage_id, row)


def read_queries(path: Path, options: Options = NO_OPTIONS) -> Iterator[ImportedQuestion | BadInput]:
    files = query_files(path) if path.is_dir() else [path]
    known = _Judgements()
    for file in files[1:]:
        yield from known.read(file)
    if not files[1:] and options.split is None:
        raise BadInput(
            "there are no qrels beside the file to give the split; use --split train, dev, test or unlabelled", path
        )
    dataset = options.dataset or (stem(path) if not path.is_dir() else "-".join(path.absolute().name.split()))
    empty = True
    for line, text in numbered_lines(ByteSource(files[0])):
        empty = False
        try:
            item = _item(text, files, line, dataset, known, options)
        except fields.FieldError as error:
            yield BadInput(str(error), files[0], line)
            continue
        if options.split in (None, item.question.split):
            yield item
    if empty:
        raise BadInput("the file is empty", files[0])


def _item(
    text: str, files: list[Path], line: int, dataset: str, known: _Judgements, options: Options
) -> ImportedQuestion:
    if not_utf8(text):
        raise fields.FieldError("this line contains bytes that are not UTF-8")
    record: dict[str, Any] = fields.parse_object(text)
    id = fields.identifier(record, "_id", "id")
    split: Any = known.splits.get(id, "unlabelled") if files[1:] else options.split
    gold, judgements = kept_gold(known.of_question.get(id, {}).values(), options.gold)
    question = Question(id, fields.required_text(record, "text"), dataset=dataset, split=split, gold=gold)
    if message := question_fault(question):
        raise fields.FieldError(message)
    return ImportedQuestion(question, str(files[0]), line, judgements=judgements)


def write_corpus(path: Path, passages: Iterable[Passage]) -> WriteResult:
    return _lines(path, ({"_id": p.id, "title": p.title, "text": p.text, "metadata": {}} for p in passages))


def write_queries(path: Path, questions: Iterable[Question]) -> WriteResult:
    return _lines(path, ({"_id": q.id, "text": q.text, "metadata": {}} for q in questions))


def write_qrels(path: Path, judgements: Iterable[tuple[str, str, int]]) -> WriteResult:
    rows = 0
    with written_whole(path) as file:
        file.write("\t".join(HEADER) + "\n")
        for question_id, passage_id, value in judgements:
            file.write(f"{question_id}\t{passage_id}\t{value}\n")
            rows += 1
    return WriteResult(rows)


def _lines(path: Path, records: Iterable[dict[str, Any]]) -> WriteResult:
    rows = 0
    with written_whole(path) as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            rows += 1
    return WriteResult(rows)


FORMATS = [
    Format(
        "beir",
        "passages",
        "BEIR's folder (corpus.jsonl)",
        recognise_folder,
        passage_jsonl.read,
        write_corpus,
        ".jsonl",
        corpus_files,
    ),
    Format(
        "beir",
        "questions",
        "BEIR's folder or queries.jsonl",
        recognise_queries,
        read_queries,
        write_queries,
        ".jsonl",
        query_files,
    ),
    Format(
        "beir",
        "qrels",
        "BEIR's qrels (a header, tabs; or JSON lines, as in MTEB)",
        recognise_qrels,
        read_qrels,
        write_qrels,
        ".tsv",
    ),
]
