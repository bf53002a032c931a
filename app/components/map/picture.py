"""The picture of the Map page: what stands out on it, and what its colours mean."""

from __future__ import annotations

from typing import NamedTuple

import streamlit as st

from blindspot.app import study as opened_study
from blindspot.app.components.map import selection
from blindspot.app.components.map.data import MapPoints, first_hits, known_of
from blindspot.app.components.map.figure import held_figure
from blindspot.app.components.map.parts import METHODS
from blindspot.app.components.marks import relation_label
from blindspot.app.markup import show, tag
from blindspot.backend.maps.clusters import Clusters
from blindspot.backend.maps.colours import (
    BOTH,
    NEITHER,
    ONLY_FIRST,
    ONLY_SECOND,
    POSITIVE,
    SEVERAL,
    MapColour,
    colour_values,
    hits_of_two,
)
from blindspot.backend.maps.stored import Map
from blindspot.backend.text.number_words import quantity

PLOT_SETTINGS = {"scrollZoom": True, "displaylogo": False, "modeBarButtonsToRemove": ["toImage"]}


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


def plot(
    map: Map, points: MapPoints, clusters: Clusters, coloured: Colouring, view: int, open_cluster: int | None
) -> None:
    """Show the map. The points of an open cluster do not fade; else, where the colours show hits and misses, the
    questions.

    Args:
        view: index of the encoder that places the points.
    """
    colour, run, other, k = coloured

    def values_of(name: str | None) -> list[str]:
        first, hits = (first_hits(map.study, name), map.study.run(name)) if name else (None, None)
        return colour_values(map, known_of(map), colour.name, clusters, first, hits, k)

    names: dict[str, str] = {}
    values = values_of(run if colour.needs_run else None)
    if run is not None and other is not None:
        values, names = hits_of_two(values, values_of(other)), _names_of_cells(map, run, other)
    if colour.name != "label":  # whose positives are those that people judged
        names[POSITIVE] = "positive, gold or judged"

    def labelled(name: str) -> str:
        is_relation = colour.relations and name != SEVERAL and name.startswith("P")
        return relation_label(name) if is_relation else names.get(name, name)

    strong = None
    if open_cluster is not None:
        strong = frozenset(points.ids[map.shown_questions + place] for place in clusters.members(open_cluster))
    elif coloured.run_of_misses is not None and map.shown_questions:
        strong = frozenset(points.ids[: map.shown_questions])
    st.plotly_chart(
        held_figure(map, values, view, strong, points.hovers, points.ids, labelled),
        key=selection.plot_key(map),
        on_select=lambda: selection.store_selection(map),
        selection_mode=("points", "box", "lasso"),
        height="stretch",
        config=PLOT_SETTINGS,
        alt=(
            f"Map {map.name}: {quantity(len(map), 'point')}, coloured by {colour.title}. The clusters below list the "
            "same passages."
        ),
    )
    drawn = (
        f"{METHODS[map.manifest['request']['method']]} of the vectors of {map.encoders[view]}: "
        f"{quantity(map.shown_questions, 'question')} (large), {len(map.ordinals):,} of "
        f"{quantity(len(map.study.corpus), 'passage')}. "
    )
    note = colour.note(run, k) if colour.note is not None and run else ""
    if note and map.study.settings.unit == "fact":
        note += " 95% intervals, in which wordings of a fact count as one."
    show(tag("p", drawn, note, cls="convention"))


def _names_of_cells(map: Map, run: str, other: str) -> dict[str, str]:
    """Return the legend's words for the questions that both, one or neither of two runs find: what a training mended
    and broke, if they are of the map's first and second encoder.
    """
    runs = opened_study.runs(map.study)
    if [runs[name].get("retriever") for name in (run, other)] == map.encoders:
        return {BOTH: "still found", ONLY_FIRST: "broken", ONLY_SECOND: "fixed", NEITHER: "still missed"}
    return {
        BOTH: "both find",
        ONLY_FIRST: f"only {run} finds",
        ONLY_SECOND: f"only {other} finds",
        NEITHER: "neither finds",
    }
