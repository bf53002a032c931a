"""What a form of trainers' files is: how a row reads as a question with passages, and how a changed row is written."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from blindspot.backend.core.registry import Registry, must_be
from blindspot.backend.data.formats.fields import FieldError, kind_of

Values = dict[str, Any]
"""The values of a row by column."""
Cell = tuple[Any, ...]
"""A passage as a row contains it: the values of its columns, and last its score if the file has scores."""

QUESTIONS = ("anchor", "query", "question", "sentence1", "text1")
SCORES = ("scores", "score")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf|nan)")


class Slot(NamedTuple):
    """A passage in its place in a row."""

    is_positive: bool
    text: str
    title: str = ""
    score: float | None = None


@dataclass(slots=True)
class Entry:
    """A row as a question with its passages, in the order of the file. `answers` may be empty."""

    question: str
    slots: list[Slot]
    answers: tuple[str, ...] = ()


class RowLayout(ABC):
    """How the rows of one file read and change.

    Attributes:
        name: The form in a few words. in_batch: Whether trainers take the other rows' passages as negatives.
        can_relabel: Whether a row can say that a passage is positive.
    """

    name: str
    in_batch = True
    can_relabel = True

    @abstractmethod
    def entry(self, values: Values, previous: Values | None = None) -> Entry:
        """Read a row. Raises FieldError. previous: the row before."""

    @abstractmethod
    def changed(
        self, values: Values, false: Sequence[int], added: Sequence[int], spares: Sequence[Cell]
    ) -> list[Values]:
        """Return the rows that replace a row.

        Args:
            false: Places of the false negatives among the row's passages. added: Those of them that become positives.
            spares: Other true negatives of the question, for forms in which each row has its number of negatives.
        """

    def cell(self, values: Values, place: int) -> Cell:
        """Return a negative as a spare for `changed`; only of forms that take spares."""
        return ()


@dataclass(frozen=True)
class TrainingFormat:
    """A form of trainers' files.

    Attributes:
        name, what: For messages and help.
        recognise: Takes the columns and the first rows; returns the layout, or None for another form.
        needs: Files that ids are looked up in, by role ("collection", "queries"); empty for files with texts.
    """

    name: str
    what: str
    recognise: Callable[[Sequence[str], Sequence[Values]], RowLayout | None]
    needs: tuple[str, ...] = ()


TRAINING_FORMATS: Registry[TrainingFormat] = Registry(
    "form of training file",
    package="blindspot.backend.checking.formats",
    group="blindspot.training_formats",
    check=must_be(TrainingFormat),
)


def text_of(values: Mapping[str, Any], column: str) -> str:
    """Return a text that may be empty. Raises FieldError for other kinds."""
    value = values.get(column)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FieldError(f"{column!r} is {kind_of(value)}; it must be text")
    return value


def number_of(value: Any, column: str) -> float:
    """Return a number, given as one or as text. Raises FieldError."""
    try:
        if isinstance(value, (int, float, str)):
            return float(value)
    except ValueError:
        pass
    raise FieldError(f"{column!r} is {str(value)[:40]!r}; it must be a number")


def numbers_of(value: Any, column: str) -> list[float]:
    """Return a list of numbers, also from its text in CSV: "[0.7 0.5]". Raises FieldError."""
    if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        return [float(number) for number in _NUMBER.findall(value)]
    if not isinstance(value, list):
        raise FieldError(f"{column!r} is {kind_of(value)}; it must be a list of numbers")
    return [number_of(each, column) for each in value]


def as_before(new: list[float], before: Any) -> Any:
    """Return a list of numbers in the form of the value before: as text where CSV has text."""
    if not isinstance(before, str):
        return new
    between = ", " if "," in before else " "
    return "[" + between.join(repr(number) for number in new) + "]"
