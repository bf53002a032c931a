"""The questions of a study, in labels.db."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from sys import intern
from typing import Any

import numpy as np
import numpy.typing as npt

from blindspot.db.connection import AMONG, PerThread, write_transaction
from blindspot.db.errors import Missing, Refused
from blindspot.db.gold import GoldMatch, insert_matches
from blindspot.db.imports import ImportRecord, insert_record
from blindspot.db.question_table import QuestionTable
from blindspot.db.records import Question

_COLUMNS = tuple(column.name for column in fields(Question))
_LISTS = ("answers", "gold")  # stored as JSON
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM question"
_decode = json.JSONDecoder().raw_decode


class Questions(PerThread):
    """The questions of one labels.db. Threads may share it."""

    def add(
        self, questions: Iterable[Question], source: ImportRecord | None = None, matches: Iterable[GoldMatch] = ()
    ) -> int:
        """Add questions, all or none, together with the record of their import and of how their gold was matched.

        Returns:
            The number of questions.

        Raises:
            Refused: An id is in the study already, or twice in `questions`.
        """
        questions = list(questions)  # before the transaction: nobody can save a label during a transaction
        with write_transaction(self.connection) as connection:
            position = self.last_position + 1
            self._refuse_existing_ids(questions)
            sql = f"INSERT INTO question (position, {', '.join(_COLUMNS)}) VALUES ({', '.join('?' * 13)})"
            connection.executemany(sql, (_row(position + i, q) for i, q in enumerate(questions)))
            insert_matches(connection, matches)
            if source is not None:
                insert_record(connection, source)
        return len(questions)

    def add_gold(self, matches: Sequence[GoldMatch], source: ImportRecord | None = None) -> int:
        """Add gold passages to existing questions, all or none. A gold match with a score of 0 or less is recorded but
        adds no gold passage.

        Returns:
            The number of questions that got a new gold passage.

        Raises:
            Missing: A match names no question.
        """
        gold: dict[str, dict[str, None]] = {}
        for match in matches:
            gold.setdefault(match.question, {})
            if match.passage is not None and (match.score is None or match.score > 0):
                gold[match.question][match.passage] = None
        with write_transaction(self.connection) as connection:
            changed = []
            for question in self.with_ids(gold):
                added = [id for id in gold[question.id] if id not in question.gold]
                if added:
                    changed.append((json.dumps([*question.gold, *added], ensure_ascii=False), question.id))
            connection.executemany("UPDATE question SET gold = ? WHERE id = ?", changed)
            insert_matches(connection, matches)
            if source is not None:
                insert_record(connection, source)
        return len(changed)

    def __len__(self) -> int:
        return int(self.connection.execute("SELECT count(*) FROM question").fetchone()[0])

    @property
    def last_position(self) -> int:
        """The highest position of a question; -1 if there are no questions. Every import of questions raises it, so it
        shows quickly whether questions were added.
        """
        return int(self.connection.execute("SELECT coalesce(max(position), -1) FROM question").fetchone()[0])

    def get(self, id: str) -> Question:
        """Return a question. Raises Missing if it does not exist."""
        return self.with_ids([id])[0]

    def with_ids(self, ids: Iterable[str]) -> list[Question]:
        """Return the questions with these ids, in this order.

        Raises:
            Missing: An id names no question.
        """
        ids = list(ids)
        rows = self.connection.execute(f"{_SELECT} WHERE id {AMONG}", (json.dumps(ids),))
        by_id = {row[0]: _question(row) for row in rows}
        absent = next((id for id in ids if id not in by_id), None)
        if absent is not None:
            raise Missing(f"there is no question {absent!r} in this study")
        return [by_id[id] for id in ids]

    def table(self, ids: Sequence[str]) -> QuestionTable:
        """Return the questions with these ids, in this order, as columns without one record per question.

        Raises:
            Missing: An id names no question.
        """
        return QuestionTable.from_ids(self, ids)

    def at_positions(self, positions: npt.NDArray[np.int64]) -> dict[int, Question]:
        """Return the questions at these positions, by position.

        Raises:
            Missing: There is no question at a position.
        """
        wanted = positions.tolist()
        rows = self.connection.execute(
            f"SELECT position, {', '.join(_COLUMNS)} FROM question WHERE position {AMONG}", (json.dumps(wanted),)
        )
        records = {row[0]: _question(row[1:]) for row in rows}
        absent = next((position for position in wanted if position not in records), None)
        if absent is not None:
            raise Missing(f"there is no question at position {absent:,} of this study; load the page again")
        return records

    def positions_of_ids(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the position of each id that belongs to a question."""
        rows = self.connection.execute(f"SELECT id, position FROM question WHERE id {AMONG}", (json.dumps(list(ids)),))
        return dict(rows.fetchall())

    def known_ids(self, ids: Iterable[str]) -> set[str]:
        """Return those of the ids that belong to a question."""
        rows = self.connection.execute(f"SELECT id FROM question WHERE id {AMONG}", (json.dumps(list(ids)),))
        return {id for (id,) in rows}

    def all(self, split: str | None = None, dataset: str | None = None) -> list[Question]:
        """Return the questions of a split and data set, in the order of import; all questions without these arguments."""
        where, values = _condition(split=split, dataset=dataset)
        return [_question(row) for row in self.connection.execute(f"{_SELECT} WHERE {where} ORDER BY position", values)]

    def texts(self, split: str) -> Iterator[tuple[str, str]]:
        """Yield (id, text) of the questions of a split, in the order of import."""
        yield from self.connection.execute("SELECT id, text FROM question WHERE split = ? ORDER BY position", (split,))

    def counts(self) -> list[dict[str, Any]]:
        """Return one row for each data set and split, in the order of import: the number of questions, of those with
        gold, and of those with answers.
        """
        rows = self.connection.execute(
            "SELECT dataset, split, count(*), sum(gold <> '[]'), sum(answers <> '[]') "
            # By the index of splits each row would be looked up separately, which takes twice as long.
            "FROM question NOT INDEXED GROUP BY dataset, split ORDER BY min(position)"
        )
        names = ("dataset", "split", "questions", "with_gold", "with_answers")
        return [dict(zip(names, row, strict=True)) for row in rows]

    def available_facts(self) -> frozenset[str]:
        """Return which of "answers", "relations" and "frequencies" at least one question has; a bucket counts as a
        frequency.
        """
        conditions = {
            "answers": "answers <> '[]'",
            "relations": "relation IS NOT NULL",
            "frequencies": "frequency IS NOT NULL OR bucket IS NOT NULL",
        }
        found = self.connection.execute(
            f"SELECT {', '.join(f'EXISTS (SELECT 1 FROM question WHERE {each})' for each in conditions.values())}"
        ).fetchone()
        return frozenset(name for name, held in zip(conditions, found, strict=True) if held)

    def subjects(self, without_frequency: bool = False) -> list[str]:
        """Return the distinct subjects of all questions, or only of questions without a frequency."""
        condition = " AND frequency IS NULL" if without_frequency else ""
        sql = f"SELECT DISTINCT subject FROM question WHERE subject IS NOT NULL{condition} ORDER BY subject"
        return [row[0] for row in self.connection.execute(sql)]

    def set_frequencies(
        self, frequencies: Mapping[str, int], source: ImportRecord | None = None, only_missing: bool = False
    ) -> int:
        """Set the frequency of the questions with these subjects, all or none. Return the number of questions."""
        condition = " AND frequency IS NULL" if only_missing else ""
        with write_transaction(self.connection) as connection:
            updated = connection.executemany(
                f"UPDATE question SET frequency = ? WHERE subject = ?{condition}",
                ((int(count), subject) for subject, count in frequencies.items()),
            ).rowcount
            if source is not None:
                insert_record(connection, source)
        return max(updated, 0)

    @property
    def frequency_source(self) -> str | None:
        """The origin of the frequencies: the frequencies that were imported or counted last, or the question files."""
        row = self.connection.execute(
            "SELECT file FROM import_record WHERE kind = 'frequencies' ORDER BY number DESC LIMIT 1"
        ).fetchone()
        if row:
            return str(row[0])
        has_frequency = self.connection.execute("SELECT 1 FROM question WHERE frequency IS NOT NULL LIMIT 1").fetchone()
        return "the question files" if has_frequency else None

    def _refuse_existing_ids(self, questions: Sequence[Question]) -> None:
        known = self.known_ids(question.id for question in questions)
        seen: set[str] = set()
        for question in questions:
            if question.id in known:
                raise Refused(f"question {question.id!r} is in the study already; nothing was added")
            if question.id in seen:
                raise Refused(f"question {question.id!r} occurs twice; nothing was added")
            seen.add(question.id)


def _condition(**columns: str | None) -> tuple[str, list[str]]:
    """Return the SQL condition that columns have these values, and the values; None allows every value."""
    chosen = {column: value for column, value in columns.items() if value is not None}
    return " AND ".join(f"{column} = ?" for column in chosen) or "1", list(chosen.values())


def _row(position: int, question: Question) -> tuple[Any, ...]:
    values = {column: getattr(question, column) for column in _COLUMNS}
    for column in _LISTS:
        values[column] = json.dumps(values[column], ensure_ascii=False)
    return (position, *values.values())


def _question(row: Sequence[Any]) -> Question:
    id, text, answers, relation, subject, template, frequency, bucket, dataset, split, gold, rule = row
    return Question(
        id,
        text,
        _parse_texts(answers),
        _intern(relation),
        subject,
        _intern(template),
        frequency,
        bucket,
        _intern(dataset),
        _intern(split),
        _parse_texts(gold),
        _intern(rule),
    )


def _parse_texts(text: str) -> tuple[str, ...]:
    return () if text == "[]" else tuple(_decode(text)[0])


def _intern(text: Any) -> Any:
    """Return the same string object for all equal texts, to save memory: a million questions have few distinct
    relations.
    """
    return text if text is None else intern(text)
