"""Store one annotation event inside the caller's transaction: check the event against the study, and write its rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, replace
from typing import Any, NamedTuple

from blindspot.db import leases
from blindspot.db.connection import insert
from blindspot.db.errors import Forbidden, Missing, Refused
from blindspot.db.events import (
    COLUMNS,
    INSERT,
    LABELLING,
    Choice,
    EventRow,
    LabelEvent,
    QueueEvent,
    Receipt,
    rows_where,
)
from blindspot.db.leases import SKIPS_FOR_GOOD, batch_number, extend_lease, reopen
from blindspot.db.people import Person, person, refusal

Passages = Callable[[Iterable[str]], Mapping[str, Any]]
SURPLUS = "others have finished this question meanwhile; your labels are saved as surplus"


class _CandidateOrigin(NamedTuple):
    """What a batch stores about a candidate passage: the run in which it ranks best, its rank and score there, and its
    inclusion probability.
    """

    run: str | None
    rank: int | None
    score: float | None
    inclusion_probability: float | None


def write_label_event(
    connection: sqlite3.Connection,
    annotator: str,
    event: LabelEvent,
    passages: Passages | None,
    now: float,
    from_browser: bool = False,
) -> Receipt:
    """Store a label event: all its rows or none.

    Args:
        passages: Returns those of some passage ids that exist. Called for events outside batches.
        from_browser: Refuse a question of a batch that the queue never gave to the annotator, and outside batches
            everybody who sees Judge alone. Decide here whether the label is blind.

    Raises:
        Missing: The event names something that does not exist.
        Refused: The annotator may not do this, or the id was used for another event.
    """
    if _is_stored(connection, annotator, event):
        return Receipt(event.id, "known")
    annotating = person(connection, annotator)
    if annotating.kind == "machine":
        raise Refused(f"{annotator} is a machine; its labels are imported")
    action = "adjudicate" if event.kind == "adjudicate" else "judge"
    if not annotating.is_allowed(action):
        raise Forbidden(refusal(annotating, action))
    _refuse_unknown_question(connection, event)
    if from_browser and event.kind != "undo":
        event = _with_stored_blindness(connection, annotating, event)
    if event.kind == "undo":
        if annotating.paused:
            _refuse_paused_undo(connection, annotating, event, now)
        rows = _undo_rows(connection, annotator, event, now)
        _reopen_after_undo(connection, rows[0], now)
    else:
        rows = _label_rows(connection, annotating, event, passages, now)
    connection.executemany(INSERT, map(astuple, rows))
    return Receipt(event.id, "stored")


def write_queue_event(connection: sqlite3.Connection, annotator: str, event: QueueEvent, now: float) -> Receipt:
    """Finish, skip or reopen a question, unless the store already has the event.

    An event that changes nothing (a second finish) is "known". The store records the event anyway, so that it cannot
    finish the question if it arrives again after the question was reopened.

    Raises:
        Missing, Refused: See `blindspot.db.leases`.
    """
    row = connection.execute(
        "SELECT a.annotator, a.kind, a.question, b.name, a.surplus FROM queue_act a "
        "JOIN batch b ON b.number = a.batch WHERE a.gesture = ?",
        (event.id,),
    ).fetchone()
    if row is not None:
        if row[:4] != (annotator, event.kind, event.question, event.batch):
            raise Refused(_duplicate_id_message(event.id))
        return Receipt(event.id, "known", SURPLUS if row[4] else "")
    if connection.execute("SELECT 1 FROM label_event WHERE gesture = ? LIMIT 1", (event.id,)).fetchone():
        raise Refused(_duplicate_id_message(event.id))
    person(connection, annotator)
    surplus = False
    if event.kind == "finish":
        is_new, surplus = leases.finish(connection, annotator, event.batch, event.question, now)
    elif event.kind == "skip":
        is_new = leases.skip(connection, annotator, event.batch, event.question)
    else:
        is_new = leases.reopen_by_annotator(connection, annotator, event.batch, event.question, now)
    insert(
        connection,
        "queue_act",
        gesture=event.id,
        kind=event.kind,
        batch=batch_number(connection, event.batch),
        question=event.question,
        annotator=annotator,
        surplus=int(surplus),
        milliseconds=event.milliseconds,
        client_time=event.client_time,
        server_time=now,
    )
    return Receipt(event.id, "stored" if is_new else "known", SURPLUS if surplus else "")


def _is_stored(connection: sqlite3.Connection, annotator: str, event: LabelEvent) -> bool:
    """Return whether the store has the event. Raises Refused if the store has a different event with this id."""
    stored = rows_where(connection, "WHERE gesture = ? ORDER BY part", (event.id,))
    if stored:
        _refuse_other_content(connection, stored, annotator, event)
    elif connection.execute("SELECT 1 FROM queue_act WHERE gesture = ?", (event.id,)).fetchone():
        raise Refused(_duplicate_id_message(event.id))
    return bool(stored)


def _refuse_unknown_question(connection: sqlite3.Connection, event: LabelEvent) -> None:
    if connection.execute("SELECT 1 FROM question WHERE id = ?", (event.question,)).fetchone() is None:
        raise Missing(f"there is no question {event.question!r} in this study")


def _with_stored_blindness(connection: sqlite3.Connection, person: Person, event: LabelEvent) -> LabelEvent:
    """Return a browser's event with the value of `blind` that the store knows to be true.

    Raises:
        Missing: The event names a batch that does not exist.
        Refused: The question was not the annotator's to judge.
    """
    name = person.name
    if event.batch is None:
        if not person.is_allowed("see results"):
            raise Refused(f"question {event.question!r} was not given to {name}; judge it on the Judge page")
        return replace(event, blind=False)
    if event.kind == "adjudicate":
        raise Refused("passages are adjudicated outside batches; nothing was stored of this event")
    batch = batch_number(connection, event.batch)
    if not _was_leased(connection, batch, event.question, name):
        raise Refused(
            f"question {event.question!r} of batch {event.batch!r} was not given to {name}; nothing was stored of "
            "this event"
        )
    return replace(event, blind=not _judged_before(connection, person, batch, event.question))


def _judged_before(connection: sqlite3.Connection, person: Person, batch: int, question: str) -> bool:
    """Return whether a person has finished or skipped a question of a batch, and so may have seen its results.

    An annotator, who sees Judge alone, gets a question that they skipped once again.
    """
    skips = 0 if person.is_allowed("see results") else SKIPS_FOR_GOOD - 1
    row = connection.execute(
        "SELECT 1 FROM lease WHERE batch = ?1 AND question = ?2 AND annotator = ?3 "
        "AND (state = 'finished' OR skips > ?4) UNION ALL "
        "SELECT 1 FROM queue_act WHERE batch = ?1 AND question = ?2 AND annotator = ?3 AND kind = 'finish' LIMIT 1",
        (batch, question, person.name, skips),
    ).fetchone()
    return row is not None


def _was_leased(connection: sqlite3.Connection, batch: int, question: str, name: str) -> bool:
    """Return whether the queue ever gave a question of a batch to a person."""
    row = connection.execute(
        "SELECT 1 FROM lease WHERE batch = ?1 AND question = ?2 AND annotator = ?3 UNION ALL "
        "SELECT 1 FROM queue_act WHERE batch = ?1 AND question = ?2 AND annotator = ?3 LIMIT 1",
        (batch, question, name),
    ).fetchone()
    return row is not None


def _duplicate_id_message(id: str) -> str:
    return f"the id {id!r} was already used for another event; this event was not stored"


def _label_rows(
    connection: sqlite3.Connection, person: Person, event: LabelEvent, passages: Passages | None, now: float
) -> list[EventRow]:
    batch, practice = None, 0
    candidates: dict[str, _CandidateOrigin] = {}
    if event.batch is not None:
        batch = batch_number(connection, event.batch)
        practice, candidates = _batch_item(connection, batch, event)
    elif event.choices:
        _refuse_unknown_passages(event, passages)
    if person.paused:
        _refuse_paused(connection, person.name, batch, event.question, now)
    elif batch is not None:
        extend_lease(connection, batch, event.question, person.name, now)
    template = _event_row(
        event, now, annotator=person.name, note=event.note, batch=event.batch, practice=practice, blind=int(event.blind)
    )
    if not event.choices:  # a bad question or a note on a question is one row without a passage
        return [template]
    return [
        _choice_row(replace(template, part=part), choice, candidates.get(choice.passage))
        for part, choice in enumerate(event.choices)
    ]


def _event_row(event: LabelEvent, now: float, **columns: Any) -> EventRow:
    """Return the first row of an event, with some columns more. All others are empty."""
    of_event = {
        "gesture": event.id,
        "part": 0,
        "kind": event.kind,
        "question": event.question,
        "milliseconds": event.milliseconds,
        "guideline_version": event.guideline_version,
        "client_time": event.client_time,
        "server_time": now,
    }
    return EventRow(**{**dict.fromkeys(COLUMNS), **of_event, **columns})


def _choice_row(template: EventRow, choice: Choice, candidate: _CandidateOrigin | None) -> EventRow:
    """Return the row of one passage. A batch knows in which run its candidates rank, so it overrules the event."""
    origin = candidate or _CandidateOrigin(choice.run, choice.rank, choice.score, None)
    return replace(
        template,
        passage=choice.passage,
        label=choice.label,
        run=origin.run,
        rank=origin.rank,
        score=origin.score,
        suggestion=choice.suggestion,
        inclusion_probability=origin.inclusion_probability if template.kind in LABELLING else None,
    )


def _refuse_unknown_passages(event: LabelEvent, passages: Passages | None) -> None:
    ids = [choice.passage for choice in event.choices]
    known = passages(ids) if passages is not None else {}
    if absent := next((id for id in ids if id not in known), None):
        raise Missing(f"there is no passage {absent!r} in this study")


def _refuse_other_content(
    connection: sqlite3.Connection, stored_rows: list[EventRow], annotator: str, event: LabelEvent
) -> None:
    """Refuse an event whose id the store has with different content. The time and the page's contents may differ; those
    of the first event are kept.
    """
    first = stored_rows[0]
    same = (first.annotator, first.kind, first.question) == (annotator, event.kind, event.question)
    if event.kind == "undo":
        undone = {
            row[0]
            for stored_row in stored_rows
            if stored_row.undoes is not None
            for row in connection.execute("SELECT gesture FROM label_event WHERE number = ?", (stored_row.undoes,))
        }
        same = same and undone == {event.undoes}
    else:
        before = {(row.passage, row.label) for row in stored_rows if row.passage is not None}
        now = {(choice.passage, choice.label) for choice in event.choices}
        same = same and (before, first.note, first.batch) == (now, event.note, event.batch)
    if not same:
        raise Refused(_duplicate_id_message(event.id))


def _undo_rows(connection: sqlite3.Connection, annotator: str, event: LabelEvent, now: float) -> list[EventRow]:
    undone = rows_where(connection, "WHERE gesture = ? ORDER BY part", (event.undoes,))
    if not undone:
        raise Refused(f"there is no event {event.undoes!r} to undo")
    if undone[0].annotator != annotator:
        raise Refused("this was somebody else's event; only they can undo it")
    if undone[0].kind == "undo":
        raise Refused("an undo cannot be undone; give the label again")
    if undone[0].question != event.question:
        raise Refused(f"the event {event.undoes!r} was about another question; nothing was undone")
    if connection.execute("SELECT 1 FROM label_event WHERE undoes = ?", (undone[0].number,)).fetchone():
        raise Refused(f"the event {event.undoes!r} was undone before")
    return [
        _event_row(
            event,
            now,
            part=part,
            passage=row.passage,
            annotator=row.annotator,
            undoes=row.number,
            batch=row.batch,
            practice=row.practice,
            blind=row.blind,
        )
        for part, row in enumerate(undone)
    ]


def _reopen_after_undo(connection: sqlite3.Connection, undo: EventRow, now: float) -> None:
    row = connection.execute("SELECT number FROM batch WHERE name = ?", (undo.batch,)).fetchone()
    if row:
        if not person(connection, undo.annotator).paused:
            extend_lease(connection, row[0], undo.question, undo.annotator, now)
        reopen(connection, row[0], undo.question, undo.annotator, now)


def _batch_item(
    connection: sqlite3.Connection, batch: int, event: LabelEvent
) -> tuple[int, dict[str, _CandidateOrigin]]:
    """Return whether the batch is practice, and the candidate passages of the question in the batch."""
    row = connection.execute(
        "SELECT b.practice FROM batch_question i JOIN batch b ON b.number = i.batch "
        "WHERE i.batch = ? AND i.question = ?",
        (batch, event.question),
    ).fetchone()
    if row is None:
        raise Missing(f"batch {event.batch!r} holds no question {event.question!r}")
    rows = connection.execute(
        "SELECT passage, run, rank, score, inclusion_probability FROM candidate WHERE batch = ? AND question = ?",
        (batch, event.question),
    )
    candidates = {passage: _CandidateOrigin(*shown) for passage, *shown in rows}
    if absent := next((choice.passage for choice in event.choices if choice.passage not in candidates), None):
        raise Missing(f"passage {absent!r} is not among those of question {event.question!r} in batch {event.batch!r}")
    return row[0], candidates


def _refuse_paused(connection: sqlite3.Connection, name: str, batch: int | None, question: str, now: float) -> None:
    """Refuse an event of a paused annotator unless the annotator still holds the question: only then may the event have
    been sent before the pause.

    Pausing shortens the annotator's leases to `blindspot.db.people.PAUSE_SECONDS`.
    """
    lease = connection.execute(
        "SELECT 1 FROM lease WHERE batch = ? AND question = ? AND annotator = ? AND state = 'held' AND expires > ?",
        (batch, question, name, now),
    ).fetchone()
    if lease is None:
        raise Refused(f"{name} is paused; ask a lead")


def _refuse_paused_undo(connection: sqlite3.Connection, person: Person, event: LabelEvent, now: float) -> None:
    row = connection.execute(
        "SELECT b.number FROM label_event e LEFT JOIN batch b ON b.name = e.batch WHERE e.gesture = ?", (event.undoes,)
    ).fetchone()
    _refuse_paused(connection, person.name, row and row[0], event.question, now)
