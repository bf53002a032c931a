"""Storing one gesture inside the caller's transaction: what is refused, and the events that it becomes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

from db.blindness import is_hidden, judged_before
from db.errors import Missing, Refused
from db.events import INSERT, Event, events_where
from db.gestures import LABELLING, Choice, Gesture, Receipt
from db.leases import batch_number, extend, reopen
from db.people import Person, person, refusal

Passages = Callable[[Iterable[str]], Mapping[str, Any]]
_ACTIONS = {"adjudicate": "adjudicate"}  # every other kind of gesture is the action "judge"


def store_gesture(
    connection: sqlite3.Connection,
    annotator: str,
    gesture: Gesture,
    passages: Passages | None,
    now: float,
    from_browser: bool = False,
) -> Receipt:
    """Store a gesture, all of it or nothing.

    Args:
        passages: gives those of some passage ids that exist; asked outside batches.
        from_browser: the gesture came from a browser. It is then refused for a question of a batch that the annotator was never
            given, and outside batches for a question that is hidden from them. The store says whether it was blind.

    Raises: Missing, Refused.
    """
    known = events_where(connection, "WHERE gesture = ? ORDER BY part", (gesture.id,))
    if known:
        _refuse_other(connection, known, annotator, gesture)
        return Receipt(gesture.id, "known")
    if connection.execute("SELECT 1 FROM queue_act WHERE gesture = ?", (gesture.id,)).fetchone():
        raise Refused(used_before(gesture.id))
    who = person(connection, annotator)
    action = _ACTIONS.get(gesture.kind, "judge")
    if not who.may(action):
        raise Refused(refusal(who, action))
    if connection.execute("SELECT 1 FROM question WHERE id = ?", (gesture.question,)).fetchone() is None:
        raise Missing(f"there is no question {gesture.question!r} in this study")
    if from_browser and gesture.kind != "undo":
        gesture = _as_given(connection, who, gesture, now)
    if gesture.kind == "undo":
        _refuse_paused_undo(connection, who, gesture, now)
        events = _undo_events(connection, annotator, gesture, now)
        _after_undo(connection, events[0], now)
    else:
        events = _new_events(connection, who, gesture, passages, now)
    connection.executemany(INSERT, map(astuple, events))
    return Receipt(gesture.id, "stored")


def _as_given(connection: sqlite3.Connection, who: Person, gesture: Gesture, now: float) -> Gesture:
    """The gesture with what the store knows of it. Raises Missing, Refused for a question that was not the annotator's to judge."""
    if gesture.batch is None:
        if is_hidden(connection, who, gesture.question, now):
            raise Refused(
                f"question {gesture.question!r} is one that {who.name} has still to judge in a batch; judge it on the Judge page"
            )
        return replace(gesture, blind=False)
    batch = batch_number(connection, gesture.batch)
    if gesture.kind == "adjudicate":
        raise Refused("a passage is adjudicated outside batches; nothing was stored of this gesture")
    if not _was_given(connection, batch, gesture.question, who.name):
        raise Refused(
            f"question {gesture.question!r} of batch {gesture.batch!r} was not given to {who.name}; nothing was stored of it"
        )
    return replace(gesture, blind=not judged_before(connection, who.name, batch, gesture.question))


def _was_given(connection: sqlite3.Connection, batch: int, question: str, name: str) -> bool:
    """Whether the queue ever gave a question of a batch to a person."""
    row = connection.execute(
        "SELECT 1 FROM lease WHERE batch = ?1 AND question = ?2 AND annotator = ?3 UNION ALL "
        "SELECT 1 FROM queue_act WHERE batch = ?1 AND question = ?2 AND annotator = ?3 LIMIT 1",
        (batch, question, name),
    ).fetchone()
    return row is not None


def used_before(id: str) -> str:
    return f"the id {id!r} was used before for something else; nothing was stored of this gesture"


def _new_events(
    connection: sqlite3.Connection, who: Person, gesture: Gesture, passages: Passages | None, now: float
) -> list[Event]:
    batch, practice, shown = None, 0, {}
    if gesture.batch is not None:
        batch = batch_number(connection, gesture.batch)
        practice, shown = _batch_item(connection, batch, gesture)
    elif gesture.choices:
        _refuse_strangers(gesture, passages)
    if who.paused:
        _refuse_paused(connection, who.name, batch, gesture.question, now)
    elif batch is not None:
        extend(connection, batch, gesture.question, who.name, now)
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
            event.blind,
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
        if not person(connection, event.annotator).paused:
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


def _refuse_paused(connection: sqlite3.Connection, name: str, batch: int | None, question: str, now: float) -> None:
    """Raise Refused unless a paused person still holds the question: only then may the gesture have been on its way."""
    held = connection.execute(
        "SELECT 1 FROM lease WHERE batch = ? AND question = ? AND annotator = ? AND state = 'held' AND expires > ?",
        (batch, question, name, now),
    ).fetchone()
    if held is None:
        raise Refused(f"{name} is paused; ask a lead")


def _refuse_paused_undo(connection: sqlite3.Connection, who: Person, gesture: Gesture, now: float) -> None:
    if not who.paused:
        return
    row = connection.execute(
        "SELECT b.number FROM label_event e LEFT JOIN batch b ON b.name = e.batch WHERE e.gesture = ?",
        (gesture.undoes,),
    ).fetchone()
    _refuse_paused(connection, who.name, row and row[0], gesture.question, now)


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
        # In a batch the candidate says where the passage was found; the gesture is not asked.
        run, rank, score, inclusion = shown or (choice.run, choice.rank, choice.score, None)
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
