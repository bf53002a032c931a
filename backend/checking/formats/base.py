"""The interface of a training-file format: read a row as a question with passages, and write a changed row."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from blindspot.backend.core.registry import Registry, instance_check
from blindspot.backend.data.formats.fields import FieldError, type_in_words

Values = dict[str, Any]
"""The values of a row by column."""
Cell = tuple[Any, ...]
"""A passage as a row contains it: the values of its columns, and last its score if the file has scores."""

QUESTIONS = ("anchor", "query", "question", "sentence1", "text1")
SCORES = ("scores", "score")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|inf|nan)")


class Slot(NamedTuple):
    """One passage of a row: its title, text, label and score."""

    is_positive: bool
    text: str
    title: str = ""
    score: float | None = None


@dataclass(slots=True)
class Entry:
    """A row as a question with its passages, in the order of the file. `answers` is empty if the file has none."""

    question: str
    slots: list[Slot]
    answers: tuple[str, ...] = ()


class RowLayout(ABC):
    """The columns of one file: reads its rows and writes changed rows.

    Attributes:
        name: The format in a few words. in_batch: Whether trainers use the other rows' passages as negatives.
        can_relabel: Whether a false negative can become a positive of its row.
    """

    name: str
    in_batch = True
    can_relabel = True

    @abstractmethod
    def entry(self, values: Values, previous: Values | None = None) -> Entry:
        """Read a row. Raises FieldError for an invalid row. previous: the row before this one."""

    @abstractmethod
    def corrected_rows(
        self, values: Values, false: Sequence[int], added_positives: Sequence[int], spare_negatives: Sequence[Cell]
    ) -> list[Values]:
        """Return the rows that replace a row after its false negatives were found.

        Args:
            false: Indexes of the false negatives among the row's passages. added_positives: The indexes of those that
                become
            positives.
            spare_negatives: Other true negatives of the question, for formats with a fixed number of negatives per row.
        """

    def cell(self, values: Values, position: int) -> Cell:
        """Return a negative in the form that `corrected_rows` accepts as a spare. Only formats with spares implement
        it.
        """
        return ()


@dataclass(frozen=True)
class TrainingFormat:
    """A format of training files.

    Attributes:
        name, what: For messages and help.
        recognise: Takes the columns and the first rows. Returns the layout, or None if the file has another format.
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
    check=instance_check(TrainingFormat),
)


def text_of(values: Mapping[str, Any], column: str) -> str:
    """Return the text in a column; it may be empty. Raises FieldError if the value is not a text."""
    value = values.get(column)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FieldError(f"{column!r} is {type_in_words(value)}; it must be text")
    return value


def number_of(value: Any, column: str) -> float:
    """Return a number from a number or its text. Raises FieldError for other values."""
    try:
        if isinstance(value, (int, float, str)):
            return float(value)
    except ValueError:
        pass
    raise FieldError(f"{column!r} is {str(value)[:40]!r}; it must be a number")


def numbers_of(value: Any, column: str) -> list[float]:
    """Return a list of numbers from a list, or from a text such as "[0.7 0.5]" in CSV. Raises FieldError for other
    values.
    """
    if isinstance(value, str) and value.startswith("[") and value.endswith("]"):
        return [float(number) for number in _NUMBER.findall(value)]
    if not isinstance(value, list):
        raise FieldError(f"{column!r} is {type_in_words(value)}; it must be a list of numbers")
    return [number_of(each, column) for each in value]


def in_type_of(new: list[float], old_value: Any) -> Any:
    """Return a list of numbers, as text if the old value `old_value` was text, as in CSV."""
    if not isinstance(old_value, str):
        return new
    between = ", " if "," in old_value else " "
    return "[" + between.join(repr(number) for number in new) + "]"
