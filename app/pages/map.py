"""Map: a 2-D projection of questions and passages, coloured by their properties; lasso selections become slices or
batches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import streamlit as st

from blindspot.app import study as opened_study
from blindspot.app import url, who
from blindspot.app.components.empty_page import show_empty_page
from blindspot.app.components.map import clusters, form, groups, selection
from blindspot.app.components.map.answer import answer
from blindspot.app.components.map.data import MapPoints, known_of, open_map, points, runs_over
from blindspot.app.components.map.figure import selectable
from blindspot.app.components.map.parts import address, quality_line, spread_table, warnings
from blindspot.app.components.map.picture import marks_of, plot
from blindspot.app.components.map.point import point_panel
from blindspot.app.components.map.shown import Colouring, Shown
from blindspot.app.components.marks import choices_fold, notice
from blindspot.app.components.message import show_last_message
from blindspot.app.components.parts import parts_panel
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.entry import enter
from blindspot.app.markup import div, link, show, tag
from blindspot.backend.evaluation.saved_selections import saved_selection
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.maps.colours import (
    MAP_COLOURS,
    MapColour,
)
from blindspot.backend.maps.edits import clusters_of
from blindspot.backend.maps.question_groups import are_by_relation
from blindspot.backend.maps.stored import Map, maps_of
from blindspot.backend.text.number_words import quantity

NO_RUN = "none"
RUNS_SHOWN = 4  # in the table of clusters


def page() -> None:
    show(style_sheet("map/page.css"))
    study = opened_study.current()
    maps = maps_of(study)
    show_last_message()
    if not maps or url.value("new"):
        _new_map_form(study, set(maps))
        if not maps:
            return
    head = st.container()
    names = list(maps)[::-1]
    name = url.one_of("map", names, names[0])
    map = open_map(study, name)
    runs = runs_over(map)
    run = url.one_of("run", runs, runs[0]) if runs else None
    colours = {colour.name: colour for colour in MAP_COLOURS if runs or not colour.needs_run}
    of_relations = "relation" if are_by_relation(known_of(map)) else "kind"
    usual = "hit" if "hit" in colours else of_relations
    colour = colours[url.one_of("by", list(colours), usual)]
    with st.container(key="pickers"):
        choices = Choices(names, {name: each.title for name, each in colours.items()}, usual, runs)
        other, k, view = _pickers(map, choices, run, colour)
    state = clusters_of(map)
    coloured = Colouring(colour, run, other, k)
    shown = Shown(map, state, coloured, view, runs)
    with head:
        answer(shown)
        show(choices_fold(f"map {name}, by {colour.title}, k = {k}"))
    _picture(shown)
    in_table = list(dict.fromkeys(name for name in (run, other, *runs) if name is not None))[:RUNS_SHOWN]
    rows = clusters.rows_of_runs(map, state, in_table, k)
    clusters.table(map, state, rows, coloured.run_of_misses, k, shown.cluster)
    statistics = tag("summary", "Statistics: how far the map can be trusted, and the spread of each group")
    show(tag("details", statistics, quality_line(map), spread_table(map), cls="panel fold"))
    parts_panel(study, "map", list(maps), can_download=False)


class Choices(NamedTuple):
    """What can be chosen: maps, the last made first; titles of colours by name, and the usual colour; runs."""

    maps: list[str]
    colours: dict[str, str]
    usual: str
    runs: list[str]


def _pickers(map: Map, choices: Choices, run: str | None, colour: MapColour) -> tuple[str | None, int, int]:
    """Show the choices that apply, side by side, and return the run compared with, k and the encoder that places the
    points.
    """
    maps, colours, usual, runs = choices
    compares = run is not None and colour.name == "hit"
    can_make = not url.value("new") and who.may(map.study.labels_path, "make maps")
    widths = {"map": 2.3, "by": 2.5, "run": 2.3, "against": 2.5, "k": 1.2, "view": 2.6, "new": 1.2}
    absent = {"run": run is None, "against": not compares, "view": len(map.encoders) == 1, "new": not can_make}
    shown = [name for name in widths if not absent.get(name)]
    columns = dict(zip(shown, st.columns([widths[name] for name in shown], vertical_alignment="bottom"), strict=True))
    other, view = None, 0
    with columns["map"]:
        about_last = ("point", "group", "cluster", "selection", "list", "view")
        url.select("Map", "map", maps, maps[0], forget=about_last, **_named("Map: "))
    with columns["by"]:
        url.select("Colour by", "by", list(colours), usual, **_named("Colour: ", colours.__getitem__))
    if run is not None:
        with columns["run"]:
            url.select("Run", "run", runs, runs[0], forget=("against",), **_named("Run: "))
    if compares and run is not None:
        with columns["against"]:
            other = _second_run(runs, run)
    with columns["k"]:
        k = _chosen_k()
    if "view" in columns:
        with columns["view"]:
            view = _encoder_view(map)
    if can_make:
        with columns["new"]:
            show(div(link("New map", address(map, new=1), cls="quiet"), cls="map-another"))
    return other, k, view


def _named(prefix: str, words: Callable[[str], str] = str) -> dict[str, Any]:
    """Return the settings of a select box whose choice says what it is of, so that it needs no line for its label."""
    return {"format_func": lambda chosen: f"{prefix}{words(chosen)}", "label_visibility": "collapsed"}


def _second_run(runs: list[str], run: str) -> str | None:
    """Show the choice of the run that the colours compare `run` with, and return it."""
    others = [name for name in runs if name != run]
    chosen = url.select("Compared with", "against", [NO_RUN, *others], NO_RUN, **_named("Second run: "))
    return None if chosen == NO_RUN else chosen


ABOUT = (
    "A map is a 2-D projection of an encoder's vectors. It shows which questions and passages the encoder considers "
    "similar, what forms clusters, and where the misses are."
)


def _new_map_form(study, taken_names: set[str]) -> None:
    if not taken_names and not study.has_corpus:
        show_empty_page(study, "No map yet", ABOUT)
        return
    if not taken_names:
        show(tag("h1", "No map yet; making one takes a minute or two"), tag("p", ABOUT, cls="lead"))
    elif url.value("new"):
        show(div(link("Back to the maps", url.href("map", {"map": url.value("map")}), cls="quiet")))
    if who.may(study.labels_path, "make maps"):
        form.form(study, taken_names)


def _chosen_k() -> int:
    options = ["1", "5", "10", "20", "50", "100"]
    chosen = str(url.number("k", HEADLINE_K, 1, 1000))
    return int(
        url.select(
            "k",
            "k",
            sorted({*options, chosen}, key=int),
            str(HEADLINE_K),
            **_named("k = "),
        )
    )


def _encoder_view(map: Map) -> int:
    """Show the choice of the encoder of two that places the points, and return its index."""
    words = {"0": f"{map.encoders[0]} (before)", "1": f"{map.encoders[1]} (after)"}
    return int(url.select("Placed by", "view", list(words), "0", **_named("Placed by ", words.__getitem__)))


def _picture(shown: Shown) -> None:
    """Show the map and what is selected on it."""
    map, known = shown.map, points(shown.map)
    saved = saved_selection(map.study, url.value("selection")).points if url.value("selection") else None
    point = url.value("point")
    with st.container(key="map-body"):
        picture_column, right = st.columns([7, 3])
        with picture_column:
            with st.container(key="map-picture", height="stretch"):
                plot(shown, known, marks_of(shown, known, saved))
            show(warnings(map, len(selectable(len(map)))))
        with right:
            with st.container():
                if shown.point is not None:
                    show(point_panel(shown.point))
                elif point:
                    show(notice("This point is not on this map. ", link("Close", address(map, point=None))))
            _selection_panel(shown, known, saved, bool(point))


def _selection_panel(shown: Shown, points: MapPoints, saved_ids: tuple[str, ...] | None, reading: bool) -> None:
    map, (_, run, other, k), reference = shown.map, shown.colouring, shown.reference
    if shown.cluster is not None:
        clusters.opened_cluster(map, points, shown.clusters, shown.cluster, run, reference, k)
    elif shown.group is not None:
        groups.opened_group(map, points, shown.group, run, reference, k, shown.view)
    elif saved_ids is not None:
        on_map = [id for id in saved_ids if id in points.number]
        if len(on_map) < len(saved_ids):
            show(notice(f"Not on this map: {quantity(len(saved_ids) - len(on_map), 'point')} of this selection."))
        selection.panel(map, points, on_map, url.value("selection"), run, k)
    elif ids := selection.selected_ids(map):
        selection.panel(map, points, ids, "Selection", run, k)
    elif not reading:
        if run is not None:
            if other is None:
                show(groups.list_of_misses(map, shown.listed, run, reference, k, shown.average))
            else:
                show(groups.list_of_changes(map, shown.listed, shown.changes, run, other, k, shown.is_training))
        selection.hint()


enter(page)
