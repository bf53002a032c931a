"""BEIR: a folder with corpus.jsonl (`_id`, `title`, `text`), queries.jsonl (`_id`, `text`) and
qrels/{train,dev,test}.tsv (a header, then question, passage, grade; or .jsonl, as in MTEB's repositories).

A question has the split of the qrels file that contains it. If several contain it, test takes precedence over dev, and
dev over train. A question in no qrels file is unlabelled. Passages with a grade above 0 are gold, and all grades are
kept. A single queries.jsonl or qrels file can be read by itself. A repository that MTEB pushed has Parquet files
instead, in the folders corpus, queries and qrels (or data).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from blindspot.backend.data.formats import fields, passage_jsonl, tables
from blindspot.backend.data.formats.base import (
    NO_OPTIONS,
    SPLIT_NAMES,
    Format,
    Head,
    ImportedQuestion,
    Options,
    PassageBatch,
    Qrel,
    WriteResult,
    as_split,
    gold_and_judgements,
    question_fault,
)
from blindspot.backend.data.formats.files import write_json_lines, write_lines
from blindspot.backend.data.formats.question_jsonl import file_stem
from blindspot.backend.data.table_files import TableRow, binary_kind, rows_of
from blindspot.db.errors import BadInput
from blindspot.db.records import Passage, Question

HEADER = ("query-id", "corpus-id", "score")
_SPLITS = ("test", "dev", "train")


def recognise_folder(file_head: Head) -> bool:
    return file_head.folder and bool(_text_files(file_head.path, "corpus"))


def recognise_queries(file_head: Head) -> bool:
    if file_head.folder:
        return bool(_text_files(file_head.path, "queries"))
    other_fields = {"title", "answers", "gold", "split", "relation", "set", "subject"}
    return {"_id", "text"} <= set(file_head.record) and not other_fields & set(file_head.record)


def recognise_qrels(file_head: Head) -> bool:
    if file_head.start == "{":
        return set(HEADER) <= set(file_head.record)
    return tuple(name.strip().lower() for name in file_head.columns) == HEADER


def corpus_files(folder: Path) -> list[Path]:
    return _text_files(folder, "corpus") or [folder / "corpus.jsonl"]


def query_files(folder: Path) -> list[Path]:
    return [*_query_paths(folder), *(file for _, file in _qrels_files(folder))]


def _query_paths(folder: Path) -> list[Path]:
    return _text_files(folder, "queries") or [folder / "queries.jsonl"]


def _text_files(folder: Path, name: str) -> list[Path]:
    """Return the files of the corpus or the queries: JSON lines, or else the Parquet files of an MTEB repository. [] if
    there are none.
    """
    for file in (folder / f"{name}.jsonl", folder / f"{name}.jsonl.gz"):
        if file.is_file():
            return [file]
    return sorted((folder / name).glob("*.parquet"))


def _qrels_files(folder: Path) -> list[tuple[str, Path]]:
    """Return the qrels files with their splits: BEIR's TSV files, or else the JSON lines or Parquet files of an MTEB
    repository.
    """
    named = [f"{split}{suffix}" for split in _SPLITS for suffix in (".tsv", ".jsonl", ".tsv.gz", ".jsonl.gz")]
    file_by_split: dict[str, Path] = {}
    for file in (folder / "qrels" / name for name in named):
        if file.is_file():
            file_by_split.setdefault(file.name.split(".")[0], file)
    if file_by_split:
        return list(file_by_split.items())
    places = [
        (name, file)
        for place in ("qrels", "data")
        for name in SPLIT_NAMES
        for file in sorted((folder / place).glob(f"{name}-*.parquet"))
    ]
    return sorted(((SPLIT_NAMES[name], file) for name, file in places), key=lambda found: _SPLITS.index(found[0]))


def read_corpus(path: Path, options: Options = NO_OPTIONS) -> Iterator[PassageBatch]:
    files = corpus_files(path) if path.is_dir() else [path]
    for file in files:
        yield from tables.read_passages(file) if binary_kind(file) else passage_jsonl.read(file)


class _Judgements:
    """The qrels of a folder: each question's split and its judgements by passage."""

    def __init__(self) -> None:
        self.splits: dict[str, str] = {}
        self.of_question: dict[str, dict[str, Qrel]] = {}

    def read(self, split: str, file: Path) -> Iterator[BadInput]:
        seen: set[tuple[str, str]] = set()
        for row in tables.read_qrels(file):
            if isinstance(row, BadInput):
                yield row
            elif (row.question_id, row.passage_id) in seen:
                yield BadInput(
                    f"question {row.question_id!r} and passage {row.passage_id!r} occur twice", row.path, row.line
                )
            else:
                seen.add((row.question_id, row.passage_id))
                self.splits.setdefault(row.question_id, split)
                self.of_question.setdefault(row.question_id, {}).setdefault(row.passage_id, row)


def read_queries(path: Path, options: Options = NO_OPTIONS) -> Iterator[ImportedQuestion | BadInput]:
    files, qrels = (_query_paths(path), _qrels_files(path)) if path.is_dir() else ([path], [])
    known = _Judgements()
    for split, file in qrels:
        yield from known.read(split, file)
    if not qrels and options.split is None:
        raise BadInput(
            "there are no qrels beside the file to give the split; use --split train, dev, test or unlabelled", path
        )
    dataset = options.dataset or (file_stem(path) if not path.is_dir() else "-".join(path.absolute().name.split()))
    empty = True
    for row in chain.from_iterable(rows_of(file, text="jsonl") for file in files):
        empty = False
        if isinstance(row, BadInput):
            yield row
            continue
        try:
            item = _question_of_row(row, dataset, known if qrels else None, options)
        except fields.FieldError as error:
            yield BadInput(str(error), row.path, row.line)
            continue
        if options.split in (None, item.question.split):
            yield item
    if empty:
        raise BadInput("the file is empty", files[0])


def _question_of_row(
    row: TableRow, dataset: str, known_places: _Judgements | None, options: Options
) -> ImportedQuestion:
    id = fields.identifier(row.values, "_id", "id")
    split = options.split if known_places is None else known_places.splits.get(id, "unlabelled")
    judged = () if known_places is None else known_places.of_question.get(id, {}).values()
    gold, judgements = gold_and_judgements(judged, options.gold)
    question = Question(
        id, fields.required_text(row.values, "text"), dataset=dataset, split=as_split(split or ""), gold=gold
    )
    if message := question_fault(question):
        raise fields.FieldError(message)
    return ImportedQuestion(question, row.path, row.line, judgements=judgements)


def write_corpus(path: Path, passages: Iterable[Passage]) -> WriteResult:
    records = ({"_id": p.id, "title": p.title, "text": p.text, "metadata": {}} for p in passages)
    return WriteResult(write_json_lines(path, records))


def write_queries(path: Path, questions: Iterable[Question]) -> WriteResult:
    records = ({"_id": q.id, "text": q.text, "metadata": {}} for q in questions)
    return WriteResult(write_json_lines(path, records))


def write_qrels(path: Path, judgements: Iterable[tuple[str, str, int]]) -> WriteResult:
    rows = ("\t".join(map(str, row)) for row in judgements)
    return WriteResult(write_lines(path, chain(["\t".join(HEADER)], rows)) - 1)


FORMATS = [
    Format(
        "beir",
        "passages",
        "BEIR's folder (corpus.jsonl)",
        recognise_folder,
        read_corpus,
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
        tables.read_qrels,
        write_qrels,
        ".tsv",
    ),
]
