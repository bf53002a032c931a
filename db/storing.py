"""Storing one gesture inside the caller's transaction: what is refused, and the events that it becomes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from db.errors import Missing, Refused
from db.events import INSERT, Event, events_where
from db.gestures import LABELLING, Choice, Gesture, Receipt
from db.leases import batch_number, extend, reopen
from db.people import Person, person

Passages = Callable[[Iterable[str]], Mapping[str, Any]]
_RIGHT = {"adjudicate": "adjudicate"}  # every other kind takes the right to judge


def store_gesture(
    connection: sqlite3.Connection, annotator: str, gesture: Gesture, passages: Passages | None, now: float
) -> Receipt:
    """Store a gesture, all of it or nothing.

    Args:
        passages: gives those of some passage ids that exist; asked outside batches.

    Raises: Missing, Refused.
    """
    known = events_where(connection, "WHERE gesture = ? ORDER BY part", (gesture.id,))
    if known:
        _refuse_other(connection, known, annotator, gesture)
        return Receipt(gesture.id, "known")
    if connection.execute("SELECT 1 FROM queue_act WHERE gesture = ?", (gesture.id,)).fetchone():
        raise Refused(used_before(gesture.id))
    who = person(connection, annotator)
    right = _RIGHT.get(gesture.kind, "judge")
    if not who.may(right):
        raise Refused(f"{annotator} is an {who.role} and may not {right}; ask an adjudicator or a lead")
    if connection.execute("SELECT 1 FROM question WHERE id = ?", (gesture.question,)).fetchone() is None:
        raise Missing(f"there is no question {gesture.question!r} in this study")
    if gesture.kind == "undo":
        events = _undo_events(connection, annotator, gesture, now)
        _after_undo(connection, events[0], now)
    else:
        events = _new_events(connection, who, gesture, passages, now)
    connection.executemany(INSERT, map(astuple, events))
    return Receipt(gesture.id, "stored")


def used_before(id: str) -> str:
    return f"the id {id!r} was used before for something else; nothing was stored of this gesture"


def _new_events(
    connection: sqlite3.Connection, who: Person, gesture: Gesture, passages: Passages | None, now: float
) -> list[Event]:
    batch, practice, shown = None, 0, {}
    if gesture.batch is not None:
        batch = batch_number(connection, gesture.batch)
        practice, shown = _batch_item(connection, batch, gesture)
        extend(connection, batch, gesture.question, who.name, now)
    elif gesture.choices:
        _refuse_strangers(gesture, passages)
    _refuse_paused(connection, who, batch, gesture)
    # An event without a passage is one too: a bad question, a note.
    return [
        _event(gesture, part, choice, who.name, practice, shown.get(choice.passage) if choice else None, now)
        for part, choice in enumerate(gesture.choices or (None,))
    ]


def _refuse_strangers(gesture: Gesture, passages: Passages | None) -> None:
    ids = [choice.passage for choice in gesture.choices]
    known = passages(ids) if passages is not None else {}
    if absent := next((id for id in ids if id not in known), None):
        raise Missing(f"there is no passage {absent!r} in this study")


def _refuse_other(connection: sqlite3.Connection, known: list[Event], annotator: str, gesture: Gesture) -> None:
    """A gesture sent again must say the same. How long it took, and what was shown, may be told otherwise: the first counts."""
    first = known[0]
    undone = {
        row[0]
        for event in known
        if event.undoes is not None
        for row in connection.execute("SELECT gesture FROM label_event WHERE number = ?", (event.undoes,))
    }
    same = (first.annotator, first.kind, first.question) == (annotator, gesture.kind, gesture.question)
    if gesture.kind == "undo":
        same = same and undone == {gesture.undoes}
    else:
        before = {(event.passage, event.label) for event in known if event.passage is not None}
        now = {(choice.passage, choice.label) for choice in gesture.choices}
        same = same and (before, first.note, first.batch) == (now, gesture.note, gesture.batch)
    if not same:
        raise Refused(used_before(gesture.id))


def _undo_events(connection: sqlite3.Connection, annotator: str, gesture: Gesture, now: float) -> list[Event]:
    undone = events_where(connection, "WHERE gesture = ? ORDER BY part", (gesture.undoes,))
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
        Event(
            None,
            gesture.id,
            part,
            "undo",
            event.question,
            event.passage,
            annotator,
            None,
            None,
            event.number,
            event.batch,
            event.practice,
            int(gesture.blind),
            None,
            None,
            None,
            None,
            None,
            gesture.milliseconds,
            gesture.guideline_version,
            gesture.client_time,
            now,
        )
        for part, event in enumerate(undone)
    ]


def _after_undo(connection: sqlite3.Connection, event: Event, now: float) -> None:
    row = connection.execute("SELECT number FROM batch WHERE name = ?", (event.batch,)).fetchone()
    if row:
        extend(connection, row[0], event.question, event.annotator, now)
        reopen(connection, row[0], event.question, event.annotator, now)


def _batch_item(connection: sqlite3.Connection, batch: int, gesture: Gesture) -> tuple[int, dict[str, tuple]]:
    """Whether the batch is practice, and (run, rank, score, inclusion probability) of the question's candidates in it."""
    row = connection.execute(
        "SELECT b.practice FROM batch_question i JOIN batch b ON b.number = i.batch "
        "WHERE i.batch = ? AND i.question = ?",
        (batch, gesture.question),
    ).fetchone()
    if row is None:
        raise Missing(f"batch {gesture.batch!r} holds no question {gesture.question!r}")
    rows = connection.execute(
        "SELECT passage, run, rank, score, inclusion_probability FROM candidate WHERE batch = ? AND question = ?",
        (batch, gesture.question),
    )
    shown = {passage: rest for passage, *rest in rows}
    if absent := next((choice.passage for choice in gesture.choices if choice.passage not in shown), None):
        raise Missing(
            f"passage {absent!r} is not among those of question {gesture.question!r} in batch {gesture.batch!r}"
        )
    return row[0], shown


def _refuse_paused(connection: sqlite3.Connection, who: Person, batch: int | None, gesture: Gesture) -> None:
    """Of somebody paused is taken only what belongs to a question they were given: it may have been on its way."""
    if not who.paused:
        return
    given = connection.execute(
        "SELECT 1 FROM lease WHERE batch = ? AND question = ? AND annotator = ?", (batch, gesture.question, who.name)
    ).fetchone()
    if given is None:
        raise Refused(f"{who.name} is paused; ask a lead")


def _event(
    gesture: Gesture,
    part: int,
    choice: Choice | None,
    annotator: str,
    practice: int,
    shown: Sequence | None,
    now: float,
) -> Event:
    passage = label = run = rank = score = suggestion = inclusion = None
    if choice is not None:
        passage, label, suggestion = choice.passage, choice.label, choice.suggestion
        run, rank, score, inclusion = shown or (None, None, None, None)
        run, rank, score = (
            mine if mine is not None else theirs
            for mine, theirs in ((choice.run, run), (choice.rank, rank), (choice.score, score))
        )
    return Event(
        None,
        gesture.id,
        part,
        gesture.kind,
        gesture.question,
        passage,
        annotator,
        label,
        gesture.note,
        None,
        gesture.batch,
        practice,
        int(gesture.blind),
        run,
        rank,
        score,
        suggestion,
        inclusion if gesture.kind in LABELLING else None,
        gesture.milliseconds,
        gesture.guideline_version,
        gesture.client_time,
        now,
    )
