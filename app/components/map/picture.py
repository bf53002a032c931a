"""The picture of the Map page: what stands out on it, which names are on it, and what its colours mean."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import streamlit as st

from blindspot.app.components.map import clusters, form, groups, selection
from blindspot.app.components.map.data import MapPoints, first_hits, known_of
from blindspot.app.components.map.figure import Marks, PlaceName, held_figure, plot_settings
from blindspot.app.components.map.link import map_link
from blindspot.app.components.map.shown import Shown
from blindspot.app.components.marks import relation_label
from blindspot.app.markup import show, tag
from blindspot.backend.maps.cluster_names import cluster_names
from blindspot.backend.maps.colours import (
    BOTH,
    MISSED,
    NEITHER,
    ONLY_FIRST,
    ONLY_SECOND,
    POSITIVE,
    SEVERAL,
    colour_values,
    hits_of_two,
    misses_of_two,
)
from blindspot.backend.maps.question_groups import are_by_relation
from blindspot.backend.text.number_words import quantity

MANY_RINGS = 60  # if more points than so many are marked, all others fade, and none has a ring


def plot(shown: Shown, points: MapPoints, marks: Marks) -> None:
    map, state, (colour, run, other, k) = shown.map, shown.clusters, shown.colouring

    def values_of(name: str | None) -> list[str]:
        first, hits = (first_hits(map.study, name), map.study.run(name)) if name else (None, None)
        return colour_values(map, known_of(map), colour.name, state, first, hits, k)

    values = values_of(run if colour.needs_run else None)
    names: Mapping[str, str] = {}
    if colour.name == "cluster":
        names = {state.name(id): name for id, name in cluster_names(known_of(map), state).items()}
    elif run is not None and other is not None:
        values = hits_of_two(values, values_of(other))
        names = _names_of_cells(run, other, shown.is_training)
    elif shown.colouring.run_of_misses is not None and (reference := shown.reference) is not None:
        values = misses_of_two(values, values_of(reference))
        names = {MISSED: f"missed; {reference} finds it", NEITHER: f"missed by {reference} too"}

    if colour.name != "label":  # whose positives are those that people judged
        names = {POSITIVE: "positive, gold or judged", **names}

    def labelled(name: str) -> str:
        is_relation = colour.relations and name != SEVERAL and name.startswith("P")
        return relation_label(name) if is_relation else names.get(name, name)

    named = _names(shown)
    st.plotly_chart(
        held_figure(map, values, shown.view, marks, points.hovers, points.ids, labelled, names=named),
        key=selection.plot_key(map),
        on_select=lambda: selection.store_selection(map),
        selection_mode=("points", "box", "lasso"),
        height="stretch",
        config=plot_settings(),
        alt=(
            f"Map {map.name}: {quantity(len(map), 'point')}, coloured by {colour.title}. The clusters below list the "
            "same passages."
        ),
    )
    map_link(shown.lines, groups.questions_by_group(map, points, shown.groups))
    note = colour.note(run, k) if colour.note is not None and run else ""
    unit = map.study.settings.unit
    note += " 95% intervals, in which wordings of a fact count as one." if note and unit == "fact" else ""
    show(tag("p", f"{_projection(shown)}. {_about_names(shown) if named else ''}", note, cls="convention"))


def marks_of(shown: Shown, points: MapPoints, saved_ids: tuple[str, ...] | None) -> Marks:
    """Return what stands out: the open question and what its lines lead to; the open cluster and the saved selection; the
    open group; else, where the colours show hits and misses, the questions. The browser marks the open point itself.
    """
    map = shown.map
    if shown.point is not None and shown.point.is_question:
        return Marks(strong=frozenset((points.ids[shown.point.number], *itertools.chain(*shown.lines))))
    marked = set(saved_ids or ()).intersection(points.number)
    if shown.cluster is not None:
        marked.update(points.ids[map.shown_questions + place] for place in shown.clusters.members(shown.cluster))
    if marked:
        many = len(marked) > MANY_RINGS
        return Marks(strong=frozenset(marked)) if many else Marks(ringed=frozenset(marked))
    if shown.group is not None:
        return Marks(strong=frozenset(groups.points_of_group(map, points, shown.group)))
    is_of_hits = shown.colouring.run_of_misses is not None and map.shown_questions > 0
    return Marks(strong=frozenset(points.ids[: map.shown_questions]) if is_of_hits else None)


def _names(shown: Shown) -> tuple[PlaceName, ...]:
    """Return the names on the map: of the clusters where the colours show these, else of the groups of questions."""
    if shown.colouring.colour.name == "cluster":
        return clusters.names_on_map(shown.map, shown.clusters, shown.view)
    run = shown.colouring.run_of_misses
    named = [shown.group] if shown.group is not None else shown.groups if run is None else shown.listed
    return groups.names_on_map(shown.map, named, shown.view, run, shown.colouring.other)


def _projection(shown: Shown) -> str:
    """Return how the points are placed, such as "UMAP of minilm's vectors"."""
    return f"{form.METHODS[shown.map.manifest['request']['method']]} of the vectors of {shown.map.encoders[shown.view]}"


def _about_names(shown: Shown) -> str:
    """Return what the names on the map are."""
    if shown.colouring.colour.name == "cluster":
        return "Names: the largest clusters of passages. "
    by = "relations" if are_by_relation(known_of(shown.map)) else "question words"
    run, other = shown.colouring.run_of_misses, shown.colouring.other
    if run is None:
        return f"Names: {by}. "
    return f"Names: {by}, with how many of their questions {run} misses{f' → {other} misses' if other else ''}. "


def _names_of_cells(run: str, other_run: str, is_training: bool) -> dict[str, str]:
    """Return the legend's words for the questions that both, one or neither of two runs find: what a training mended
    and broke, if they are of a model before and after training.
    """
    words = ("still found", "broken", "fixed", "still missed")
    plain = ("both find", "only {a} finds", "only {b} finds", "neither finds")
    cells = (BOTH, ONLY_FIRST, ONLY_SECOND, NEITHER)
    return {
        cell: name.format(a=run, b=other_run) for cell, name in zip(cells, words if is_training else plain, strict=True)
    }
