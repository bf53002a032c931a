"""The label store. Label events are only ever added and are the one source of truth; everything else is computed from
them by SQL views (see `blindspot.db.schema`).

Event rows are ordered by their number alone. A label event may have several rows, one for each passage. An undo undoes
all rows of an event; annotators can undo only their own events.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

from blindspot.db.connection import AMONG, DatabaseUnavailable, PerThread, T, read_records, store_transaction
from blindspot.db.errors import BlindspotError, Refused
from blindspot.db.event_writer import Passages, write_label_event, write_queue_event
from blindspot.db.events import (
    INSERT,
    MACHINE,
    MAX_NUMBER,
    Choice,
    EventRow,
    Label,
    LabelEvent,
    QueueEvent,
    Receipt,
    parse_event,
    validate,
)
from blindspot.db.judgements import Consensus, CorrectedRelevance, Judgement, views_as_of
from blindspot.db.leases import finish_imported_questions

OutboxEntry = LabelEvent | QueueEvent | Mapping[str, Any]


class Labels(PerThread):
    """The label events of one labels.db. Threads and processes may share it.

    Args:
        passages: Returns those of some passage ids that exist, as `Corpus.ordinals` does. The store checks labels
            outside batches with it, and refuses them without it. Whoever makes a batch checks the passages of the
            batch.
    """

    def __init__(
        self,
        path: str | Path,
        read_only: bool = False,
        passages: Passages | None = None,
        clock: Callable[[], float] = time.time,
    ):
        super().__init__(path, read_only, clock=clock)
        self._passages = passages

    def add(self, annotator: str, event: LabelEvent) -> Receipt:
        """Store one label event: all its rows or none.

        Raises:
            BadInput: The event makes no sense.
            Missing: It names something that does not exist.
            Refused: The annotator may not do this, or its id was used for another event.
            NotSaved: The database cannot be written.
        """
        validate(event)
        with store_transaction(self) as connection:
            return write_label_event(connection, annotator, event, self._passages, self._clock())

    def add_all(self, annotator: str, outbox: Sequence[OutboxEntry], guideline_version: str = "0") -> list[Receipt]:
        """Store the outbox of a browser, in order, in one transaction. A refused event does not stop the others.

        Args:
            outbox: Mappings are messages of a browser. The store does not believe them about what it knows itself, and
                checks that it gave their questions to the annotator; see `write_label_event`.
            guideline_version: The guidelines that the page showed.

        Raises:
            NotSaved: The database cannot be written; no event was stored.
        """
        if not outbox:
            return []
        with store_transaction(self) as connection:
            return [self._add_entry(connection, annotator, entry, guideline_version) for entry in outbox]

    def _add_entry(
        self, connection: sqlite3.Connection, annotator: str, entry: OutboxEntry, guideline_version: str
    ) -> Receipt:
        connection.execute("SAVEPOINT entry")
        try:
            event = parse_event(entry, guideline_version)
            if isinstance(event, QueueEvent):
                receipt = write_queue_event(connection, annotator, event, self._clock())
            else:
                from_browser = isinstance(entry, Mapping)
                receipt = write_label_event(connection, annotator, event, self._passages, self._clock(), from_browser)
        except DatabaseUnavailable:
            raise  # no fault of this event: the whole outbox is sent again
        except (BlindspotError, sqlite3.IntegrityError) as error:
            connection.execute("ROLLBACK TO entry")
            id = entry.get("id", "") if isinstance(entry, Mapping) else getattr(entry, "id", "")
            receipt = Receipt(str(id), "refused", str(error))
        connection.execute("RELEASE entry")
        return receipt

    def stored_ids(self, ids: Iterable[str]) -> set[str]:
        """Return the event ids that the store already has."""
        rows = self.connection.execute(
            "WITH sent AS (SELECT value FROM json_each(?)) SELECT gesture FROM label_event WHERE gesture IN sent "
            "UNION SELECT gesture FROM queue_act WHERE gesture IN sent",
            (json.dumps(list(ids)),),
        )
        return {row[0] for row in rows}

    def undoable_events(self, annotator: str, count: int = 50) -> list[LabelEvent]:
        """Return the annotator's last events that can be undone, the last first, so that the key `Z` still works after
        a reload.
        """
        rows = self.connection.execute(
            "SELECT gesture, kind, question, batch, note, blind, guideline_version, "
            "json_group_array(json_array(passage, label)) FROM "
            "(SELECT * FROM live_event WHERE annotator = ? ORDER BY number) "
            "GROUP BY gesture ORDER BY max(number) DESC LIMIT ?",
            (annotator, count),
        )
        return [
            LabelEvent(
                id,
                kind,
                question,
                choices=tuple(Choice(passage, label) for passage, label in json.loads(choices) if passage),
                note=note,
                batch=batch,
                blind=bool(blind),
                guideline_version=version,
            )
            for id, kind, question, batch, note, blind, version, choices in rows
        ]

    def labels_by(
        self, annotator: str, questions: Iterable[str], batch: str | None = None
    ) -> dict[str, dict[str, Label]]:
        """Return an annotator's labels, without undone ones, by question and passage.

        Args:
            batch: Only labels given in this batch; None for labels outside batches. Labels of other batches are left
                out, because an annotator judges a repeated question afresh.
        """
        rows = self.connection.execute(
            "SELECT question, passage, label FROM live_event "
            f"WHERE annotator = ? AND question {AMONG} AND batch IS ? AND kind = 'label' ORDER BY number",
            (annotator, json.dumps(list(questions)), batch),
        )
        labels: dict[str, dict[str, Label]] = {}
        for question, passage, label in rows:
            labels.setdefault(question, {})[passage] = label
        return labels

    def judgements(self, questions: Iterable[str] | None = None) -> list[Judgement]:
        """Return the judgements, ordered by number, without those of practice."""
        return self._records(Judgement, "judgement", questions, "number")

    def consensus(self, questions: Iterable[str] | None = None) -> list[Consensus]:
        """Return the consensus of each judged pair, by question and passage."""
        return self._records(Consensus, "consensus", questions, "question, passage")

    def disputed_questions(self) -> list[str]:
        """Return the questions that have a disputed passage, by id."""
        rows = self.connection.execute("SELECT DISTINCT question FROM consensus WHERE state = 'open' ORDER BY question")
        return [question for (question,) in rows]

    def corrected_relevance(
        self, questions: Iterable[str] | None = None, training: bool = False
    ) -> list[CorrectedRelevance]:
        """Return the corrected relevance of each gold or judged pair.

        Args:
            training: Only pairs that training may use. Pairs of dev and test questions never are.
        """
        trains = "trains = 1" if training else "1"
        return self._records(CorrectedRelevance, "corrected_relevance", questions, "question, passage", trains)

    def rejected_gold(self) -> dict[str, set[str]]:
        """Return the gold passages that people labelled related or negative, by question."""
        rejected: dict[str, set[str]] = {}
        rows = self.connection.execute(
            "SELECT c.question, c.passage FROM consensus c JOIN question q ON q.id = c.question "
            "WHERE c.label IN ('related', 'negative') AND c.passage IN (SELECT value FROM json_each(q.gold))"
        )
        for question, passage in rows:
            rejected.setdefault(question, set()).add(passage)
        return rejected

    def machine_label_counts(self) -> dict[str, int]:
        """Return the machine annotators with the number of their labels."""
        rows = self.connection.execute(
            "SELECT a.name, count(e.number) FROM annotator a LEFT JOIN live_event e ON e.annotator = a.name AND "
            "e.kind = 'label' WHERE a.kind = 'machine' GROUP BY a.name ORDER BY a.name"
        )
        return dict(rows.fetchall())

    def machine_labels(self, annotator: str) -> dict[tuple[str, str], Label]:
        """Return the last label that a machine annotator gave each pair, by question and passage."""
        rows = self.connection.execute(
            "SELECT question, passage, label FROM (SELECT question, passage, label, row_number() OVER (PARTITION BY "
            "question, passage ORDER BY number DESC) AS nth FROM live_event WHERE kind = 'label' AND practice = 0 AND "
            "annotator = (SELECT name FROM annotator WHERE name = ? AND kind = 'machine')) WHERE nth = 1 ORDER BY "
            "question, passage",
            (annotator,),
        )
        return {(question, passage): label for question, passage, label in rows}

    def bad_questions(self) -> dict[str, list[str]]:
        """Return the questions that annotators marked as bad, with those annotators."""
        annotators: dict[str, list[str]] = {}
        rows = self.connection.execute(
            "SELECT DISTINCT question, annotator FROM live_event WHERE kind = 'bad_question' AND practice = 0 "
            "ORDER BY question, annotator"
        )
        for question, annotator in rows:
            annotators.setdefault(question, []).append(annotator)
        return annotators

    def bad_marks(self, annotator: str) -> dict[tuple[str | None, str], str]:
        """Return the event by which a person marked each (batch, question) as bad, without undone events."""
        rows = self.connection.execute(
            "SELECT batch, question, gesture FROM live_event WHERE annotator = ? AND kind = 'bad_question' ORDER BY "
            "number",
            (annotator,),
        )
        return {(batch, question): gesture for batch, question, gesture in rows}

    def notes(self, question: str) -> list[EventRow]:
        """Return the notes on a question and its passages, without undone ones."""
        source = "live_event WHERE question = ? AND note IS NOT NULL ORDER BY number"
        return list(read_records(self.connection, EventRow, source, (question,)))

    @property
    def last_event(self) -> int:
        """The number of the newest event row; 0 if there is none. Numbers can have gaps, so this is not a count."""
        return _last_event_number(self.connection)

    def label_counts_by_split(self) -> dict[str, int]:
        """Return the number of current labels by the split of their questions; each person's last label of each pair
        counts once.
        """
        rows = self.connection.execute(
            "SELECT q.split, count(*) FROM judgement j JOIN question q ON q.id = j.question GROUP BY q.split"
        )
        return dict(rows.fetchall())

    def label_counts_by_person(self) -> dict[str, int]:
        """Return how many labels of each person are in force, by the same count; machines are left out."""
        rows = self.connection.execute(
            "SELECT annotator, count(*) FROM judgement GROUP BY annotator ORDER BY annotator"
        )
        return dict(rows.fetchall())

    def events(
        self, last_event: int | None = None, questions: Iterable[str] | None = None, by_people: bool = False
    ) -> Iterator[EventRow]:
        """Yield the event rows in order, up to a number; with `by_people`, without those of machines."""
        question_ids = None if questions is None else json.dumps(list(questions))
        source = (
            "label_event WHERE (?1 IS NULL OR number <= ?1) "
            "AND (?2 IS NULL OR question IN (SELECT value FROM json_each(?2))) "
            "AND (NOT ?3 OR annotator IN (SELECT name FROM annotator WHERE kind = 'person')) ORDER BY number"
        )
        return read_records(self.connection, EventRow, source, (last_event, question_ids, by_people))

    def event_rows_of(self, ids: Iterable[str]) -> list[EventRow]:
        """Return the rows of the label events with these ids, by number."""
        source = f"label_event WHERE gesture {AMONG} ORDER BY number"
        return list(read_records(self.connection, EventRow, source, (json.dumps(list(ids)),)))

    def bad_questions_as_of(self, number: int) -> set[str]:
        """Return the questions that were marked as bad when row `number` was the last one."""
        with views_as_of(self.path, number) as connection:
            rows = connection.execute(
                "SELECT DISTINCT question FROM live_event WHERE kind = 'bad_question' AND practice = 0"
            )
            return {question for (question,) in rows}

    def consensus_as_of(self, number: int) -> list[Consensus]:
        """Return the consensus as it was when row `number` was the last one."""
        with views_as_of(self.path, number) as connection:
            return list(read_records(connection, Consensus, "consensus ORDER BY question, passage"))

    def import_event_rows(self, rows: Sequence[EventRow], number_of_imported: Mapping[int, int] | None = None) -> int:
        """Add event rows that another store recorded, all or none. Return how many.

        An empty store keeps the numbers of the rows, so that exports of both stores are identical byte by byte.
        Otherwise the rows get new numbers at the end. Permissions are not checked here; they were checked when the
        event was recorded. Unknown annotators are added with the lowest role that their rows require. A question of a
        batch counts as finished if the rows label all its passages.

        Args:
            number_of_imported: Numbers of rows that the store has already: in the file, and here.

        Raises:
            Refused: A number is too large: SQLite could number no further event.
        """
        if too_large := next((row.number for row in rows if row.number is not None and row.number > MAX_NUMBER), None):
            raise Refused(f"event number {too_large} is too large; {MAX_NUMBER} is the limit. Nothing was imported")
        with store_transaction(self) as connection:
            last_before = _last_event_number(connection)
            keep_numbers = last_before == 0
            _add_annotators(connection, rows, self._clock())
            numbers = dict(number_of_imported or {})
            for row in rows:
                stored = row
                if not keep_numbers:
                    stored = replace(row, number=None, undoes=None if row.undoes is None else numbers[row.undoes])
                inserted = connection.execute(INSERT, astuple(stored)).lastrowid
                if row.number is not None and inserted is not None:
                    numbers[row.number] = inserted
            finish_imported_questions(connection, last_before, self._clock())
        return len(rows)

    def _records(
        self, record: type[T], view: str, questions: Iterable[str] | None, order: str, condition: str = "1"
    ) -> list[T]:
        """Return the rows of a view, or only those of some questions."""
        question_ids = None if questions is None else json.dumps(list(questions))
        chosen = "1" if question_ids is None else f"question {AMONG}"
        values = () if question_ids is None else (question_ids,)
        source = f"{view} WHERE {condition} AND {chosen} ORDER BY {order}"
        return list(read_records(self.connection, record, source, values))


def _last_event_number(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(number), 0) FROM label_event").fetchone()[0])


def _add_annotators(connection: sqlite3.Connection, rows: Iterable[EventRow], now: float) -> None:
    roles: dict[str, str] = {}
    people: set[str] = set()  # those of whom some label is not a machine's
    for row in rows:
        if row.guideline_version != MACHINE:
            people.add(row.annotator)
        if row.kind == "adjudicate" or row.annotator not in roles:
            roles[row.annotator] = "adjudicator" if row.kind == "adjudicate" else "annotator"
    connection.executemany(
        "INSERT OR IGNORE INTO annotator (name, role, made, kind) VALUES (?, ?, ?, ?)",
        ((name, role, now, "person" if name in people else "machine") for name, role in roles.items()),
    )
