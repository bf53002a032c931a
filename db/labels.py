"""The label store: append-only events are the truth, everything else is a view of them (see `db.migrations`).

Events are ordered by their number alone. A gesture may hold several events, one for each passage; an undo takes back all of
a gesture, event by event, and only what the same annotator did.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from db.acts import store_act
from db.connection import PerThread
from db.errors import BlindspotError
from db.events import COLUMNS, INSERT, SELECT, Consensus, Event, Judgement, Relevance, as_of, events_where
from db.gestures import Act, Choice, Gesture, Label, Receipt, check, read_sent
from db.saving import saving
from db.storing import Passages, store_gesture

_UNDOES = COLUMNS.index("undoes")


class Labels(PerThread):
    """The label events of one labels.db. Threads and processes may share it.

    Args:
        passages: gives those of some passage ids that exist, as `Corpus.ordinals` does. Labels outside a batch are checked by
            it; without it they are refused. A batch's own passages were checked when it was made.
    """

    def __init__(
        self,
        path: str | Path,
        read_only: bool = False,
        passages: Passages | None = None,
        clock: Callable[[], float] = time.time,
    ):
        super().__init__(path, read_only)
        self._passages, self._clock = passages, clock

    def add(self, annotator: str, gesture: Gesture) -> Receipt:
        """Store one gesture: all of it or nothing.

        Raises:
            BadInput, Missing, Refused: it makes no sense, names what does not exist, is not the annotator's to do, or its id was
                used for something else.
            NotSaved: the disk took nothing.
        """
        check(gesture)
        with saving(self) as connection:
            return store_gesture(connection, annotator, gesture, self._passages, self._clock())

    def take(
        self, annotator: str, outbox: Sequence[Gesture | Act | Mapping[str, Any]], guideline_version: str = "0"
    ) -> list[Receipt]:
        """Store what a browser has not seen acknowledged, in its order, in one transaction. One that is refused stops no other.

        Args:
            outbox: mappings are messages of a browser, which is believed about nothing that the store knows; see `store_gesture`.
            guideline_version: the guidelines that the browser was shown.

        Raises:
            NotSaved: the disk took nothing; none is stored.
        """
        if not outbox:
            return []
        with saving(self) as connection:
            return [self._receipt(connection, annotator, each, guideline_version) for each in outbox]

    def _receipt(
        self,
        connection: sqlite3.Connection,
        annotator: str,
        each: Gesture | Act | Mapping[str, Any],
        guideline_version: str,
    ) -> Receipt:
        connection.execute("SAVEPOINT gesture")
        try:
            sent = read_sent(each, guideline_version)
            if isinstance(sent, Act):
                receipt = store_act(connection, annotator, sent, self._clock())
            else:
                from_browser = not isinstance(each, Gesture)
                receipt = store_gesture(connection, annotator, sent, self._passages, self._clock(), from_browser)
        except (BlindspotError, sqlite3.IntegrityError) as error:
            connection.execute("ROLLBACK TO gesture")
            id = each.get("id", "") if isinstance(each, Mapping) else getattr(each, "id", "")
            receipt = Receipt(str(id), "refused", str(error))
        connection.execute("RELEASE gesture")
        return receipt

    def known(self, ids: Iterable[str]) -> set[str]:
        """Those of the ids of gestures and acts that are stored."""
        rows = self.connection.execute(
            "SELECT gesture FROM label_event WHERE gesture IN (SELECT value FROM json_each(?1)) "
            "UNION SELECT gesture FROM queue_act WHERE gesture IN (SELECT value FROM json_each(?1))",
            (json.dumps(list(ids)),),
        )
        return {row[0] for row in rows}

    def undoable(self, annotator: str, count: int = 50) -> list[Gesture]:
        """The annotator's last gestures that can be taken back, the last first: what `Z` means after a reload."""
        rows = self.connection.execute(
            "SELECT gesture, kind, question, batch, note, blind, guideline_version, "
            "json_group_array(json_array(passage, label)) FROM (SELECT * FROM live_event WHERE annotator = ? ORDER BY number) "
            "GROUP BY gesture ORDER BY max(number) DESC LIMIT ?",
            (annotator, count),
        )
        return [
            Gesture(
                id,
                kind,
                question,
                tuple(Choice(passage, label) for passage, label in json.loads(choices) if passage),
                note,
                None,
                batch,
                bool(blind),
                version,
            )
            for id, kind, question, batch, note, blind, version, choices in rows
        ]

    def given(self, annotator: str, questions: Iterable[str], batch: str | None = None) -> dict[str, dict[str, Label]]:
        """The labels, by question and passage, that the annotator gave in this batch (outside any: None) and has not taken back.

        Labels of other batches are left out: a repeat is judged afresh.
        """
        rows = self.connection.execute(
            "SELECT question, passage, label FROM live_event WHERE annotator = ? AND question IN (SELECT value FROM json_each(?)) "
            "AND batch IS ? AND kind = 'label' ORDER BY number",
            (annotator, json.dumps(list(questions)), batch),
        )
        labels: dict[str, dict[str, Label]] = {}
        for question, passage, label in rows:
            labels.setdefault(question, {})[passage] = label
        return labels

    def judgements(self, questions: Iterable[str] | None = None) -> list[Judgement]:
        """By number. Practice is none."""
        rows = self._view(
            "number, question, passage, annotator, label, batch, blind, inclusion_probability",
            "judgement",
            questions,
            "number",
        )
        return [Judgement(*row[:6], bool(row[6]), row[7]) for row in rows]

    def consensus(self, questions: Iterable[str] | None = None) -> list[Consensus]:
        """Of every judged pair, by question and passage."""
        rows = self._view("question, passage, label, state, people", "consensus", questions, "question, passage")
        return [Consensus(*row) for row in rows]

    def corrected(self, questions: Iterable[str] | None = None, training: bool = False) -> list[Relevance]:
        """Of every pair of gold or judged. `training`: only those of questions that may train; dev and test never do."""
        columns = "question, passage, relevance, gold, state, people, split, trains"
        rows = self._view(
            columns, "corrected_relevance", questions, "question, passage", "trains = 1" if training else "1"
        )
        return [Relevance(*row[:3], bool(row[3]), *row[4:7], bool(row[7])) for row in rows]

    def bad_questions(self) -> dict[str, list[str]]:
        """The questions that somebody calls bad, with who."""
        found: dict[str, list[str]] = {}
        rows = self.connection.execute(
            "SELECT DISTINCT question, annotator FROM live_event WHERE kind = 'bad_question' AND practice = 0 "
            "ORDER BY question, annotator"
        )
        for question, annotator in rows:
            found.setdefault(question, []).append(annotator)
        return found

    def notes(self, question: str) -> list[Event]:
        """What people wrote about a question, or about a passage of it, and have not taken back."""
        rows = self.connection.execute(
            f"SELECT {', '.join(COLUMNS)} FROM live_event WHERE question = ? AND note IS NOT NULL ORDER BY number",
            (question,),
        )
        return [Event(*row) for row in rows]

    @property
    def last_event(self) -> int:
        """The number of the newest event; 0 where there is none. Numbers may skip: never count by them."""
        return self.connection.execute("SELECT coalesce(max(number), 0) FROM label_event").fetchone()[0]

    def events(self, until: int | None = None, questions: Iterable[str] | None = None) -> Iterator[Event]:
        """The events up to a number, in order."""
        wanted = None if questions is None else json.dumps(list(questions))
        rows = self.connection.execute(
            f"{SELECT} WHERE (?1 IS NULL OR number <= ?1) "
            "AND (?2 IS NULL OR question IN (SELECT value FROM json_each(?2))) ORDER BY number",
            (until, wanted),
        )
        return (Event(*row) for row in rows)

    def gestures(self, ids: Iterable[str]) -> list[Event]:
        """The events of some gestures, by number."""
        return events_where(
            self.connection,
            "WHERE gesture IN (SELECT value FROM json_each(?)) ORDER BY number",
            (json.dumps(list(ids)),),
        )

    def consensus_as_of(self, number: int) -> list[Consensus]:
        """The consensus as it was when the event `number` was the last."""
        with as_of(self.path, number) as connection:
            rows = connection.execute(
                "SELECT question, passage, label, state, people FROM consensus ORDER BY question, passage"
            )
            return [Consensus(*row) for row in rows]

    def insert(self, events: Sequence[Event], known: Mapping[int, int] | None = None) -> int:
        """Bring in events that another store recorded, all or none, each gesture whole. Gives their number.

        Into an empty store they keep their numbers, so that exports of both are the same to the byte; else they get new ones, at
        the end. Who may do what is not asked: it was, when they were made. People who are not known are added, with the least role.
        """
        with saving(self) as connection:
            last = connection.execute("SELECT coalesce(max(number), 0) FROM label_event").fetchone()[0]
            _add_people(connection, events, self._clock())
            numbers = dict(known or {})
            for event in events:
                values = list(astuple(event))
                if last:
                    values[0] = None
                    values[_UNDOES] = None if event.undoes is None else numbers[event.undoes]
                numbers[event.number] = connection.execute(INSERT, values).lastrowid
        return len(events)

    def _view(
        self, columns: str, view: str, questions: Iterable[str] | None, order: str, condition: str = "1"
    ) -> list[tuple]:
        wanted = None if questions is None else json.dumps(list(questions))
        where = condition if wanted is None else f"{condition} AND question IN (SELECT value FROM json_each(?))"
        values = () if wanted is None else (wanted,)
        return self.connection.execute(
            f"SELECT {columns} FROM {view} WHERE {where} ORDER BY {order}", values
        ).fetchall()


def _add_people(connection: sqlite3.Connection, events: Iterable[Event], now: float) -> None:
    roles: dict[str, str] = {}
    for event in events:
        if event.kind == "adjudicate" or event.annotator not in roles:
            roles[event.annotator] = "adjudicator" if event.kind == "adjudicate" else "annotator"
    connection.executemany(
        "INSERT OR IGNORE INTO annotator (name, role, made) VALUES (?, ?, ?)",
        ((name, role, now) for name, role in roles.items()),
    )
