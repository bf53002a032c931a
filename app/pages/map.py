"""Map: a 2-D projection of questions and passages, coloured by their properties; what a lasso selects goes to judging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import streamlit as st

from blindspot.analysis.accuracy import Estimate
from blindspot.app import study as opened_study
from blindspot.app import url, who
from blindspot.app.components.empty_page import show_empty_page
from blindspot.app.components.map import clusters, form, selection
from blindspot.app.components.map.data import MapPoints, first_hits, known_of, open_map, points, runs_over
from blindspot.app.components.map.figure import selectable
from blindspot.app.components.map.parts import address, quality_line, warnings
from blindspot.app.components.map.picture import Colouring, plot
from blindspot.app.components.map.point import point_panel
from blindspot.app.components.marks import choices_fold, notice, unbroken
from blindspot.app.components.message import show_last_message
from blindspot.app.components.parts import parts_panel
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.entry import enter
from blindspot.app.markup import Html, div, link, show, tag
from blindspot.backend.core.result_table import stated_interval
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.maps.clusters import Clusters, clusters_of
from blindspot.backend.maps.colours import MAP_COLOURS, MapColour
from blindspot.backend.maps.point_values import success_of
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
    usual = "hit" if "hit" in colours else "relation"
    colour = colours[url.one_of("by", list(colours), usual)]
    with st.container(key="pickers"):
        choices = Choices(names, {name: each.title for name, each in colours.items()}, usual, runs)
        other, k, view = _pickers(map, choices, run, colour)
    coloured, state = Colouring(colour, run, other, k), clusters_of(map)
    number = url.number("cluster", 0, 0) - 1
    cluster = number if number in state.ids else None
    with head:
        show(_answer(map, coloured), choices_fold(f"map {name}, by {colour.title}, k = {k}"))
    _picture(map, state, coloured, view, cluster)
    in_table = list(dict.fromkeys(name for name in (run, other, *runs) if name is not None))[:RUNS_SHOWN]
    clusters.table(map, state, in_table, k, cluster)
    show(
        tag(
            "details", tag("summary", "Statistics: how far the map can be trusted"), quality_line(map), cls="panel fold"
        )
    )
    parts_panel(study, "map", list(maps), can_download=False)


def _answer(map: Map, coloured: Colouring) -> Html:
    """The title: how many of its questions the runs miss, where the colours show hits and misses; else what is on the
    map.
    """
    run, other, k = coloured.run_of_misses, coloured.other, coloured.k
    if run is None:
        return tag("h1", f"{quantity(map.shown_questions, 'question')} among {quantity(len(map.ordinals), 'passage')}")
    hits = _hits(map, run, k)
    missed = f"{run} misses {_missed(hits):,} of {quantity(hits.n, 'question')}"
    if other is not None:
        others = _hits(map, other, k)
        return tag(
            "h1", unbroken(f"{missed} in the top {k}, {other} {_missed(others):,} of {others.n:,}", [run, other])
        )
    share = ""
    if hits.low is not None:
        value, low, high = hits.percent
        share = f": {100 - value:.1f}% {stated_interval(100 - high, 100 - low)}"
    return tag("h1", unbroken(f"{missed} in the top {k}{share}", [run]))


def _hits(map: Map, run: str, k: int) -> Estimate:
    known = known_of(map)
    return success_of(range(len(known.questions)), known, first_hits(map.study, run), k)


def _missed(hits: Estimate) -> int:
    return round(hits.n * (1 - (hits.value or 0.0)))


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
        about_last = ("point", "cluster", "list", "view")
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


def _picture(map: Map, state: Clusters, coloured: Colouring, view: int, cluster: int | None) -> None:
    """Show the map, and beside it the open point and what is selected."""
    known = points(map)
    with st.container(key="map-body"):
        picture_column, right = st.columns([7, 3])
        with picture_column:
            with st.container(key="map-picture", height="stretch"):
                plot(map, known, state, coloured, view, cluster)
            show(warnings(map, len(selectable(len(map)))))
        with right:
            _panels(map, known, state, coloured, view, cluster)


def _panels(map: Map, known: MapPoints, state: Clusters, coloured: Colouring, view: int, cluster: int | None) -> None:
    _, run, other, k = coloured
    point = url.value("point")
    if point in known.number:
        runs = [name for name in (run, other) if name is not None]
        show(point_panel(map, known, known.number[point], runs, k, view))
    elif point:
        show(notice("This point is not on this map. ", link("Close", address(map, point=None))))
    if cluster is not None:
        clusters.opened_cluster(map, known, state, cluster, run, k)
    elif ids := selection.selected_ids(map):
        selection.panel(map, known, ids, "Selection", run, k)
    elif not point:
        selection.hint()


enter(page)
