"""The label store: append-only events are the truth, everything else is a view of them (see `db.migrations`).

Events are ordered by their number alone. A gesture may hold several events, one for each passage; an undo takes back all of
a gesture, event by event, and only what the same annotator did.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from db.connection import PerThread, connect
from db.errors import BlindspotError, Missing, Refused
from db.gestures import LABELLING, Choice, Gesture, Kind, Label, Receipt, check, read_gesture
from db.people import Person, person
from db.queue import batch_number, extend, reopen
from db.saving import saving

VIEWS = ("live_event", "judgement", "adjudication", "consensus", "corrected_relevance")
_RIGHT = {"adjudicate": "adjudicate"}  # every other kind takes the right to judge


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the store. `number` is its place in the order; `undoes` the number of the event it takes back."""

    number: int
    gesture: str
    part: int
    kind: Kind
    question: str
    passage: str | None
    annotator: str
    label: Label | None
    note: str | None
    undoes: int | None
    batch: str | None
    practice: int
    blind: int
    run: str | None
    rank: int | None
    score: float | None
    suggestion: float | None
    inclusion_probability: float | None
    milliseconds: int | None
    guideline_version: str
    client_time: float | None
    server_time: float


COLUMNS = tuple(field.name for field in fields(Event))
_UNDOES = COLUMNS.index("undoes")
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM label_event"
_INSERT = f"INSERT INTO label_event ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The label that an annotator last gave a pair, and has not taken back."""

    number: int
    question: str
    passage: str
    annotator: str
    label: Label
    batch: str | None
    blind: bool
    inclusion_probability: float | None


@dataclass(frozen=True, slots=True)
class Consensus:
    """What is held of a pair: adjudicated, else agreed by all who judged it (maybe one), else open and without a label."""

    question: str
    passage: str
    label: Label | None
    state: Literal["adjudicated", "agreed", "open"]
    people: int


@dataclass(frozen=True, slots=True)
class Relevance:
    """A pair as corrected by labels: `relevance` is the consensus, else the gold; "open" in dispute or unsure.

    state: "gold" where nobody judged it. trains: whether training may take it; never true of dev and test questions.
    """

    question: str
    passage: str
    relevance: Literal["positive", "related", "negative", "open"]
    gold: bool
    state: Literal["adjudicated", "agreed", "open", "gold"]
    people: int
    split: str
    trains: bool


class Labels(PerThread):
    """The label events of one labels.db. Threads and processes may share it.

    Args:
        passages: gives those of some passage ids that exist, as `Corpus.ordinals` does. Labels outside a batch are checked by
            it; without it they are refused. A batch's own passages were checked when it was made.
    """

    def __init__(self, path: str | Path, read_only: bool = False, passages: Callable[[Iterable[str]], Mapping[str, Any]] | None = None,
                 clock: Callable[[], float] = time.time):
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
            return self._store(connection, annotator, gesture)

    def take(self, annotator: str, outbox: Sequence[Gesture | Mapping[str, Any]]) -> list[Receipt]:
        """Store what a browser has not seen acknowledged, in its order, in one transaction. One that is refused stops no other.

        Raises:
            NotSaved: the disk took nothing; none is stored.
        """
        if not outbox:
            return []
        with saving(self) as connection:
            return [self._receipt(connection, annotator, each) for each in outbox]

    def _receipt(self, connection: sqlite3.Connection, annotator: str, each: Gesture | Mapping[str, Any]) -> Receipt:
        id = each.id if isinstance(each, Gesture) else str(each.get("id", "")) if isinstance(each, Mapping) else ""
        connection.execute("SAVEPOINT gesture")
        try:
            gesture = each if isinstance(each, Gesture) else read_gesture(each)
            check(gesture)
            receipt = self._store(connection, annotator, gesture)
        except (BlindspotError, sqlite3.IntegrityError) as error:
            connection.execute("ROLLBACK TO gesture")
            receipt = Receipt(id, "refused", str(error))
        connection.execute("RELEASE gesture")
        return receipt

    def _store(self, connection: sqlite3.Connection, annotator: str, gesture: Gesture) -> Receipt:
        known = _events(connection, "WHERE gesture = ? ORDER BY part", (gesture.id,))
        if known:
            _refuse_other(connection, known, annotator, gesture)
            return Receipt(gesture.id, "known")
        who, now = person(connection, annotator), self._clock()
        right = _RIGHT.get(gesture.kind, "judge")
        if not who.may(right):
            raise Refused(f"{annotator} is an {who.role} and may not {right}; ask an adjudicator or a lead")
        if connection.execute("SELECT 1 FROM question WHERE id = ?", (gesture.question,)).fetchone() is None:
            raise Missing(f"there is no question {gesture.question!r} in this study")
        if gesture.kind == "undo":
            events = _undo_events(connection, annotator, gesture, now)
            _after_undo(connection, events[0], now)
        else:
            events = self._new_events(connection, who, gesture, now)
        connection.executemany(_INSERT, map(astuple, events))
        return Receipt(gesture.id, "stored")

    def _new_events(self, connection: sqlite3.Connection, who: Person, gesture: Gesture, now: float) -> list[Event]:
        batch, practice, shown = None, 0, {}
        if gesture.batch is not None:
            batch = batch_number(connection, gesture.batch)
            practice, shown = _batch_item(connection, batch, gesture)
            extend(connection, batch, gesture.question, who.name, now)
        elif gesture.choices:
            self._refuse_strangers(gesture)
        _refuse_paused(connection, who, batch, gesture)
        # An event without a passage is one too: a bad question, a note.
        return [_event(gesture, part, choice, who.name, practice, shown.get(choice.passage) if choice else None, now)
                for part, choice in enumerate(gesture.choices or (None,))]

    def _refuse_strangers(self, gesture: Gesture) -> None:
        ids = [choice.passage for choice in gesture.choices]
        known = self._passages(ids) if self._passages is not None else {}
        if absent := next((id for id in ids if id not in known), None):
            raise Missing(f"there is no passage {absent!r} in this study")

    def known(self, ids: Iterable[str]) -> set[str]:
        """Those of the gesture ids that are stored."""
        rows = self.connection.execute("SELECT DISTINCT gesture FROM label_event WHERE gesture IN (SELECT value FROM json_each(?))",
                                       (json.dumps(list(ids)),))
        return {row[0] for row in rows}

    def undoable(self, annotator: str, count: int = 50) -> list[Gesture]:
        """The annotator's last gestures that can be taken back, the last first: what `Z` means after a reload."""
        rows = self.connection.execute(
            "SELECT gesture, kind, question, batch, note, blind, guideline_version, "
            "json_group_array(json_array(passage, label)) FROM (SELECT * FROM live_event WHERE annotator = ? ORDER BY number) "
            "GROUP BY gesture ORDER BY max(number) DESC LIMIT ?", (annotator, count))
        return [Gesture(id, kind, question, tuple(Choice(passage, label) for passage, label in json.loads(choices) if passage), note,
                        None, batch, bool(blind), version)
                for id, kind, question, batch, note, blind, version, choices in rows]

    def given(self, annotator: str, questions: Iterable[str], batch: str | None = None) -> dict[str, dict[str, Label]]:
        """The labels, by question and passage, that the annotator gave in this batch (outside any: None) and has not taken back.

        Labels of other batches are left out: a repeat is judged afresh.
        """
        rows = self.connection.execute(
            "SELECT question, passage, label FROM live_event WHERE annotator = ? AND question IN (SELECT value FROM json_each(?)) "
            "AND batch IS ? AND kind = 'label' ORDER BY number", (annotator, json.dumps(list(questions)), batch))
        labels: dict[str, dict[str, Label]] = {}
        for question, passage, label in rows:
            labels.setdefault(question, {})[passage] = label
        return labels

    def judgements(self, questions: Iterable[str] | None = None) -> list[Judgement]:
        """By number. Practice is none."""
        rows = self._view("number, question, passage, annotator, label, batch, blind, inclusion_probability", "judgement", questions,
                          "number")
        return [Judgement(*row[:6], bool(row[6]), row[7]) for row in rows]

    def consensus(self, questions: Iterable[str] | None = None) -> list[Consensus]:
        """Of every judged pair, by question and passage."""
        rows = self._view("question, passage, label, state, people", "consensus", questions, "question, passage")
        return [Consensus(*row) for row in rows]

    def corrected(self, questions: Iterable[str] | None = None, training: bool = False) -> list[Relevance]:
        """Of every pair of gold or judged. `training`: only those of questions that may train; dev and test never do."""
        columns = "question, passage, relevance, gold, state, people, split, trains"
        rows = self._view(columns, "corrected_relevance", questions, "question, passage", "trains = 1" if training else "1")
        return [Relevance(*row[:3], bool(row[3]), *row[4:7], bool(row[7])) for row in rows]

    def bad_questions(self) -> dict[str, list[str]]:
        """The questions that somebody calls bad, with who."""
        found: dict[str, list[str]] = {}
        rows = self.connection.execute("SELECT DISTINCT question, annotator FROM live_event WHERE kind = 'bad_question' AND practice = 0 "
                                       "ORDER BY question, annotator")
        for question, annotator in rows:
            found.setdefault(question, []).append(annotator)
        return found

    def notes(self, question: str) -> list[Event]:
        """What people wrote about a question, or about a passage of it, and have not taken back."""
        rows = self.connection.execute(
            f"SELECT {', '.join(COLUMNS)} FROM live_event WHERE question = ? AND note IS NOT NULL ORDER BY number", (question,))
        return [Event(*row) for row in rows]

    @property
    def last_event(self) -> int:
        """The number of the newest event; 0 where there is none. Numbers may skip: never count by them."""
        return self.connection.execute("SELECT coalesce(max(number), 0) FROM label_event").fetchone()[0]

    def events(self, until: int | None = None, questions: Iterable[str] | None = None) -> Iterator[Event]:
        """The events up to a number, in order."""
        wanted = None if questions is None else json.dumps(list(questions))
        rows = self.connection.execute(
            f"{_SELECT} WHERE (?1 IS NULL OR number <= ?1) "
            "AND (?2 IS NULL OR question IN (SELECT value FROM json_each(?2))) ORDER BY number",
            (until, wanted))
        return (Event(*row) for row in rows)

    def gestures(self, ids: Iterable[str]) -> list[Event]:
        """The events of some gestures, by number."""
        return _events(self.connection, "WHERE gesture IN (SELECT value FROM json_each(?)) ORDER BY number", (json.dumps(list(ids)),))

    def consensus_as_of(self, number: int) -> list[Consensus]:
        """The consensus as it was when the event `number` was the last."""
        with as_of(self.path, number) as connection:
            rows = connection.execute("SELECT question, passage, label, state, people FROM consensus ORDER BY question, passage")
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
                numbers[event.number] = connection.execute(_INSERT, values).lastrowid
        return len(events)

    def _view(self, columns: str, view: str, questions: Iterable[str] | None, order: str, condition: str = "1") -> list[tuple]:
        wanted = None if questions is None else json.dumps(list(questions))
        where = condition if wanted is None else f"{condition} AND question IN (SELECT value FROM json_each(?))"
        values = () if wanted is None else (wanted,)
        return self.connection.execute(f"SELECT {columns} FROM {view} WHERE {where} ORDER BY {order}", values).fetchall()


@contextmanager
def as_of(path: str | Path, number: int) -> Iterator[sqlite3.Connection]:
    """A connection on which the views show the store as it was when event `number` was the last.

    A temporary view takes the place of the table of events; the other views are made again over it from their own definitions.
    """
    connection = connect(path, read_only=True)
    try:
        connection.execute(f"CREATE TEMP VIEW label_event AS SELECT * FROM main.label_event WHERE number <= {int(number)}")
        for view in VIEWS:
            sql = connection.execute("SELECT sql FROM main.sqlite_master WHERE type = 'view' AND name = ?", (view,)).fetchone()[0]
            connection.execute(sql.replace("CREATE VIEW", "CREATE TEMP VIEW", 1))
        yield connection
    finally:
        connection.close()


def _events(connection: sqlite3.Connection, where: str, values: tuple) -> list[Event]:
    return [Event(*row) for row in connection.execute(f"{_SELECT} {where}", values)]


def _refuse_other(connection: sqlite3.Connection, known: list[Event], annotator: str, gesture: Gesture) -> None:
    """A gesture sent again must say the same. How long it took, and what was shown, may be told otherwise: the first counts."""
    first = known[0]
    undone = {row[0] for event in known if event.undoes is not None
              for row in connection.execute("SELECT gesture FROM label_event WHERE number = ?", (event.undoes,))}
    same = (first.annotator, first.kind, first.question) == (annotator, gesture.kind, gesture.question)
    if gesture.kind == "undo":
        same = same and undone == {gesture.undoes}
    else:
        before = {(event.passage, event.label) for event in known if event.passage is not None}
        now = {(choice.passage, choice.label) for choice in gesture.choices}
        same = same and (before, first.note, first.batch) == (now, gesture.note, gesture.batch)
    if not same:
        raise Refused(f"the id {gesture.id!r} was used before for something else; nothing was stored of this gesture")


def _undo_events(connection: sqlite3.Connection, annotator: str, gesture: Gesture, now: float) -> list[Event]:
    undone = _events(connection, "WHERE gesture = ? ORDER BY part", (gesture.undoes,))
    if not undone:
        raise Refused(f"there is no gesture {gesture.undoes!r} to take back")
    if undone[0].annotator != annotator:
        raise Refused("this was somebody else's gesture; only they can take it back")
    if undone[0].kind == "undo":
        raise Refused("an undo cannot be taken back; give the label again")
    if undone[0].question != gesture.question:
        raise Refused(f"the gesture {gesture.undoes!r} was about another question; nothing was taken back")
    if connection.execute("SELECT 1 FROM label_event WHERE undoes = ?", (undone[0].number,)).fetchone():
        raise Refused(f"the gesture {gesture.undoes!r} was taken back before")
    return [
        Event(None, gesture.id, part, "undo", event.question, event.passage, annotator, None, None, event.number, event.batch,
              event.practice, int(gesture.blind), None, None, None, None, None, gesture.milliseconds, gesture.guideline_version,
              gesture.client_time, now)
        for part, event in enumerate(undone)
    ]


def _after_undo(connection: sqlite3.Connection, event: Event, now: float) -> None:
    row = connection.execute("SELECT number FROM batch WHERE name = ?", (event.batch,)).fetchone()
    if row:
        extend(connection, row[0], event.question, event.annotator, now)
        reopen(connection, row[0], event.question, event.annotator, now)


def _batch_item(connection: sqlite3.Connection, batch: int, gesture: Gesture) -> tuple[int, dict[str, tuple]]:
    """Whether the batch is practice, and (run, rank, score, inclusion probability) of the question's candidates in it."""
    row = connection.execute("SELECT b.practice FROM batch_question i JOIN batch b ON b.number = i.batch "
                             "WHERE i.batch = ? AND i.question = ?", (batch, gesture.question)).fetchone()
    if row is None:
        raise Missing(f"batch {gesture.batch!r} holds no question {gesture.question!r}")
    rows = connection.execute("SELECT passage, run, rank, score, inclusion_probability FROM candidate WHERE batch = ? AND question = ?",
                              (batch, gesture.question))
    shown = {passage: rest for passage, *rest in rows}
    if absent := next((choice.passage for choice in gesture.choices if choice.passage not in shown), None):
        raise Missing(f"passage {absent!r} is not among those of question {gesture.question!r} in batch {gesture.batch!r}")
    return row[0], shown


def _refuse_paused(connection: sqlite3.Connection, who: Person, batch: int | None, gesture: Gesture) -> None:
    """Of somebody paused is taken only what belongs to a question they were given: it may have been on its way."""
    if not who.paused:
        return
    given = connection.execute("SELECT 1 FROM lease WHERE batch = ? AND question = ? AND annotator = ?",
                               (batch, gesture.question, who.name)).fetchone()
    if given is None:
        raise Refused(f"{who.name} is paused; ask a lead")


def _event(gesture: Gesture, part: int, choice: Choice | None, annotator: str, practice: int, shown: Sequence | None, now: float) -> Event:
    passage = label = run = rank = score = suggestion = inclusion = None
    if choice is not None:
        passage, label, suggestion = choice.passage, choice.label, choice.suggestion
        run, rank, score, inclusion = shown or (None, None, None, None)
        run, rank, score = (mine if mine is not None else theirs
                            for mine, theirs in ((choice.run, run), (choice.rank, rank), (choice.score, score)))
    return Event(None, gesture.id, part, gesture.kind, gesture.question, passage, annotator, label, gesture.note, None, gesture.batch,
                 practice, int(gesture.blind), run, rank, score, suggestion, inclusion if gesture.kind in LABELLING else None,
                 gesture.milliseconds, gesture.guideline_version, gesture.client_time, now)


def _add_people(connection: sqlite3.Connection, events: Iterable[Event], now: float) -> None:
    roles: dict[str, str] = {}
    for event in events:
        if event.kind == "adjudicate" or event.annotator not in roles:
            roles[event.annotator] = "adjudicator" if event.kind == "adjudicate" else "annotator"
    connection.executemany("INSERT OR IGNORE INTO annotator (name, role, made) VALUES (?, ?, ?)",
                           ((name, role, now) for name, role in roles.items()))
