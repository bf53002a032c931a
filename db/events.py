"""Annotation events: what the browser sends, how it is validated, and the rows that the store keeps.

The browser sends two kinds of event. A `LabelEvent` is one key press. It may label several passages, as in "the rest
are negative". A `QueueEvent` finishes, skips or reopens a question of a batch. The browser gives each event an id, and
the store stores each id once. A label event becomes one `EventRow` per passage; the column `gesture` contains the
event's id.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from blindspot.db.connection import read_records
from blindspot.db.errors import BadInput
from blindspot.db.names import text_problem

Label = Literal["positive", "related", "negative", "unsure"]
MACHINE = "qrels"
"""The guideline version of labels from machines, and of labels from an imported file unless somebody said that people
gave them.
"""
Kind = Literal["label", "adjudicate", "undo", "note", "bad_question"]
QueueKind = Literal["finish", "skip", "reopen"]

LABELS: tuple[str, ...] = get_args(Label)
SETTLED: tuple[Label, ...] = ("positive", "related", "negative")
"""The labels that say of a pair whether it answers, which "unsure" does not."""
KINDS: tuple[str, ...] = get_args(Kind)
QUEUE_KINDS: tuple[str, ...] = get_args(QueueKind)
LABELLING = ("label", "adjudicate")

MAX_ID = 128
MAX_NOTE = 10_000
MAX_CHOICES = 1000
MAX_NUMBER = 2**53 - 1  # of an imported event; SQLite numbers the following events from the highest one
_MAX_INTEGER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Choice:
    """One passage of a label event, with what the page showed beside it.

    Attributes:
        label: None for a note, otherwise a label.
        rank: Rank from 1.
        suggestion: A model's probability; None if the page did not show one.

    For a candidate passage of a batch, the store takes `run`, `rank` and `score` from the batch and ignores these
    fields.
    """

    passage: str
    label: Label | None = None
    run: str | None = None
    rank: int | None = None
    score: float | None = None
    suggestion: float | None = None


@dataclass(frozen=True, slots=True)
class LabelEvent:
    """One key press of an annotator.

    Attributes:
        id: The id that the browser generated.
        choices: At least one for "label" and "adjudicate", at most one for "note" (a note on a passage), otherwise
            none.
        undoes: For "undo", the id of the event to undo.
        batch: Name of the batch; None outside the queue.
        milliseconds: Time since the passage was shown.
        client_time: Seconds since 1970 by the browser's clock, which may be wrong.
    """

    id: str
    kind: Kind
    question: str
    choices: tuple[Choice, ...] = ()
    note: str | None = None
    undoes: str | None = None
    batch: str | None = None
    blind: bool = True
    guideline_version: str = "0"
    milliseconds: int | None = None
    client_time: float | None = None


@dataclass(frozen=True, slots=True)
class QueueEvent:
    """An annotator finishes a question of a batch, skips it, or reopens one that they finished or skipped.

    Attributes:
        batch: Name of the batch.
        milliseconds: Time spent on the question.
        client_time: Seconds since 1970 by the browser's clock.
    """

    id: str
    kind: QueueKind
    question: str
    batch: str
    milliseconds: int | None = None
    client_time: float | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """The store's answer to one event: "stored", "known" (already stored before), or "refused".

    `message` says why the event was refused, or that a finished question was surplus. Otherwise it is empty.
    """

    id: str
    state: Literal["stored", "known", "refused"]
    message: str = ""

    @property
    def is_in_store(self) -> bool:
        """Whether the event is in the store."""
        return self.state != "refused"


@dataclass(frozen=True, slots=True)
class EventRow:
    """One row of the table `label_event`.

    Attributes:
        number: Position in the order of all rows; None in a row that is not stored yet.
        gesture: The id of the event that the row belongs to.
        part: Index of the passage within the event.
        undoes: For "undo", the number of the row to undo.
    """

    number: int | None
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


COLUMNS = tuple(field.name for field in fields(EventRow))
INSERT = f"INSERT INTO label_event ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


def rows_where(connection: sqlite3.Connection, condition: str, values: tuple[Any, ...]) -> list[EventRow]:
    """Return the rows of `label_event` that match a WHERE clause."""
    return list(read_records(connection, EventRow, f"label_event {condition}", values))


def parse_label_event(value: Any, guideline_version: str = "0") -> LabelEvent:
    """Read a label event that a browser sent: an object with the fields of `LabelEvent`.

    The server knows whether a label is blind, where a passage was found and which guidelines the page showed. It
    ignores what the browser sends about these.

    Args:
        guideline_version: The guidelines that the page showed, as the server knows them.

    Raises:
        BadInput: A field is unknown or missing, or a value has the wrong type or size.
    """
    values = _checked_fields(LabelEvent, value, {"id", "kind", "question"}, "an event")
    choices = values.get("choices", ())
    if not isinstance(choices, list | tuple):
        raise BadInput("choices must be a list")
    values["choices"] = tuple(Choice(**_checked_fields(Choice, choice, {"passage"}, "a choice")) for choice in choices)
    event = LabelEvent(**values)
    validate(event)
    choices = tuple(Choice(choice.passage, choice.label) for choice in event.choices)
    return replace(event, choices=choices, blind=True, guideline_version=guideline_version)


def parse_event(value: Any, guideline_version: str = "0") -> LabelEvent | QueueEvent:
    """Read an entry of a browser's outbox; `kind` tells which event it is. Validate an event that is already parsed.

    Raises:
        BadInput: See `parse_label_event`.
    """
    if isinstance(value, LabelEvent):
        validate(value)
        return value
    if isinstance(value, QueueEvent):
        event = value
    elif isinstance(value, Mapping) and value.get("kind") in QUEUE_KINDS:
        event = QueueEvent(**_checked_fields(QueueEvent, value, {"id", "kind", "question", "batch"}, "an event"))
    else:
        return parse_label_event(value, guideline_version)
    _check_text("batch", event.batch)
    _check_common_fields(event, QUEUE_KINDS)
    return event


def validate(event: LabelEvent) -> None:
    """Check a label event on its own, without the store.

    Raises:
        BadInput: The event makes no sense.
    """
    _check_common_fields(event, KINDS)
    _check_text("guideline_version", event.guideline_version)
    for name in ("undoes", "batch"):
        _check_text(name, getattr(event, name), optional=True)
    _check_text("note", event.note, optional=True, limit=MAX_NOTE)
    if event.note is not None and event.kind in ("label", "undo"):
        raise BadInput(f"an event of kind {event.kind!r} carries no note; send the note as its own event")
    if not isinstance(event.blind, bool):
        raise BadInput("blind must be true or false")
    if (event.kind == "undo") != (event.undoes is not None):
        raise BadInput("an undo, and no other event, must name the event that it undoes")
    if event.kind == "note" and event.note is None:
        raise BadInput("a note must have a text")
    _check_choices(event)


def _check_common_fields(event: LabelEvent | QueueEvent, kinds: tuple[str, ...]) -> None:
    for name in ("id", "kind"):
        _check_text(name, getattr(event, name))
    _check_text("question", event.question, limit=256)
    _check_integer("milliseconds", event.milliseconds, 0)
    _check_number("client_time", event.client_time)
    if event.kind not in kinds:
        raise BadInput(f"the kind is {event.kind!r}; it must be one of {', '.join(kinds)}")


def _check_choices(event: LabelEvent) -> None:
    choices, labelling = event.choices, event.kind in LABELLING
    if labelling and not choices:
        raise BadInput(f"an event of kind {event.kind!r} must have a passage and its label")
    if not labelling and len(choices) > (event.kind == "note"):
        raise BadInput(f"an event of kind {event.kind!r} labels no passages")
    if len(choices) > MAX_CHOICES:
        raise BadInput(f"{len(choices):,} passages in one event; {MAX_CHOICES:,} are allowed")
    if len({choice.passage for choice in choices}) < len(choices):
        raise BadInput("a passage occurs twice in one event")
    for choice in choices:
        _check_text("passage", choice.passage, limit=256)
        _check_text("run", choice.run, optional=True)
        _check_integer("rank", choice.rank, 1)
        _check_number("score", choice.score)
        _check_number("suggestion", choice.suggestion)
        if labelling != (choice.label is not None):
            raise BadInput("a label event must have a label" if labelling else "a note has no label")
        if labelling and choice.label not in LABELS:
            raise BadInput(f"the label is {choice.label!r}; it must be one of {', '.join(LABELS)}")


def _checked_fields(record: type, value: Any, required_names: set[str], name: str) -> dict[str, Any]:
    """Return the fields of an object from a browser; they must be the fields of `record`."""
    if not isinstance(value, Mapping):
        raise BadInput(f"{name} must be an object")
    allowed = set(record.__dataclass_fields__)  # type: ignore[attr-defined]
    if unknown := set(map(str, value)) - allowed:
        raise BadInput(f"{name} has no field {sorted(unknown)[0][:40]!r}")
    if absent := required_names - set(value):
        raise BadInput(f"{name} must have {sorted(absent)[0]}")
    return dict(value)


def _check_text(name: str, value: Any, optional: bool = False, limit: int = MAX_ID) -> None:
    if value is None and optional:
        return
    if problem := text_problem(value, limit):
        raise BadInput(f"{name} {problem}")


def _check_integer(name: str, value: Any, minimum: int) -> None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (is_whole and minimum <= value <= _MAX_INTEGER):
        raise BadInput(f"{name} must be a whole number, {minimum} or more")


def _check_number(name: str, value: Any) -> None:
    if value is None:
        return
    # Compare the size first: `isfinite` fails on whole numbers beyond the largest float.
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300 or not math.isfinite(value):
        raise BadInput(f"{name} must be a number")
