"""The groups of a map's questions, by relation or question word: in which a run misses most, and an open group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import streamlit as st

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.buckets import FEW
from blindspot.app import url
from blindspot.app.components.map.data import MapPoints, first_hits, known_of
from blindspot.app.components.map.figure import PlaceName, fullest_place
from blindspot.app.components.map.parts import address, point_list
from blindspot.app.components.map.selection import actions
from blindspot.app.components.marks import few
from blindspot.app.markup import Html, div, join, link, row, show, span, table_head, tag
from blindspot.app.markup import table as table_of
from blindspot.backend.core.result_table import percent, with_minus_sign
from blindspot.backend.evaluation.question_facts import OTHER
from blindspot.backend.evaluation.slice_finder import join_expressions, write_condition
from blindspot.backend.maps.colours import NO_RELATION
from blindspot.backend.maps.point_values import success_of
from blindspot.backend.maps.question_groups import QuestionGroup, are_by_relation, closeness, question_groups
from blindspot.backend.maps.selection import QUESTION
from blindspot.backend.maps.stored import Map
from blindspot.backend.text.number_words import quantity
from blindspot.db.records import Question

GROUPS_SHOWN = 12  # in the list; the others fold away
NAMES_SHOWN = 16  # on the map, where there is room


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


def excess(group: QuestionGroup, run: str, other: str | None, average: Estimate) -> float:
    """Return how many more questions of a group a run misses than if it missed the share that another run misses there;
    without another, the share that it misses on the whole map. average: the run's hits over all questions.
    """
    hits = group.hits[run]
    expected = average if other is None else group.hits[other]
    return hits.n * ((expected.value or 0.0) - (hits.value or 0.0))


def furthest_behind(
    groups: Sequence[QuestionGroup], run: str, other: str | None, average: Estimate
) -> QuestionGroup | None:
    """Return the group with the largest `excess`; None if a run falls behind in none."""
    most = max(groups, key=lambda group: excess(group, run, other, average), default=None)
    return None if most is None or excess(most, run, other, average) <= 0 else most


ORDERS = ("more", "missed", "points")
"""Columns of the list by which it can be ordered, the largest first."""


def most_missed(groups: Sequence[QuestionGroup], run: str, other: str | None, average: Estimate) -> list[QuestionGroup]:
    """Return the groups with questions that a run misses, in the order that the address asks for: those with the largest
    `excess` first, or with the most missed questions, or with the largest difference of the shares.
    """
    order = url.one_of("order", ORDERS, ORDERS[0])

    def value(group: QuestionGroup) -> float:
        more = excess(group, run, other, average)
        return {"more": more, "missed": missed_count(group.hits[run]), "points": more / group.hits[run].n}[order]

    return sorted((group for group in groups if missed_count(group.hits[run])), key=lambda group: -value(group))


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


def most_missed_sentence(
    map: Map, groups: Sequence[QuestionGroup], run: str, other: str | None, average: Estimate
) -> str:
    """Return in which group a run falls furthest behind, by number of questions, and in which by share, among the groups
    with FEW units or more; "" if it falls behind in none.
    """
    most = furthest_behind(groups, run, other, average)
    if most is None:
        return ""
    large = [group for group in groups if group.hits[run].n_units >= FEW]
    widest = max(large, key=lambda group: excess(group, run, other, average) / group.hits[run].n, default=None)
    if widest is not None and excess(widest, run, other, average) <= 0:
        widest = None

    def told(group: QuestionGroup) -> str:
        missed = f"{missed_count(group.hits[run]):,} of {group.hits[run].n:,} missed"
        also = "" if other is None else f"; {_also_missed(group, run, other)}"
        unit = map.study.settings.unit
        small = f"; only {quantity(group.hits[run].n_units, unit)}" if group.hits[run].n_units < FEW else ""
        return f"{questions_phrase(map, group)} ({missed}{also}{small})"

    where = f"falls furthest behind {other}" if other else "misses the most beyond its average"
    if most is widest:
        return f"{run} {where} in questions {told(most)}, by number and by share."
    share = "" if widest is None else f"; by share, in those {told(widest)}"
    return f"{run} {where}, by number, in questions {told(most)}{share}."


def missed_sentence(map: Map, group: QuestionGroup, run: str, other: str | None) -> str:
    """Return how many questions of a group a run misses, and how many another run."""
    said = f"Of the {quantity(group.hits[run].n, 'question')} {questions_phrase(map, group)}, {run} misses "
    also = "" if other is None else f", {_also_missed(group, run, other)}"
    return f"{said}{missed_count(group.hits[run]) or 'none'}{also}."


class NetChange(NamedTuple):
    """How many of a group's questions only the second of two runs finds, and only the first."""

    gained: int
    lost: int

    @property
    def net(self) -> int:
        return self.gained - self.lost


def changes(map: Map, groups: Sequence[QuestionGroup], run: str, other: str, k: int) -> dict[str, NetChange]:
    """Return by group what changes from `run` to `other` among the questions on which both are measured."""
    questions = known_of(map).questions
    first, second = first_hits(map.study, run), first_hits(map.study, other)

    def change_of(group: QuestionGroup) -> NetChange:
        both = [id for number in group.numbers if (id := questions[number].id) in first and id in second]
        hits = [(0 < first[id] <= k, 0 < second[id] <= k) for id in both]
        return NetChange(hits.count((False, True)), hits.count((True, False)))

    return {group.id: change_of(group) for group in groups}


def most_changed(groups: Sequence[QuestionGroup], changed: Mapping[str, NetChange]) -> list[QuestionGroup]:
    """Return the groups of which one of two runs finds a question that the other misses, the largest net changes, gains
    or losses, first.
    """
    some = [group for group in groups if any(changed[group.id])]
    return sorted(some, key=lambda group: (-abs(changed[group.id].net), -sum(changed[group.id])))


def change_sentence(groups: Sequence[QuestionGroup], changed: Mapping[str, NetChange], run: str, other: str) -> str:
    """Return in which group a run gains the most over another, and in which it loses the most; "" if in none."""
    best, worst = (pick(groups, key=lambda group: changed[group.id].net, default=None) for pick in (max, min))
    said = []
    for group, verb, sign in ((best, "gains", 1), (worst, "loses", -1)):
        if group is not None and sign * changed[group.id].net > 0:
            said.append(f"{verb} the most in “{group.name}” ({_missed_of_two(group, run, other)} missed)")
    return f"On net it {' and '.join(said)}." if said else ""


def _also_missed(group: QuestionGroup, run: str, other: str) -> str:
    missed = _missed_of(group, run, other)
    return f"{other} {'none' if missed == '0' else missed}"


def _missed_of(group: QuestionGroup, run: str, other: str) -> str:
    """Return how many questions of a group another run misses; of how many, where it is measured on others than `run`."""
    hits = group.hits[other]
    of = "" if hits.n == group.hits[run].n else f" of {hits.n:,}"
    return f"{missed_count(hits):,}{of}"


def closeness_sentence(map: Map, group: QuestionGroup, view: int) -> str:
    """Return how close the questions of a group and their positives lie in the original space of an encoder."""
    found = closeness(map, known_of(map), group, view)
    if found is None:
        return ""
    questions = (
        f"In the original space the mean cosine of two of these questions is {found.questions:.2f} "
        f"(with other questions {found.other_questions:.2f})"
    )
    if found.positives is None or found.all_positives is None:
        return f"{questions}."
    positives = f"of two of their positives {found.positives:.2f} (of any two positives {found.all_positives:.2f})"
    said = ": the questions lie closer together than what answers them." if found.is_of_questions else "."
    return f"{questions}, {positives}{said}"


def missed_questions(map: Map, numbers: Sequence[int], run: str, other: str | None, k: int) -> list[Question]:
    """Return those of some questions of the map, as places in `PointFacts.questions`, that a run misses: first those for
    which another run has a relevant passage at a high rank.
    """
    known, first = known_of(map), first_hits(map.study, run)
    questions = [known.questions[number] for number in numbers]
    missed = [each for each in questions if each.id in first and not 0 < first[each.id] <= k]
    ranks = {} if other is None else first_hits(map.study, other)
    return sorted(missed, key=lambda each: ranks.get(each.id) or math.inf)


def missed_slice(map: Map, group: QuestionGroup, run: str, k: int) -> str:
    """Return the slice of a group's questions that a run misses; "" where no condition names the group."""
    if group.id in (NO_RELATION, OTHER):
        return ""
    name = "relation" if are_by_relation(known_of(map)) else "word"
    return join_expressions([write_condition(name, group.id), f"first({run})>{k}"])


def points_of_group(map: Map, points: MapPoints, group: QuestionGroup) -> list[str]:
    """Return the ids of the points of a group: its questions, then their positive passages."""
    questions, passages = _places(map, group)
    return [points.ids[place] for place in (*questions, *passages)]


def questions_by_group(map: Map, points: MapPoints, groups: Sequence[QuestionGroup]) -> dict[str, list[str]]:
    """Return by group the ids of the points of its questions."""
    return {group.id: [points.ids[n] for n in group.numbers if n < map.shown_questions] for group in groups}


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
        counts = ""
        if run is not None:
            missed = f"{missed_count(group.hits[run]):,} of {group.hits[run].n:,}"
            counts = f"{missed if other is None else _missed_of_two(group, run, other)} missed"
        if rows := questions or passages:
            names.append(PlaceName(group.name, *fullest_place(places[rows], places), counts))
    return tuple(names)


def list_of_misses(
    map: Map, ordered: Sequence[QuestionGroup], run: str, other: str | None, k: int, average: Estimate
) -> Html:
    """List the groups of `most_missed`, each with a link that opens it, how many questions `run` misses, how many another
    run misses (without one, the share), and how many more `run` misses.
    """
    if not ordered:
        return Html("")
    lines = []
    for group in ordered:
        hits, more = group.hits[run], excess(group, run, other, average)
        reference = f"{100 * (missed_share(hits).value or 0.0):.1f}" if other is None else _missed_of(group, run, other)
        head = link(group.name, _opens(map, group))
        points = with_minus_sign(100 * more / hits.n, 0, "+")
        counts = (f"{missed_count(hits):,} of {hits.n:,}", reference, with_minus_sign(more, 0, "+"), points)
        lines.append(row(*counts, head=head, cls="few" if hits.n_units < FEW else None))
    title = f"Where {run} falls behind {other}" if other else f"Where {run} misses more than its average"
    in_all = f"More: missed than at the average of {run}."
    if other is not None:
        share = percent(missed_share(hits_of_map(map, other, k)).value)
        in_all = f"More: missed than by {other}, the best other run, which misses {share}% in all."
    in_all += f" Points: the same in percentage points. Pale: {few(map.study.settings.unit)}. These are counts of the map's questions"
    by_relation = other is not None and are_by_relation(known_of(map))
    tested = link("Relations", url.href(url.RELATIONS, {"runs": f"{run},{other}", "k": k})) if by_relation else ""
    heads = (_order(map, "missed"), other or "%", _order(map, "more"), _order(map, "points"))
    return div(
        tag("h2", title),
        _folded(map, lines, heads),
        tag("p", in_all, join("; ", tested, " has their intervals.") if tested else ".", cls="convention"),
        cls="panel misses",
    )


def list_of_changes(
    map: Map,
    ordered: Sequence[QuestionGroup],
    changed: Mapping[str, NetChange],
    run: str,
    other: str,
    k: int,
    is_training: bool,
) -> Html:
    """List the groups of `most_changed`, each with a link that opens it, the questions gained and lost, and how many each
    run misses.
    """
    lines = [
        row(
            f"{changed[group.id].gained:,}",
            f"{changed[group.id].lost:,}",
            _missed_of_two(group, run, other),
            head=link(group.name, _opens(map, group)),
        )
        for group in ordered
    ]
    if not lines:
        return Html("")
    heads = ("fixed", "broken") if is_training else (f"only {other} finds", f"only {run} finds")
    return div(
        tag("h2", f"What changes from {run} to {other}"),
        _folded(map, lines, (*heads, "missed")),
        tag(
            "p",
            f"Questions found in the top {k}. The largest net changes, gains or losses, come first.",
            cls="convention",
        ),
        cls="panel misses",
    )


def _order(map: Map, order: str) -> Html:
    """The heading of a column that orders the list."""
    is_chosen = url.one_of("order", ORDERS, ORDERS[0]) == order
    shown = f"{order} ▾" if is_chosen else link(order, address(map, order=order))
    return tag("th", shown, scope="col", aria_sort="descending" if is_chosen else None)


def _folded(map: Map, lines: Sequence[Html], heads: Sequence[str | Html]) -> Html:
    """The table of the first groups, and a fold with the table of the others."""
    head = table_head(_grouped_by(map), *heads)
    first = table_of(head, lines[:GROUPS_SHOWN], "figures clusters")
    if not (rest := lines[GROUPS_SHOWN:]):
        return first
    words = f"{len(rest)} more {_grouped_by(map)}s"
    return join(first, tag("details", tag("summary", words), table_of(head, rest, "figures clusters"), cls="fold"))


def _missed_of_two(group: QuestionGroup, run: str, other: str) -> str:
    """Return how many questions of a group two runs miss, such as "16 → 7 of 52"."""
    counts = " → ".join(f"{missed_count(group.hits[name]):,}" for name in (run, other))
    return f"{counts} of {group.hits[run].n:,}"


def _grouped_by(map: Map) -> str:
    return "relation" if are_by_relation(known_of(map)) else "question word"


def _opens(map: Map, group: QuestionGroup) -> str:
    return address(map, group=group.id, cluster=None, point=None, selection=None, list=None)


def opened_group(
    map: Map, points: MapPoints, group: QuestionGroup, run: str | None, other: str | None, k: int, view: int
) -> None:
    """Show one group: the questions that `run` misses, its points and what can be done with them."""
    questions, passages = _places(map, group)
    ids = [points.ids[place] for place in questions or passages]
    missed = [] if run is None else missed_questions(map, group.numbers, run, other, k)
    missed_ids = {QUESTION + question.id for question in missed}
    others = [id for id in ids if id not in missed_ids]
    with st.container(key="map-selection"):
        closing = link(f"Show all {_grouped_by(map)}s", address(map, group=None, list=None), cls="quiet")
        show(div(tag("h2", group.name), closing, cls="list-head"))
        if run is not None:
            show(missed_list(map, missed, run, other, k, missed_slice(map, group, run, k)))
        actions(map, ids, group.name, run, k)
        show(tag("p", closeness_sentence(map, group, view), cls="convention"))
        if others:
            number = quantity(len(others), "question" if questions else "passage")
            words = f"{'All' if run is None else 'The other'} {number}"
            listed = point_list(map, points, others, url.number("list", 1, 1, 500))
            show(tag("details", tag("summary", words), listed, cls="fold", open=url.value("list") or None))


def missed_list(map: Map, questions: Sequence[Question], run: str, other: str | None, k: int, slice: str = "") -> Html:
    """The questions that a run misses, each with a link to it, and the ranks of its first relevant passage.

    Args:
        slice: the slice of these questions, in which Question goes from one to the next.
    """
    if not questions:
        return Html("")
    pair = {"a": run, "b": other, "k": k, "slice": slice or None}
    first = [(first_hits(map.study, name), map.study.run(name).hits.k) for name in (run, other) if name is not None]
    lines = []
    for each in questions:
        ranks = " and ".join(f"{ranks.get(each.id) or f'>{depth}'}" for ranks, depth in first)
        opens = link(each.text, url.href(url.QUESTION, {"question": each.id, **pair}))
        lines.append(tag("li", opens, span(f" rank {ranks}", cls="soft")))
    words = f"{quantity(len(questions), 'question')} that {run} misses in the top {k}"
    also = (
        ""
        if other is None
        else tag("p", f"Rank of the first relevant passage in {run} and in {other}.", cls="convention")
    )
    return tag("details", tag("summary", words), also, tag("ul", *lines, cls="map-list"), cls="fold", open=True)
