"""Tables: CSV, Parquet, Arrow, datasets that the package `datasets` saved, and folders of such files, as in
repositories on the Hugging Face Hub.

A column is found by its usual names, or chosen with `--set text=COLUMN`. `--format table` also reads TSV and JSON lines
with columns of other names. Passages without a column of ids are numbered from 1. For questions, every field of the
format question-jsonl may be a column. Answers and gold are lists, JSON lists, or a single value. The split comes from
the column `split`, or else from the folder or file name ("validation" means dev), or else from `--split`.

PopQA (Mallen et al. 2023) is read by its columns `subj`, `prop`, `s_pop` (the subject's frequency) and
`possible_answers`; its questions are test questions unless `--split` names another split.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from blindspot.backend.data.formats import fields, trec
from blindspot.backend.data.formats.base import (
    NO_OPTIONS,
    SPLIT_NAMES,
    Context,
    Format,
    Head,
    ImportedQuestion,
    Options,
    PassageBatch,
    Qrel,
    RunEntry,
    id_fault,
    question_fault,
)
from blindspot.backend.data.formats.passage_lines import ROWS_PER_BATCH
from blindspot.backend.data.formats.question_jsonl import file_stem, question_of_record
from blindspot.backend.data.table_files import TableRow, column_names, columns_of, rows_of, table_files
from blindspot.db.errors import BadInput

PASSAGE = {
    "id": ("id", "_id", "docid", "doc_id", "pid", "passage_id"),
    "title": ("title",),
    "text": ("text", "contents", "content", "passage", "body"),
}
QUESTION = {
    "id": ("id", "_id", "qid", "query_id", "question_id"),
    "question": ("question", "query"),
    "answers": ("answers", "answer", "possible_answers"),
    "gold": ("gold", "positive_passages"),
}
QREL = {
    "question": ("query-id", "query_id", "qid"),
    "passage": ("corpus-id", "corpus_id", "docid", "doc_id", "pid"),
    "grade": ("score", "relevance", "grade", "label"),
}
RUN = {"question": QREL["question"], "passage": QREL["passage"], "score": ("score",), "rank": ("rank",)}
"""A column of ranks distinguishes a run from qrels, whose grades may be called scores."""
_OF_QUESTIONS = ("relation", "subject", "template", "frequency", "bucket", "dataset", "split", "set", "answer_rule")
_NUMBERS = ("frequency", "bucket")
POPQA = {"subject": "subj", "relation": "prop", "frequency": "s_pop"}


def _has_usual_column_names(file_head: Head, *columns: tuple[str, ...]) -> bool:
    """Return whether a table has each column under one of its usual names. False for TSV files, which other formats
    read.
    """
    if file_head.table is None or "\t" in file_head.first_line:
        return False
    return all(set(names) & set(file_head.table) for names in columns)


def recognise_passages(file_head: Head) -> bool:
    return _has_usual_column_names(file_head, PASSAGE["text"]) and not _has_usual_column_names(
        file_head, QUESTION["question"]
    )


def recognise_questions(file_head: Head) -> bool:
    return _has_usual_column_names(file_head, QUESTION["question"]) or _is_popqa(file_head.table or ())


def _is_popqa(columns: Collection[str]) -> bool:
    return {"question", "possible_answers", *POPQA.values()} <= set(columns)


def recognise_qrels(file_head: Head) -> bool:
    return _has_usual_column_names(file_head, *QREL.values()) and not recognise_runs(file_head)


def recognise_runs(file_head: Head) -> bool:
    return _has_usual_column_names(file_head, *RUN.values())


def files(path: Path) -> list[Path]:
    return [file.path for file in table_files(path)]


def _columns_of_fields(path: Path, usual_names: Mapping[str, tuple[str, ...]], options: Options) -> dict[str, str]:
    """Map each field to its column: the column named in the settings, or else the column with a usual name."""
    columns, chosen = columns_of(path), {}
    for field, names in usual_names.items():
        named = options.settings.get(field)
        if named and named not in columns:
            raise BadInput(f"there is no column {named!r}; the columns are {column_names(columns)}", path)
        column = named or next((name for name in names if name in columns), None)
        if column is not None:
            chosen[field] = column
    return chosen


def _required_column(path: Path, chosen_columns: Mapping[str, str], *names: str) -> None:
    for name in names:
        if name not in chosen_columns:
            columns = column_names(columns_of(path))
            raise BadInput(f"no column is the {name}; the columns are {columns}; choose with --set {name}=COLUMN", path)


def read_passages(path: Path, options: Options = NO_OPTIONS) -> Iterator[PassageBatch]:
    chosen = _columns_of_fields(path, PASSAGE, options)
    _required_column(path, chosen, "text")
    batch = PassageBatch()
    for number, row in enumerate(rows_of(path, list(chosen.values())), 1):
        place = Path(str(row.path))
        if batch.path not in (None, place) or len(batch.rows) + len(batch.problems) >= ROWS_PER_BATCH:
            yield batch
            batch = PassageBatch()
        batch.path = place
        if isinstance(row, BadInput):
            batch.problems.append(row)
            continue
        values = {field: row.values[column] for field, column in chosen.items()}
        try:
            id = fields.identifier(values, "id") if "id" in values else str(number)
            batch.rows.append((id, fields.text(values, "title", ""), fields.required_text(values, "text")))
            batch.lines.append(row.line)
        except fields.FieldError as error:
            batch.problems.append(BadInput(str(error), row.path, row.line))
    yield batch


def read_questions(path: Path, options: Options = NO_OPTIONS) -> Iterator[ImportedQuestion | BadInput]:
    chosen = _columns_of_fields(path, QUESTION, options)
    _required_column(path, chosen, "question")
    columns = columns_of(path)
    of_popqa = POPQA if _is_popqa(columns) else {}
    default = {"dataset": options.dataset or "popqa", "split": options.split or "test"} if of_popqa else {}
    known = [name for name in _OF_QUESTIONS if name in columns]
    chosen |= of_popqa
    wanted = [*chosen.values(), *(name for name in known if name not in chosen.values())]
    # `datasets` calls a table without splits "train", so a single split that no column states is only a default.
    one_split = len({file.split for file in table_files(path)}) == 1
    for row in rows_of(path, wanted):
        if isinstance(row, BadInput):
            yield row
            continue
        record = default | {name: row.values[name] for name in known if row.values[name] not in (None, "")}
        record |= {field: row.values[column] for field, column in chosen.items()}
        try:
            item = _question(record, row, path, options, one_split)
        except fields.FieldError as error:
            yield BadInput(str(error), row.path, row.line)
            continue
        if options.includes(item.question):
            yield item


def _question(record: dict[str, Any], row: TableRow, path: Path, options: Options, one_split: bool) -> ImportedQuestion:
    for name in ("answers", "gold"):
        record[name] = _as_list(record.get(name))
    for name in _NUMBERS:
        if isinstance(value := record.get(name), str) and value.isascii() and value.isdigit():
            record[name] = int(value)
    if "split" in record:
        record["split"] = SPLIT_NAMES.get(str(record["split"]).lower(), record["split"])
    elif row.split is not None and "set" not in record and not (one_split and options.split):
        record["split"] = SPLIT_NAMES.get(row.split, row.split)
    record.setdefault("dataset", options.dataset or file_stem(path))
    if record.get("id") is None:
        record["id"] = f"{'-'.join(str(record['dataset']).split())}.{row.split + '.' if row.split else ''}{row.line}"
    item = question_of_record(record, Path(row.path), row.line, options)
    if message := question_fault(item.question):
        raise fields.FieldError(message)
    return item


def _as_list(value: Any) -> list[Any]:
    """Return answers or ids as a list. The value may be a list, SQuAD's {"text": [...]}, a text with a JSON or Python
    list, or a single value.
    """
    if isinstance(value, dict):
        value = value.get("text", value.get("aliases"))
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = fields.parse_structured_text(value)
    if value is None or value == "":
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def read_qrels(path: Path, options: Options = NO_OPTIONS) -> Iterator[Qrel | BadInput]:
    chosen = _columns_of_fields(path, QREL, options)
    _required_column(path, chosen, *QREL)
    for row in rows_of(path, list(chosen.values())):
        if isinstance(row, BadInput):
            yield row
            continue
        values = {field: row.values[column] for field, column in chosen.items()}
        try:
            question, passage = (fields.identifier(values, name) for name in ("question", "passage"))
            if message := id_fault(question) or id_fault(passage):
                raise fields.FieldError(message)
            yield Qrel(question, passage, trec.parse_grade(str(values["grade"])), row.path, row.line)
        except fields.FieldError as error:
            yield BadInput(str(error), row.path, row.line)


def read_runs(path: Path, options: Options = NO_OPTIONS) -> Iterator[RunEntry]:
    """Yield one hit for each row, as in a TREC run. A question's hits keep the order of its rows."""
    chosen = _columns_of_fields(path, RUN, options)
    _required_column(path, chosen, "question", "passage", "score")
    for row in rows_of(path, list(chosen.values())):
        if isinstance(row, BadInput):
            raise row
        values = {field: row.values[column] for field, column in chosen.items()}
        try:
            question, passage = (fields.identifier(values, name) for name in ("question", "passage"))
            score = float(values["score"])
        except (fields.FieldError, TypeError, ValueError) as error:
            raise BadInput(str(error), row.path, row.line) from None
        yield RunEntry(question, None, (), [Context(passage, score, row.line)], str(row.path), row.line)


_WHAT = "CSV, Parquet, Arrow or a saved dataset"
FORMATS = [
    Format(
        "table", "passages", _WHAT, recognise_passages, read_passages, files=files, settings=dict.fromkeys(PASSAGE, "")
    ),
    Format(
        "table",
        "questions",
        _WHAT,
        recognise_questions,
        read_questions,
        files=files,
        settings=dict.fromkeys(QUESTION, ""),
    ),
    Format("table", "qrels", _WHAT, recognise_qrels, read_qrels, files=files, settings=dict.fromkeys(QREL, "")),
    Format("table", "runs", _WHAT, recognise_runs, read_runs, files=files),
]
