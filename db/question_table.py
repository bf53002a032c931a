"""Many questions without one record each: their columns are in memory, and their records are read when needed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt

from blindspot.db.connection import AMONG
from blindspot.db.errors import Missing
from blindspot.db.question_columns import UNKNOWN_FREQUENCY, ColumnsBuilder, QuestionColumns
from blindspot.db.records import Question

if TYPE_CHECKING:
    from blindspot.db.questions import Questions

Key = TypeVar("Key")
Value = TypeVar("Value")
UnitField = Literal["relation", "subject", "template", "text"]
QuestionField = Literal["text", "answers", "answer_rule", "gold"]
Rows = npt.NDArray[np.int64]
BLOCK = 20_000  # positions that one statement reads
NEIGHBOURS = 64  # records read together: lists and loops ask for questions that follow each other
RECORDS_HELD = 16_384  # records that a table keeps, about 1.3 kB each
SPARSE = 4  # a range of positions is read whole if at least one in so many is wanted

_FACTS = (
    "position",
    "id",
    "coalesce(relation, '')",
    "dataset || '/' || split",  # a split holds no slash
    f"coalesce(frequency, {UNKNOWN_FREQUENCY})",
    "bucket",
    "(answers <> '[]') + 2 * (gold <> '[]')",
)
# In the stored form `["a", "b"]` no character of an answer is escaped, unless there is a backslash.
_ANSWERS = """CASE
    WHEN answers = '[]' THEN ''
    WHEN instr(answers, '\\') > 0 THEN ' ' || (SELECT group_concat(value, ' ') FROM json_each(answers))
    ELSE ' ' || replace(substr(answers, 3, length(answers) - 4), '", "', ' ')
    END"""
_LISTS = ("answers", "gold")  # fields that are stored as JSON
_SEARCHED = f"text || {_ANSWERS} || ' ' || coalesce(subject, '') || ' ' || id"


class QuestionTable(Sequence[Question]):
    """Some questions of a labels.db in a given order. It works like a list of their records, but takes 37 bytes of
    memory per question.

    The columns do not change after the table was made. Records are read later, and the last 16,384 of them are kept.
    After the questions have changed, make a new table. Threads may share a table.

    positions: (q,) int64, the position of each question in labels.db, which identifies the question there.
    """

    def __init__(
        self, store: Questions, positions: Rows, columns: QuestionColumns, cached_records: _RecordCache | None = None
    ):
        self.store, self.positions, self.columns = store, positions, columns
        self._held = _RecordCache(store) if cached_records is None else cached_records
        ascending = bool((positions[1:] > positions[:-1]).all())
        self._order = None if ascending else np.argsort(positions, kind="stable")
        self._sorted = positions if self._order is None else positions[self._order]

    @classmethod
    def from_ids(cls, store: Questions, ids: Sequence[str]) -> QuestionTable:
        """Read the columns of the questions with these ids, in this order. Raises Missing if one does not exist."""
        known, positions, columns = _read_columns(store, list(ids))
        if known is None:
            return cls(store, positions, columns)
        row_of = {id: row for row, id in enumerate(known)}
        rows = np.fromiter((row_of.get(id, -1) for id in ids), np.int64, len(ids))
        if len(rows) and rows.min() < 0:
            raise Missing(f"there is no question {ids[int(rows.argmin())]!r} in this study")
        return cls(store, positions[rows], columns.columns_of_rows(rows))

    def __len__(self) -> int:
        return len(self.positions)

    @overload
    def __getitem__(self, row: int) -> Question: ...
    @overload
    def __getitem__(self, row: slice) -> QuestionTable: ...
    def __getitem__(self, row: int | slice) -> Question | QuestionTable:
        if isinstance(row, slice):
            return self.take(np.arange(len(self))[row])
        row = range(len(self))[int(row)]
        start = row // NEIGHBOURS * NEIGHBOURS
        return self._held.record_at(int(self.positions[row]), self.positions[start : start + NEIGHBOURS])

    def __iter__(self) -> Iterator[Question]:
        if len(self) <= RECORDS_HELD:
            yield from map(self.__getitem__, range(len(self)))
            return
        for start in range(0, len(self), BLOCK):
            positions = self.positions[start : start + BLOCK]
            records = self.store.at_positions(positions)
            yield from (records[position] for position in positions.tolist())

    def take(self, rows: Rows) -> QuestionTable:
        """Return the questions of some rows, (m,) int64. They share the cache of records with this table."""
        return QuestionTable(self.store, self.positions[rows], self.columns.columns_of_rows(rows), self._held)

    def rows_of(self, ids: Sequence[str]) -> Rows:
        """Return the row of each of these questions, (m,) int64; -1 for a question that is not in the table."""
        found = self._held.positions(ids)
        return self.rows_at(np.array([found.get(id, -1) for id in ids], dtype=np.int64))

    def rows_at(self, positions: Rows) -> Rows:
        """Return the row of the question at each position of labels.db, (m,) int64; -1 for a question that is not in
        the table.
        """
        if not len(self):
            return np.full(len(positions), -1, dtype=np.int64)
        places = np.minimum(np.searchsorted(self._sorted, positions), len(self) - 1)
        rows = places if self._order is None else self._order[places]
        return np.where(self._sorted[places] == positions, rows, -1)

    @cached_property
    def search_texts(self) -> list[str]:
        """The text, answers, subject and id of each question, joined by spaces and case-folded."""
        return list(self.values_of(_SEARCHED, fold=True))

    def values_of(self, expression: str, fold: bool = False) -> Iterator[Any]:
        """Yield the value of an SQL expression for each question, in the order of the table; with `fold`, case-folded.

        Much faster than reading the records.
        """
        values = self._ascending(expression, fold)
        if self._order is None:
            yield from values
            return
        of_row: list[Any] = [None] * len(self)
        for row, value in zip(self._order.tolist(), values, strict=True):
            of_row[row] = value
        yield from of_row

    def _ascending(self, expression: str, fold: bool) -> Iterator[Any]:
        """Yield the value of an SQL expression for each question, in the order of labels.db."""
        for start in range(0, len(self), BLOCK):
            positions = self._sorted[start : start + BLOCK]
            condition, values = _position_condition(positions)
            at, of_block = self.store.connection.execute(
                f"SELECT json_group_array(position), json_group_array({expression}) FROM question WHERE {condition}",
                values,
            ).fetchone()
            of_positions = json.loads(of_block.casefold() if fold else of_block)
            read = np.array(json.loads(at), dtype=np.int64)
            if not np.array_equal(read, positions):
                in_order = np.argsort(read, kind="stable")
                in_order = in_order[np.isin(read[in_order], positions, assume_unique=True)]
                of_positions = [of_positions[i] for i in in_order.tolist()]
            if len(of_positions) != len(positions):
                raise Missing("the questions of this study were replaced while they were read; load the page again")
            yield from of_positions


class _RecordCache:
    """A cache of the last records read from labels.db, by position, and of the last positions, by id."""

    def __init__(self, store: Questions):
        self._store, self._lock = store, threading.Lock()
        self._records: dict[int, Question] = {}
        self._positions: dict[str, int] = {}

    def record_at(self, position: int, neighbours: Rows) -> Question:
        """Return the record at a position. Its neighbours are read too, because they are likely to be needed next."""
        found = self._records.get(position)
        if found is not None:
            return found
        read = self._store.at_positions(neighbours)
        with self._lock:
            _cache_records(self._records, read)
            _cache_records(self._positions, {question.id: at for at, question in read.items()})
        return read[position]

    def positions(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the position of each id that belongs to a question."""
        found = {id: position for id in ids if (position := self._positions.get(id)) is not None}
        absent = [id for id in ids if id not in found]
        if absent:
            read = self._store.positions_of_ids(absent)
            found |= read
            with self._lock:
                _cache_records(self._positions, read)
        return found


def _cache_records(cached_records: dict[Key, Value], new_records: Mapping[Key, Value]) -> None:
    """Add records to the cache, and drop the oldest ones beyond the limit."""
    cached_records.update(new_records)
    while len(cached_records) > RECORDS_HELD:
        cached_records.pop(next(iter(cached_records)))


class _RowsById(Mapping[str, int]):
    """The rows of a table by question id. A look-up queries labels.db, unless the question's position is still in the
    cache.
    """

    def __init__(self, table: QuestionTable):
        self._table = table

    def __getitem__(self, id: str) -> int:
        row = int(self._table.rows_of([id])[0])
        if row < 0:
            raise KeyError(id)
        return row

    def __iter__(self) -> Iterator[str]:
        return self._table.values_of("id")

    def __len__(self) -> int:
        return len(self._table)


def columns_of(questions: Sequence[Question]) -> QuestionColumns:
    """Return the columns of a table or of a list of records."""
    return questions.columns if isinstance(questions, QuestionTable) else QuestionColumns.of_questions(questions)


def row_index(questions: Sequence[Question]) -> Mapping[str, int]:
    """Return the row of each question by id."""
    if isinstance(questions, QuestionTable):
        return _RowsById(questions)
    return {question.id: row for row, question in enumerate(questions)}


def rows_of(questions: Sequence[Question], ids: Sequence[str]) -> Rows:
    """Return the row of each id among the questions, (m,) int64; -1 for an id that is not there."""
    if isinstance(questions, QuestionTable):
        return questions.rows_of(ids)
    row_of = row_index(questions)
    return np.fromiter((row_of.get(id, -1) for id in ids), np.int64, len(ids))


def rows_among(questions: Sequence[Question], other_questions: Sequence[Question]) -> Rows:
    """Return the row of each question among `other_questions`, (q,) int64; -1 for a question that is not there."""
    if (
        isinstance(questions, QuestionTable)
        and isinstance(other_questions, QuestionTable)
        and questions.store.path == other_questions.store.path
    ):
        return other_questions.rows_at(questions.positions)
    return rows_of(other_questions, ids_of(questions))


def ids_of(questions: Sequence[Question]) -> list[str]:
    """Return the id of each question."""
    if isinstance(questions, QuestionTable):
        return list(questions.values_of("id"))
    return [question.id for question in questions]


def gold_of(questions: Sequence[Question]) -> Sequence[Sequence[str]]:
    """Return the ids of each question's gold passages."""
    if isinstance(questions, QuestionTable):
        return list(questions.values_of("json(gold)"))
    return [question.gold for question in questions]


def fields_of(questions: Sequence[Question], *names: QuestionField) -> Iterator[Sequence[Any]]:
    """Yield some fields of each question, in the order of `names`."""
    if isinstance(questions, QuestionTable):
        columns = (f"json({name})" if name in _LISTS else name for name in names)
        return questions.values_of(f"json_array({', '.join(columns)})")
    return ([getattr(question, name) for name in names] for question in questions)


def folded_field_of(questions: Sequence[Question], name: UnitField) -> list[str | None]:
    """Return one field of each question, case-folded; None where the field is unknown."""
    if isinstance(questions, QuestionTable):
        return list(questions.values_of(name, fold=True))
    values: list[str | None] = [getattr(question, name) for question in questions]
    return [None if value is None else value.casefold() for value in values]


def take(questions: Sequence[Question], rows: Rows) -> Sequence[Question]:
    """Return the questions of some rows, (m,) int64."""
    if isinstance(questions, QuestionTable):
        return questions.take(rows)
    return [questions[row] for row in rows.tolist()]


def _read_columns(store: Questions, ids: list[str]) -> tuple[list[str] | None, Rows, QuestionColumns]:
    """Return (ids, positions, columns) of at least the existing questions with these ids. The returned ids are None if
    they equal the given ids, in the same order.
    """
    ids_in_order: list[str] | None = None  # None as long as the ids are those of the argument: a million take 70 MB
    count = 0
    positions: list[Rows] = []
    builder = ColumnsBuilder()
    arrays = ", ".join(f"json_group_array({expression})" for expression in _FACTS)
    for condition, values in _conditions_for_ids(store.last_position, ids):
        row = store.connection.execute(f"SELECT {arrays} FROM question WHERE {condition}", values).fetchone()
        at, of_block, relations, sets, frequencies, buckets, has = map(json.loads, row)
        if ids_in_order is None and ids[count : count + len(of_block)] != of_block:
            ids_in_order = ids[:count]
        if ids_in_order is not None:
            ids_in_order += of_block
        count += len(of_block)
        positions.append(np.array(at, dtype=np.int64))
        flags = np.array(has, dtype=np.int8)
        builder.add(relations, sets, frequencies, buckets, flags & 1, flags & 2)
    if ids_in_order is None and count < len(ids):
        ids_in_order = ids[:count]
    return ids_in_order, np.concatenate(positions) if positions else np.zeros(0, np.int64), builder.build()


def _conditions_for_ids(last_position: int, ids: Sequence[str]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield SQL conditions, with their values, that together cover every question with one of these ids."""
    if SPARSE * len(ids) > last_position + 1:
        for start in range(0, last_position + 1, BLOCK):
            yield "position BETWEEN ? AND ?", (start, start + BLOCK - 1)
        return
    for start in range(0, len(ids), BLOCK):
        yield f"id {AMONG}", (json.dumps(ids[start : start + BLOCK]),)


def _position_condition(positions: Rows) -> tuple[str, tuple[Any, ...]]:
    """Return an SQL condition, with its values, that at least these positions meet, which ascend."""
    if positions[-1] - positions[0] < SPARSE * len(positions):
        return "position BETWEEN ? AND ?", (int(positions[0]), int(positions[-1]))
    return f"position {AMONG}", (json.dumps(positions.tolist()),)
