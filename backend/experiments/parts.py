"""The parts of experiments, such as indexes, runs and trained models. Each part lists the parts that it needs, and is
made only once.

A part is a frozen dataclass. Its result depends only on its fields, which may be other parts. `Workbench.make` makes a
part with the functions that the commands use. hits.py, trainings.py and readers.py define the parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.manifest import read_manifest
from blindspot.backend.core.sampling import nested_sample
from blindspot.backend.data.leaks import eligible_questions
from blindspot.backend.progress import Progress
from blindspot.db.errors import Missing
from blindspot.db.labels import Labels
from blindspot.db.records import Question

if TYPE_CHECKING:
    from blindspot.backend.experiments.workbench import Workbench


def required() -> Any:
    """Return the default of a required field, in a class whose base class has fields with defaults."""
    return None


class Part(ABC):
    """Base class of all parts. folder: the study's folder for parts of this kind. plural: the plural noun for parts of
    this kind.
    """

    folder, plural = "", "small parts"

    def own_name(self, bench: Workbench) -> str | None:
        """Return the part's name if the study already has this part under its own name; None if the part is named by a
        hash.
        """
        return None

    def _as_dataclass(self) -> Any:
        """Return this part as a dataclass; every concrete part is one."""
        return self

    def title(self) -> str:
        """Return a short title of the part, which is shown while it is made."""
        return type(self).__name__.lower()

    def needs(self) -> Iterator[Part]:
        """Yield the parts that this part needs, in an order in which they can be made."""
        for field in fields(self._as_dataclass()):
            yield from _parts_in(getattr(self, field.name))

    def recipe(self, bench: Workbench) -> dict[str, Any]:
        """Return everything that the part depends on as JSON values, with other parts given by name."""
        return {
            "part": type(self).__name__,
            **{field.name: _json_value(getattr(self, field.name), bench) for field in fields(self._as_dataclass())},
        }

    def finished(self, bench: Workbench) -> bool:
        return read_manifest(bench.path(self.folder, bench.name(self))) is not None

    @abstractmethod
    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        """Make the complete part or nothing. A finished part is not repeated."""

    def left_out(self, bench: Workbench) -> bool:
        """Return whether there is no reason to make the part. Called after the parts that it needs have been made."""
        return False

    def note(self, bench: Workbench) -> str | None:
        """Return a remark for the reader of the result, or None."""
        return None


def _parts_in(value: Any) -> Iterator[Part]:
    if isinstance(value, Part):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _parts_in(each)


def _json_value(value: Any, bench: Workbench) -> Any:
    if isinstance(value, Part):
        return bench.name(value)
    if isinstance(value, QuestionSelection):
        return {"ids": value.digest(bench)}
    if isinstance(value, (tuple, list)):
        return [_json_value(each, bench) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        return {field.name: _json_value(getattr(value, field.name), bench) for field in fields(value)}
    return value


@dataclass(frozen=True)
class QuestionSelection:
    """A selection of questions: a split or a set as in `retrieve`, optionally restricted to some relations, and at most
    `limit` questions, drawn with `seed`.

    Attributes:
        every: (first, step), as (1, 2) for every second question.
        trains: exactly the training questions of a training set with the same limit: without leaks and without bad
            questions.
    """

    split: str
    relations: tuple[str, ...] = ()
    limit: int | None = None
    seed: int = 0
    every: tuple[int, int] = (0, 1)
    trains: bool = False

    def questions_of(self, bench: Workbench) -> list[Question]:
        """Return the questions in the study's order. Raises Missing if there are none."""
        from blindspot.backend.core.splits import questions_in_split

        found = {
            each.id: each
            for each in questions_in_split(bench, self.split)
            if not self.relations or each.relation in self.relations
        }
        if not found:
            raise Missing(f"no question of {self.split!r} asks for {', '.join(self.relations)}")
        first, step = self.every
        return [found[id] for id in self._draw_ids(bench, list(found))][first::step]

    def _draw_ids(self, bench: Workbench, ids: list[str]) -> list[str]:
        if not self.trains:
            return nested_sample(ids, self.limit, self.seed)
        bad = set(Labels(bench.labels_path, read_only=True).bad_questions())
        taken = set(eligible_questions(bench, (self.split,), bad, self.relations, self.limit, self.seed).ids)
        return [id for id in ids if id in taken]

    def digest(self, bench: Workbench) -> str:
        """Return a hash of the questions' ids."""
        from blindspot.backend.core.runs import question_set_hash

        return question_set_hash([question.id for question in self.questions_of(bench)])


@dataclass(frozen=True)
class StudyEncoder(Part):
    """An encoder of study.toml, which always exists."""

    encoder: str

    def own_name(self, bench: Workbench) -> str:
        return self.encoder

    def recipe(self, bench: Workbench) -> dict[str, Any]:
        return {"part": "encoder", "weights": bench.weights(self.encoder)}

    def finished(self, bench: Workbench) -> bool:
        return bool(bench.weights(self.encoder))

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        """Do nothing, because the encoder is already part of the study."""
