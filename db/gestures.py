"""What an annotator does: one gesture is one key press, and may label several passages ("the rest are negative")."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from db.errors import BadInput

Label = Literal["positive", "related", "negative", "unsure"]
Kind = Literal["label", "adjudicate", "undo", "note", "bad_question"]

LABELS: tuple[str, ...] = get_args(Label)
KINDS: tuple[str, ...] = get_args(Kind)
LABELLING = ("label", "adjudicate")
Deed = Literal["finish", "skip", "reopen"]
DEEDS: tuple[str, ...] = get_args(Deed)

MAX_ID = 128
MAX_NOTE = 10_000
MAX_CHOICES = 1000
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Choice:
    """One passage of a gesture, and what was shown of it when its label was given.

    label: None only where the kind is "note". rank: from 1. suggestion: a model's probability, None if it was not shown.
    Run, rank and score of a batch's candidate are taken from the batch.
    """

    passage: str
    label: Label | None = None
    run: str | None = None
    rank: int | None = None
    score: float | None = None
    suggestion: float | None = None


@dataclass(frozen=True, slots=True)
class Gesture:
    """One key press, with the id that the browser gave it.

    undoes: of an undo, the id of the gesture it takes back. choices: of "label" and "adjudicate" at least one; of "note" one
    at most (a note on a passage); else none. batch: its name; None outside the queue. milliseconds: since the passage was shown.
    client_time: seconds since 1970 by the browser's clock, which may be wrong.
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
class Act:
    """What an annotator does with a whole question of the queue. It is no label event; its id is kept in the same way.

    finish: done with it. skip: leave it to somebody else. reopen: go back to one that was finished or skipped.
    batch: its name. milliseconds: spent on the question. client_time: as in `Gesture`.
    """

    id: str
    kind: Deed
    question: str
    batch: str
    milliseconds: int | None = None
    client_time: float | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a gesture or act: "stored", "known" (it was done before, and so is safe), or "refused".

    message: why it was refused; of a finish that is stored or known, that it was surplus, else empty.
    """

    id: str
    state: Literal["stored", "known", "refused"]
    message: str = ""

    @property
    def safe(self) -> bool:
        return self.state != "refused"


def read_gesture(value: Any, guideline_version: str = "0") -> Gesture:
    """A gesture from what a browser sent: an object with the fields of `Gesture`, `choices` a list of those of `Choice`.

    The server knows whether a label is blind, where a passage was found, and which guidelines were shown. What a browser says of
    these is left out; `guideline_version` is the server's.

    Raises:
        BadInput: a field that is not known or is missing, or a value of the wrong type or size.
    """
    made = _made(Gesture, value, {"id", "kind", "question"})
    choices = made.get("choices", ())
    if not isinstance(choices, list | tuple):
        raise BadInput("choices must be a list")
    made["choices"] = tuple(Choice(**_made(Choice, choice, {"passage"})) for choice in choices)
    gesture = Gesture(**made)
    check(gesture)
    known = tuple(Choice(choice.passage, choice.label) for choice in gesture.choices)
    return replace(gesture, choices=known, blind=True, guideline_version=guideline_version)


def read_sent(value: Any, guideline_version: str = "0") -> Gesture | Act:
    """What stands in a browser's outbox: a gesture or, by its kind, an act; records of ours are checked alike. Raises BadInput."""
    if isinstance(value, Gesture):
        check(value)
        return value
    if not isinstance(value, Act) and not (isinstance(value, Mapping) and value.get("kind") in DEEDS):
        return read_gesture(value, guideline_version)
    act = value if isinstance(value, Act) else Act(**_made(Act, value, {"id", "kind", "question", "batch"}))
    for name in ("id", "kind", "batch"):
        _text(name, getattr(act, name))
    _text("question", act.question, longest=256)
    _whole("milliseconds", act.milliseconds, 0)
    _number("client_time", act.client_time)
    if act.kind not in DEEDS:
        raise BadInput(f"the kind is {act.kind!r}; it must be one of {', '.join(DEEDS)}")
    return act


def check(gesture: Gesture) -> None:
    """Raises BadInput for a gesture that makes no sense, whatever the store holds."""
    for name in ("id", "kind", "guideline_version"):
        _text(name, getattr(gesture, name))
    _text("question", gesture.question, longest=256)
    for name in ("undoes", "batch"):
        _text(name, getattr(gesture, name), optional=True)
    _text("note", gesture.note, optional=True, longest=MAX_NOTE)
    if gesture.note is not None and gesture.kind in ("label", "undo"):
        raise BadInput(f"a gesture of the kind {gesture.kind!r} carries no note; send the note as a gesture of its own")
    _whole("milliseconds", gesture.milliseconds, 0)
    _number("client_time", gesture.client_time)
    if not isinstance(gesture.blind, bool):
        raise BadInput("blind must be true or false")
    if gesture.kind not in KINDS:
        raise BadInput(f"the kind is {gesture.kind!r}; it must be one of {', '.join(KINDS)}")
    if (gesture.kind == "undo") != (gesture.undoes is not None):
        raise BadInput("an undo, and nothing else, names the gesture that it takes back")
    if gesture.kind == "note" and gesture.note is None:
        raise BadInput("a note must have a text")
    _check_choices(gesture)


def _check_choices(gesture: Gesture) -> None:
    choices, labelling = gesture.choices, gesture.kind in LABELLING
    if labelling and not choices:
        raise BadInput(f"a gesture of the kind {gesture.kind!r} must have a passage and its label")
    if not labelling and len(choices) > (gesture.kind == "note"):
        raise BadInput(f"a gesture of the kind {gesture.kind!r} labels no passages")
    if len(choices) > MAX_CHOICES:
        raise BadInput(f"{len(choices):,} passages in one gesture; {MAX_CHOICES:,} are allowed")
    if len({choice.passage for choice in choices}) < len(choices):
        raise BadInput("a passage comes twice in one gesture")
    for choice in choices:
        _text("passage", choice.passage, longest=256)
        _text("run", choice.run, optional=True)
        _whole("rank", choice.rank, 1)
        _number("score", choice.score)
        _number("suggestion", choice.suggestion)
        if labelling != (choice.label is not None):
            raise BadInput("a label event must have a label" if labelling else "a note has no label")
        if labelling and choice.label not in LABELS:
            raise BadInput(f"the label is {choice.label!r}; it must be one of {', '.join(LABELS)}")


def _made(record: type, value: Any, needed: set[str]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise BadInput(f"a {record.__name__.lower()} must be an object")
    known = {field.name for field in fields(record)}
    if unknown := set(map(str, value)) - known:
        raise BadInput(f"a {record.__name__.lower()} has no field {sorted(unknown)[0][:40]!r}")
    if absent := needed - set(value):
        raise BadInput(f"a {record.__name__.lower()} must have {sorted(absent)[0]}")
    return dict(value)


def _text(name: str, value: Any, optional: bool = False, longest: int = MAX_ID) -> None:
    if value is None and optional:
        return
    if not isinstance(value, str) or not value:
        raise BadInput(f"{name} must be text, and not empty")
    if len(value) > longest:
        raise BadInput(f"{name} has {len(value):,} characters; {longest:,} are allowed")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise BadInput(f"{name} holds a NUL or half a surrogate pair")


def _whole(name: str, value: Any, least: int) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LARGEST):
        raise BadInput(f"{name} must be a whole number, {least} or more")


def _number(name: str, value: Any) -> None:
    if value is None:
        return
    # The size of a whole number is asked first: `isfinite` cannot take those beyond the largest float.
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300 or not math.isfinite(value):
        raise BadInput(f"{name} must be a number")
