"""The ways to colour a map's points by category.

A map colour assigns every point a category. To add one, write a module in this package, or in an installed package
(entry point group `blindspot.map_colours`), that registers a `MapColour` in `MAP_COLOURS`. The Map page then offers it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from blindspot.analysis.buckets import bucket_group
from blindspot.backend.core.registry import Registry
from blindspot.backend.core.runs import Run
from blindspot.backend.maps.clusters import NO_CLUSTER, Clusters
from blindspot.backend.maps.point_values import UNLABELLED, PointFacts
from blindspot.backend.maps.stored import Map
from blindspot.db.records import Question

QUESTION, POSITIVE = "question", "positive"
NO_QUESTION = "other passage"  # a passage that is no question's positive
SEVERAL, NO_RELATION = "of several relations", "no relation"
SEVERAL_GROUPS = "of several groups"
FOUND, MISSED, NOT_IN_RUN = "found", "missed", "not in this run"
BOTH, ONLY_FIRST, ONLY_SECOND, NEITHER = "both find", "only the first finds", "only the second finds", "neither finds"
CELLS = {(FOUND, FOUND): BOTH, (FOUND, MISSED): ONLY_FIRST, (MISSED, FOUND): ONLY_SECOND, (MISSED, MISSED): NEITHER}


@dataclass(frozen=True)
class MapView:
    """The data that a colour may use.

    first: the rank of the first relevant passage by question id, 0 for none. It covers the questions that `run` can be
    measured on.
    """

    map: Map
    known: PointFacts
    clusters: Clusters
    first: Mapping[str, int] | None = None
    run: Run | None = None
    k: int = 20

    @property
    def shown_questions(self) -> list[Question]:
        """The questions that the map shows as points."""
        return self.known.questions[: self.map.shown_questions]

    @property
    def passages(self) -> range:
        """The position of each passage among the map's passages."""
        return range(len(self.map.ordinals))

    def questions_as(self, category: str) -> list[str]:
        return [category] * len(self.shown_questions)


@dataclass(frozen=True)
class MapColour:
    """A way to colour a map.

    Attributes:
        name: used in addresses.
        title: shown in the interface.
        categories: one category for each point, questions first.
        quiet: categories drawn in grey.
        needs_run: whether the colour needs a run over the map's questions.
        relations: whether the categories are relation ids; the page then shows the relations' names.
        note: a sentence below the map, formatted with the run's name and k.
    """

    name: str
    title: str
    categories: Callable[[MapView], list[str]]
    quiet: tuple[str, ...] = ()
    needs_run: bool = False
    relations: bool = False
    note: Callable[[str, int], str] | None = None


def _check(entry: object) -> None:
    if not isinstance(entry, MapColour):
        raise TypeError(f"{type(entry).__name__} is not a MapColour")


MAP_COLOURS: Registry[MapColour] = Registry(
    "map colour", package="blindspot.backend.maps", group="blindspot.map_colours", check=_check
)


def colour_values(
    map: Map,
    point_facts: PointFacts,
    colour: str,
    clusters: Clusters,
    first_ranks: Mapping[str, int] | None = None,
    run: Run | None = None,
    k: int = 20,
) -> list[str]:
    """Return a category for each point, questions first. `colour` is the name of a map colour; the other arguments are the
    fields of `MapView`.
    """
    return MAP_COLOURS.get(colour).categories(MapView(map, point_facts, clusters, first_ranks, run, k))


def quiet_categories() -> set[str]:
    """Return the categories drawn in grey, for all colours."""
    return {category for colour in MAP_COLOURS for category in colour.quiet}


def _kind_of_points(view: MapView) -> list[str]:
    return view.questions_as(QUESTION) + _kinds_of_passages(view)


def _kinds_of_passages(view: MapView) -> list[str]:
    return [POSITIVE if place in view.known.questions_by_passage else NO_QUESTION for place in view.passages]


def _categories_of_questions(view: MapView, category: Callable[[Question], str], several_label: str) -> list[str]:
    """Return the category of each point. A passage gets the category of the questions for which it is a positive, or
    `several_label` if these differ.
    """
    of = [category(question) for question in view.known.questions]
    passages = []
    for place in view.passages:
        found = {of[number] for number in view.known.questions_by_passage.get(place, ())}
        passages.append(NO_QUESTION if not found else next(iter(found)) if len(found) == 1 else several_label)
    return of[: len(view.shown_questions)] + passages


def _relation_of_points(view: MapView) -> list[str]:
    return _categories_of_questions(view, lambda question: question.relation or NO_RELATION, SEVERAL)


def _bucket_of_points(view: MapView) -> list[str]:
    return _categories_of_questions(
        view, lambda question: bucket_group(question.bucket, question.frequency), SEVERAL_GROUPS
    )


def _label_of_points(view: MapView) -> list[str]:
    return view.questions_as(QUESTION) + view.known.labels


def _cluster_of_points(view: MapView) -> list[str]:
    return view.questions_as(QUESTION) + [view.clusters.name(int(label)) for label in view.clusters.labels]


def _hit_of_points(view: MapView) -> list[str]:
    """Return hit or miss for each question, a hit if the run's top k contain a relevant passage; for each passage whether
    it is a positive.
    """
    first = view.first or {}
    outcomes = [
        NOT_IN_RUN if question.id not in first else FOUND if 0 < first[question.id] <= view.k else MISSED
        for question in view.shown_questions
    ]
    return outcomes + _kinds_of_passages(view)


def hits_of_two(first_run: Sequence[str], second_run: Sequence[str]) -> list[str]:
    """Return which of two runs finds each question, from the hits and misses of both. A point that one of the
    runs says nothing of, and a passage, is in no cell: it keeps that category.
    """
    return [
        CELLS.get((first, second), first if first not in (FOUND, MISSED) else second)
        for first, second in zip(first_run, second_run, strict=True)
    ]


def _hit_note(run: str, k: int) -> str:
    return f"A question is found if the top {k} of {run} contain a relevant passage."


for colour in (
    MapColour("kind", "question or passage", _kind_of_points, (NO_QUESTION,)),
    MapColour("relation", "relation", _relation_of_points, (NO_QUESTION, SEVERAL), relations=True),
    MapColour("bucket", "frequency", _bucket_of_points, (NO_QUESTION, SEVERAL_GROUPS)),
    MapColour("hit", "hit or miss", _hit_of_points, (NO_QUESTION, NOT_IN_RUN), needs_run=True, note=_hit_note),
    MapColour("label", "label", _label_of_points, (UNLABELLED,)),
    MapColour("cluster", "cluster", _cluster_of_points, (NO_CLUSTER,)),
):
    MAP_COLOURS.register(colour)
