"""The groups of a map's questions, by relation or question word: in which a run misses most, and an open group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.buckets import FEW
from blindspot.app import url
from blindspot.app.components.map.data import MapPoints, first_hits, known_of
from blindspot.app.components.map.figure import PlaceName, fullest_place
from blindspot.app.components.map.parts import address
from blindspot.app.components.map.selection import panel
from blindspot.app.components.marks import few, percentage
from blindspot.app.markup import Html, div, link, row, show, table_head, tag
from blindspot.app.markup import table as table_of
from blindspot.backend.evaluation.question_facts import OTHER
from blindspot.backend.maps.colours import NO_RELATION
from blindspot.backend.maps.point_values import success_of
from blindspot.backend.maps.question_groups import QuestionGroup, are_by_relation, question_groups
from blindspot.backend.maps.stored import Map
from blindspot.backend.text.number_words import quantity
from blindspot.db.records import Question

GROUPS_SHOWN, NAMES_SHOWN = 8, 16
"""Groups in the list, and named on the map where there is room."""


def groups_of_map(map: Map, runs: Sequence[str], k: int) -> list[QuestionGroup]:
    """Return the groups of the map's questions, largest first, with the hits of some runs."""
    return question_groups(known_of(map), {run: first_hits(map.study, run) for run in runs}, k)


def hits_of_map(map: Map, run: str, k: int) -> Estimate:
    """Return Success@k of a run over all questions of the map."""
    known = known_of(map)
    return success_of(range(len(known.questions)), known, first_hits(map.study, run), k)


def missed_count(hits: Estimate) -> int:
    """Return how many questions a run misses, from the share that it finds."""
    return round(hits.n * (1 - (hits.value or 0.0)))


def missed_share(hits: Estimate) -> Estimate:
    """Return the share of questions that a run misses, from the share that it finds."""
    value, low, high = (None if end is None else 1 - end for end in (hits.value, hits.high, hits.low))
    return replace(hits, value=value, low=low, high=high)


def excess(map: Map, group: QuestionGroup, run: str, other: str | None, k: int) -> float:
    """Return how many more questions of a group a run misses than if it missed the share that another run misses there;
    without another, the share that it misses on the whole map.
    """
    hits = group.hits[run]
    expected = hits_of_map(map, run, k) if other is None else group.hits[other]
    return hits.n * ((expected.value or 0.0) - (hits.value or 0.0))


def most_missed(map: Map, groups: Sequence[QuestionGroup], run: str, other: str | None, k: int) -> list[QuestionGroup]:
    """Return the groups with questions that a run misses, those with the largest `excess` first."""
    missing = [group for group in groups if missed_count(group.hits[run])]
    return sorted(missing, key=lambda group: -excess(map, group, run, other, k))


def best_other(map: Map, runs: Sequence[str], run: str, compared: str | None, k: int) -> str | None:
    """Return the run to compare the misses of `run` with: the one that was chosen, else the one of the others that misses
    the smallest share of the map's questions; None without another.
    """
    others = [name for name in runs if name != run]
    if compared in others:
        return compared
    return max(others, key=lambda name: hits_of_map(map, name, k).value or 0.0, default=None)


def questions_phrase(map: Map, group: QuestionGroup) -> str:
    """Return which questions are in a group, such as "of the relation “author”"."""
    if are_by_relation(known_of(map)):
        return "without a relation" if group.id == NO_RELATION else f"of the relation “{group.name}”"
    return "without a question word" if group.id == OTHER else f"with the question word “{group.name}”"


def most_missed_sentence(map: Map, group: QuestionGroup, run: str, other: str | None) -> str:
    """Return how many questions a run misses of the group with the largest `excess`."""
    asked = f"{missed_count(group.hits[run]):,} of {group.hits[run].n:,}"
    which = questions_phrase(map, group)
    if other is None:
        return f"{run} misses the most beyond its average among the questions {which}: {asked}."
    return f"{run} falls furthest behind {other} on the questions {which}: it misses {asked}, {_also_missed(group, run, other)}."


def missed_sentence(map: Map, group: QuestionGroup, run: str, other: str | None) -> str:
    """Return how many questions of a group a run misses, and how many another run."""
    said = f"Of the {quantity(group.hits[run].n, 'question')} {questions_phrase(map, group)}, {run} misses "
    also = "" if other is None else f", {_also_missed(group, run, other)}"
    return f"{said}{missed_count(group.hits[run]) or 'none'}{also}."


def _also_missed(group: QuestionGroup, run: str, other: str) -> str:
    hits = group.hits[other]
    of = "" if hits.n == group.hits[run].n else f" of {hits.n:,}"
    return f"{other} {missed_count(hits) or 'none'}{of}"


def missed_questions(map: Map, numbers: Sequence[int], run: str, k: int) -> list[Question]:
    """Return those of some questions of the map, as places in `PointFacts.questions`, that a run misses."""
    known, first = known_of(map), first_hits(map.study, run)
    questions = [known.questions[number] for number in numbers]
    return [each for each in questions if each.id in first and not 0 < first[each.id] <= k]


def points_of_group(map: Map, points: MapPoints, group: QuestionGroup) -> list[str]:
    """Return the ids of the points of a group: its questions, then their positive passages."""
    questions, passages = _places(map, group)
    return [points.ids[place] for place in (*questions, *passages)]


def _places(map: Map, group: QuestionGroup) -> tuple[list[int], list[int]]:
    """Return the places of a group's questions on the map, none if it shows no questions, and of their positives."""
    positives = known_of(map).positives
    questions = [number for number in group.numbers if number < map.shown_questions]
    passages = sorted({place for number in group.numbers for place in positives[number]})
    return questions, [map.shown_questions + place for place in passages]


def names_on_map(
    map: Map, groups: Sequence[QuestionGroup], view: int, run: str | None = None, other: str | None = None
) -> tuple[PlaceName, ...]:
    """Return the names of groups, each where its questions are densest, with how many of them `run` misses, and the
    `other` run if there is one.
    """
    places = np.asarray(map.coordinates(view))
    names = []
    for group in groups[:NAMES_SHOWN]:
        questions, passages = _places(map, group)
        counts = [] if run is None else [f"{missed_count(group.hits[each]):,}" for each in (run, other) if each]
        of = "" if run is None else f" of {group.hits[run].n:,}"
        if rows := questions or passages:
            names.append(PlaceName(group.name, *fullest_place(places[rows], places), " → ".join(counts) + of))
    return tuple(names)


def list_of_misses(map: Map, ordered: Sequence[QuestionGroup], run: str, other: str | None, k: int) -> Html:
    """List the first groups of `most_missed`, each with a link that opens it, the share that `run` misses, and that
    another run misses.
    """
    if not ordered:
        return Html("")
    lines = [
        row(
            f"{missed_count(group.hits[run]):,} of {group.hits[run].n:,}",
            *(
                tag("td", percentage(missed_share(group.hits[name])), cls=few_class(group.hits[run]))
                for name in (run, other)
                if name is not None
            ),
            head=link(group.name, address(map, group=group.id, cluster=None, point=None, selection=None, list=None)),
        )
        for group in ordered[:GROUPS_SHOWN]
    ]
    heads = ["missed", "%", *([] if other is None else [f"{other}, %"])]
    by = "relation" if are_by_relation(known_of(map)) else "question word"
    title = f"Where {run} falls behind {other}" if other else f"Where {run} misses more than its average"
    beyond = other or "it would at its average"
    unit = map.study.settings.unit
    pale = few(unit) + ("; questions of the same fact count once" if unit == "fact" else "")
    note = f"Missed in the top {k}. In the order of how many more questions {run} misses than {beyond}. Pale: {pale}."
    return div(
        tag("h2", title),
        table_of(table_head(by, *heads), lines, "figures clusters"),
        tag("p", note, cls="convention"),
        cls="panel misses",
    )


def few_class(hits: Estimate) -> str | None:
    """The class of a figure: pale if it is from few units."""
    return "few" if hits.n_units < FEW else None


def opened_group(map: Map, points: MapPoints, group: QuestionGroup, run: str | None, other: str | None, k: int) -> None:
    """Show one group: the questions that `run` misses, its points and what can be done with them."""
    show(
        div(link("Show all groups", address(map, group=None, list=None), cls="quiet")),
        missed_list(missed_questions(map, group.numbers, run, k), run, other, k) if run is not None else "",
    )
    questions, passages = _places(map, group)
    panel(map, points, [points.ids[place] for place in questions or passages], group.name, run, k, can_clear=False)


def missed_list(questions: Sequence[Question], run: str, other: str | None, k: int) -> Html:
    """The questions that a run misses, each with a link to it."""
    if not questions:
        return Html("")
    pair = {"a": run, "b": other, "k": k}
    lines = (tag("li", link(each.text, url.href(url.QUESTION, {"question": each.id, **pair}))) for each in questions)
    words = f"{quantity(len(questions), 'question')} that {run} misses in the top {k}"
    return tag("details", tag("summary", words), tag("ul", *lines, cls="map-list"), cls="fold", open=True)
