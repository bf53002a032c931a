"""What the Map page shows of a map: the choices in its address, the groups of questions, and the open point."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.flips import FlipTable, flip_table
from blindspot.app import study as opened_study
from blindspot.app import url
from blindspot.app.components.map import groups
from blindspot.app.components.map.data import points
from blindspot.app.components.map.groups import NetChange
from blindspot.app.components.map.link import Lines
from blindspot.app.components.map.point import OpenPoint, lines_of
from blindspot.backend.evaluation.comparison import PairedFigures, figures_at
from blindspot.backend.maps.colours import (
    MapColour,
)
from blindspot.backend.maps.edits import Clusters
from blindspot.backend.maps.question_groups import QuestionGroup
from blindspot.backend.maps.stored import Map
from blindspot.db.question_table import rows_of


class Colouring(NamedTuple):
    """What colours the points. other: the run that `run` is compared with, where the colours are hits and misses."""

    colour: MapColour
    run: str | None
    other: str | None
    k: int

    @property
    def run_of_misses(self) -> str | None:
        """The run whose hits and misses the colours show; None for other colours."""
        return self.run if self.colour.name == "hit" else None


@dataclass(frozen=True)
class Shown:
    """What the page shows of a map.

    Attributes:
        view: index of the encoder that places the points.
        runs: those that searched its questions.
    """

    map: Map
    clusters: Clusters
    colouring: Colouring
    view: int
    runs: list[str]

    @cached_property
    def cluster(self) -> int | None:
        """The open cluster."""
        number = url.number("cluster", 0, 0) - 1
        return number if number in self.clusters.ids else None

    @cached_property
    def groups(self) -> list[QuestionGroup]:
        """The groups of the map's questions, with the hits of the run and of the reference."""
        runs = [run for run in (self.colouring.run, self.reference) if run is not None]
        return groups.groups_of_map(self.map, runs, self.colouring.k)

    @cached_property
    def changes(self) -> dict[str, NetChange]:
        """What changes in each group from the run to the second run in the picture; nothing without one."""
        _, run, other, k = self.colouring
        return {} if run is None or other is None else groups.changes(self.map, self.groups, run, other, k)

    @cached_property
    def group(self) -> QuestionGroup | None:
        """The open group."""
        return next((group for group in self.groups if group.id == url.value("group")), None)

    @cached_property
    def point(self) -> OpenPoint | None:
        """The open point."""
        known, id = points(self.map), url.value("point")
        runs = [run for run in (self.colouring.run, self.reference) if run is not None]
        if id not in known.number:
            return None
        return OpenPoint(self.map, known, known.number[id], runs, self.colouring.k, self.view)

    @cached_property
    def lines(self) -> Lines:
        """The lines from the open point."""
        return Lines() if self.point is None else lines_of(self.point)

    @cached_property
    def reference(self) -> str | None:
        """The run that the misses are compared with: the chosen one, else the best of the others."""
        _, run, other, k = self.colouring
        return None if run is None else groups.best_other(self.map, self.runs, run, other, k)

    @cached_property
    def average(self) -> Estimate:
        """The run's hits over all questions of the map."""
        _, run, _, k = self.colouring
        assert run is not None
        return groups.hits_of_map(self.map, run, k)

    @cached_property
    def listed(self) -> list[QuestionGroup]:
        """The groups in the order in which the page lists and names them: by what changes from the run to the second one
        in the picture, else by how far the run falls behind the reference, or its own average.
        """
        _, run, other, _ = self.colouring
        if run is None:
            return self.groups
        if other is not None:
            return groups.most_changed(self.groups, self.changes)
        return groups.most_missed(self.groups, run, self.reference, self.average)

    @cached_property
    def worst(self) -> QuestionGroup | None:
        """The group in which the run falls furthest behind, if it falls behind at all."""
        run = self.colouring.run
        return None if run is None else groups.furthest_behind(self.groups, run, self.reference, self.average)

    @cached_property
    def compared(self) -> tuple[PairedFigures, FlipTable]:
        """The figures of the run and the second one over the map's questions, and how many of them each finds."""
        map, (_, run, other, k) = self.map, self.colouring
        assert run is not None and other is not None
        compared = opened_study.comparison(
            map.study, run, other, "answers", opened_study.rule_of_runs(map.study, run, other)
        )
        rows = rows_of(compared.questions, map.question_ids)
        rows = rows[rows >= 0]
        return figures_at(compared, k, rows), flip_table(compared.first_ranks_a[rows], compared.first_ranks_b[rows], k)

    @cached_property
    def is_training(self) -> bool:
        """Whether the run and the second one are of the map's first and second encoder: of a model before and after
        training.
        """
        _, run, other, _ = self.colouring
        about = opened_study.runs(self.map.study)
        return [about[name].get("retriever") for name in (run, other) if name] == list(self.map.encoders)
