"""Map: a 2-D projection of questions and passages, coloured by their properties; lasso selections become slices or
batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import streamlit as st

from blindspot.analysis.flips import flip_table
from blindspot.app import hidden_questions, url, who
from blindspot.app import study as opened_study
from blindspot.app.components.empty_page import show_empty_page
from blindspot.app.components.map import clusters, form, selection
from blindspot.app.components.map.data import MapPoints, first_hits, known_of, open_map, points, runs_over
from blindspot.app.components.map.figure import PlaceName, held_figure, selectable
from blindspot.app.components.map.link import map_link
from blindspot.app.components.map.parts import address, opened_point, parameters, quality_line, spread_table, warnings
from blindspot.app.components.marks import choices_fold, notice, relation_label, unbroken
from blindspot.app.components.message import show_last_message
from blindspot.app.components.parts import parts_panel
from blindspot.app.components.path_bar import lead_to
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.entry import enter
from blindspot.app.markup import div, link, show, tag
from blindspot.backend.evaluation.saved_selections import saved_selection
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.maps.cluster_names import cluster_names
from blindspot.backend.maps.colours import (
    BOTH,
    MAP_COLOURS,
    NEITHER,
    ONLY_FIRST,
    ONLY_SECOND,
    SEVERAL,
    MapColour,
    colour_values,
    hits_of_two,
)
from blindspot.backend.maps.edits import Clusters, clusters_of
from blindspot.backend.maps.stored import Map, maps_of
from blindspot.backend.text.number_words import quantity
from blindspot.backend.upkeep.study_path import NextStep
from blindspot.db.question_table import rows_of

NO_RUN = "no other run"
APART = "The passages of the worst cluster lie apart: clusters are found among the vectors, not in the picture. "


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
    of_relations = "relation" if any(question.relation for question in known_of(map).questions) else "kind"
    usual = "hit" if "hit" in colours else of_relations
    colour = colours[url.one_of("by", list(colours), usual)]
    with st.container(key="pickers"):
        choices = Choices(names, {name: each.title for name, each in colours.items()}, usual, runs)
        other, k, view = _pickers(map, choices, run, colour)
    if hidden_questions.any_hidden(study, map.question_ids):
        show(hidden_questions.notice_of_hidden(len(hidden_questions.hidden_ids(study).intersection(map.question_ids))))
        return
    state = clusters_of(map)
    rows = clusters.rows_of_runs(map, state, runs, k)
    coloured = Colouring(colour, run, other, k)
    lead_to(_next_step(map, state, rows, coloured))
    with head:
        _answer(map, rows, coloured)
        show(choices_fold(f"map {name}, by {colour.title}, k = {k}"))
    _picture(map, state, rows, coloured, view)
    missing = coloured.run_of_misses
    clusters.table(map, state, clusters.by_misses(rows, missing) if missing else rows, k, _open_cluster(state))
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
    widths = {"map": 2.4, "by": 2.0, "run": 2.2, "against": 2.2, "k": 1.2, "view": 2.4, "new": 1.7}
    absent = {"run": run is None, "against": not compares, "view": len(map.encoders) == 1, "new": not can_make}
    shown = [name for name in widths if not absent.get(name)]
    columns = dict(zip(shown, st.columns([widths[name] for name in shown], vertical_alignment="bottom"), strict=True))
    other, view = None, 0
    with columns["map"]:
        url.select("Map", "map", maps, maps[0], forget=("point", "cluster", "selection", "list", "view"))
    with columns["by"]:
        url.select("Colour by", "by", list(colours), usual, format_func=colours.__getitem__)
    if run is not None:
        with columns["run"]:
            url.select("Run", "run", runs, runs[0], forget=("against",))
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


class Marks(NamedTuple):
    """What is marked on the map: the points with rings, by id; what the legend says of them; the names of clusters; and what
    the page says of the rings.
    """

    ringed: frozenset[str]
    rings: str
    names: tuple[PlaceName, ...]
    note: str = ""


def _next_step(map: Map, state: Clusters, rows: Sequence[clusters.ClusterRow], colouring: Colouring) -> NextStep | None:
    """Return the step to the missed questions of the cluster that the answer names, or of the open cluster."""
    run, other, k = colouring.run_of_misses, colouring.other, colouring.k
    if run is None:
        return None
    if (cluster := _open_cluster(state)) is not None:
        questions = clusters.missed_questions(map, state, cluster, run, k)
        if questions:
            words = f"Read the {quantity(len(questions), 'question')} that {run} misses here"
            return NextStep(words, url.QUESTION, parameters={"question": questions[0].id, "a": run, "b": other, "k": k})
    worst = clusters.most_missed(rows, run)
    if worst is None:
        return None
    words = f"See the {quantity(clusters.missed_count(worst, run), 'missed question')} of the cluster “{worst.name}”"
    return NextStep(words, url.MAP, parameters=parameters(map, cluster=worst.id + 1))


def _answer(map: Map, rows: Sequence[clusters.ClusterRow], colouring: Colouring) -> None:
    """Show what the colours say, where they show hits and misses; else what is on the map."""
    run, other, k = colouring.run_of_misses, colouring.other, colouring.k
    if run is None:
        show(
            tag(
                "h1",
                f"{quantity(map.shown_questions, 'question')} among {quantity(len(map.ordinals), 'passage')}",
            )
        )
        return
    worst = clusters.most_missed(rows, run)
    where = "" if worst is None else _worst_cluster(rows, worst, run, other)
    if other is None:
        first = first_hits(map.study, run)
        ranks = [first[id] for id in map.question_ids if id in first]
        missed = sum(not 0 < rank <= k for rank in ranks)
        interval = clusters.missed_interval(map, first, k)
        title = f"{run} misses {missed:,} of {quantity(len(ranks), 'question')} in the top {k}{interval}"
        show(tag("h1", unbroken(title, [run])), tag("p", where))
        return
    compared = opened_study.comparison(
        map.study, run, other, "answers", opened_study.rule_of_runs(map.study, run, other)
    )
    on_map = rows_of(compared.questions, map.question_ids)
    on_map = on_map[on_map >= 0]
    cells = flip_table(compared.first_ranks_a[on_map], compared.first_ranks_b[on_map], k)
    pair = {"a": run, "b": other, "k": k}
    lost = link(f"{cells.only_a:,} that {run} finds", url.href(url.COMPARE, {**pair, "cell": "only_a"}))
    found = link(f"{cells.only_b:,}", url.href(url.COMPARE, {**pair, "cell": "only_b"}))
    names = [run, other]
    of_missed = f" of the {cells.only_b + cells.neither:,} questions that {run} misses in the top {k}"
    show(
        tag("h1", unbroken(f"{other} finds ", names), found, unbroken(of_missed, names)),
        tag("p", "It misses ", lost, ". ", where),
    )


def _worst_cluster(rows: Sequence[clusters.ClusterRow], worst: clusters.ClusterRow, run: str, other: str | None) -> str:
    """Say how many questions a run misses in its worst cluster, and how many of them the best other run misses."""
    n = worst.hits[run].n
    said = f"{run} misses the most questions in the cluster “{worst.name}”: {clusters.missed_count(worst, run):,} of {quantity(n, 'question')}"
    best = clusters.best_other(rows, run, other)
    if best is None or not worst.hits[best].n:
        return f"{said}."
    of = "" if worst.hits[best].n == n else f" of {worst.hits[best].n:,}"
    return f"{said}; {best} misses {clusters.missed_count(worst, best) or 'none'}{of} there."


def _second_run(runs: list[str], run: str) -> str | None:
    """Show the choice of the run that the colours compare `run` with, and return it."""
    others = [name for name in runs if name != run]
    chosen = url.select("Compared with", "against", [NO_RUN, *others], NO_RUN)
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
            help="Number of top-ranked passages that count as hits and that can be sent to judging.",
        )
    )


def _encoder_view(map: Map) -> int:
    """Show the choice of the encoder of two that places the points, and return its index."""
    words = {"0": f"before: {map.encoders[0]}", "1": f"after: {map.encoders[1]}"}
    return int(url.select("Placed by", "view", list(words), "0", format_func=words.__getitem__))


def _open_cluster(clusters: Clusters) -> int | None:
    number = url.number("cluster", 0, 0) - 1
    return number if number in clusters.ids else None


def _picture(
    map: Map,
    state: Clusters,
    rows: Sequence[clusters.ClusterRow],
    colouring: Colouring,
    view: int,
) -> None:
    """Show the map and what is selected on it."""
    shown, cluster = points(map), _open_cluster(state)
    saved = saved_selection(map.study, url.value("selection")).points if url.value("selection") else None
    point = url.value("point")
    with st.container(key="map-body"):
        picture_column, right = st.columns([7, 3])
        with picture_column:
            with st.container(key="map-picture", height="stretch"):
                ringed, rings, note = _ringed_points(map, shown, state, cluster, saved), "", ""
                run, k = colouring.run_of_misses, colouring.k
                if not ringed and run and (worst := clusters.most_missed(rows, run)) is not None:
                    note = APART if clusters.lie_apart(map, state, worst.id, view) else ""
                    ringed = clusters.missed_points(map, shown, state, worst.id, run, k)
                    rings = f"missed in the cluster “{worst.name}”: question, and its passage"
                names = _names(map, state, rows, colouring, view)
                _plot(map, shown, state, colouring, view, Marks(ringed, rings, names, note))
            show(warnings(map, len(selectable(len(map)))))
        with right:
            with st.container():
                if point in shown.number:
                    show(opened_point(map, shown, shown.number[point], view))
                elif point:
                    show(notice("This point is not on this map. ", link("Close", address(map, point=None))))
            _selection_panel(map, shown, state, rows, cluster, saved, colouring, bool(point))


def _names(
    map: Map,
    state: Clusters,
    rows: Sequence[clusters.ClusterRow],
    colouring: Colouring,
    view: int,
) -> tuple[PlaceName, ...]:
    """Return the names on the map: of the open cluster and those with the most misses, with their numbers in the list,
    else of the largest.
    """
    run, cluster = colouring.run_of_misses, _open_cluster(state)
    if run is None or clusters.most_missed(rows, run) is None:
        return clusters.names_on_map(map, state, view)
    most = [row.id for row in clusters.by_misses(rows, run) if clusters.missed_count(row, run)]
    listed = [id for id in most[: clusters.MISSES_SHOWN] if id != cluster]
    ids = [*([] if cluster is None else [cluster]), *listed[: clusters.MISSES_SHOWN - (cluster is not None)]]
    names = clusters.names_on_map(map, state, view, ids, {id: number for number, id in enumerate(most, 1)})
    if cluster is not None:
        return names
    return (*names, PlaceName("questions of 1", *clusters.place_of_missed(map, state, most[0], view, run, colouring.k)))


def _selection_panel(
    map: Map,
    points: MapPoints,
    state: Clusters,
    rows: Sequence[clusters.ClusterRow],
    cluster: int | None,
    saved_ids: tuple[str, ...] | None,
    colouring: Colouring,
    reading: bool,
) -> None:
    _, run, other, k = colouring
    ids = selection.selected_ids(map)
    if cluster is not None:
        clusters.opened_cluster(map, points, state, cluster, run, other, k)
    elif saved_ids is not None:
        on_map = [id for id in saved_ids if id in points.number]
        if len(on_map) < len(saved_ids):
            show(notice(f"Not on this map: {quantity(len(saved_ids) - len(on_map), 'point')} of this selection."))
        selection.panel(map, points, on_map, url.value("selection"), run, k)
    elif ids:
        selection.panel(map, points, ids, "Selection", run, k)
    elif not reading:
        if run is not None:
            show(clusters.misses_by_cluster(map, rows, run, other, k))
        selection.hint()


def _ringed_points(
    map: Map, points: MapPoints, clusters: Clusters, cluster: int | None, saved_ids: tuple[str, ...] | None
) -> frozenset[str]:
    """Return the points to mark with rings: the open cluster and the saved selection. The browser marks the open point
    itself.
    """
    marked = set(saved_ids or ())
    if cluster is not None:
        marked.update(
            points.ids[map.shown_questions + place] for place in np.flatnonzero(clusters.labels == cluster).tolist()
        )
    return frozenset(marked)


def _plot(
    map: Map,
    points: MapPoints,
    state: Clusters,
    colouring: Colouring,
    view: int,
    marks: Marks,
) -> None:
    colour, run, other, k = colouring

    def values_of(name: str | None) -> list[str]:
        first, hits = (first_hits(map.study, name), map.study.run(name)) if name else (None, None)
        return colour_values(map, known_of(map), colour.name, state, first, hits, k)

    values = values_of(run if colour.needs_run else None)
    names: Mapping[str, str] = {}
    if colour.name == "cluster":
        names = {state.name(id): name for id, name in cluster_names(known_of(map), state).items()}
    elif run is not None and other is not None:
        values = hits_of_two(values, values_of(other))
        names = _names_of_cells(map, run, other)

    def labelled(name: str) -> str:
        is_relation = colour.relations and name != SEVERAL and name.startswith("P")
        return relation_label(name) if is_relation else names.get(name, name)

    sizes = "Large: questions; small: passages. " if map.shown_questions and len(map.ordinals) else ""
    if sizes and marks.names:
        sizes += "Names and clusters are of passages; their questions may lie elsewhere. "
    if sizes or marks.note:
        show(tag("p", sizes, marks.note, cls="convention"))
    st.plotly_chart(
        held_figure(
            map,
            values,
            view,
            marks.ringed,
            points.titles,
            points.starts,
            points.ids,
            labelled,
            names=marks.names,
            rings=marks.rings,
        ),
        key=selection.plot_key(map),
        on_select=lambda: selection.store_selection(map),
        selection_mode=("points", "box", "lasso"),
        height="stretch",
        config={"scrollZoom": True, "displaylogo": False, "modeBarButtonsToRemove": ["toImage"]},
        alt=(
            f"Map {map.name}: {quantity(len(map), 'point')}, coloured by {colour.title}. The clusters below list the "
            "same passages."
        ),
    )
    map_link()
    if colour.note is not None and run:
        show(tag("p", colour.note(run, k), cls="convention"))


def _names_of_cells(map: Map, run: str, other_run: str) -> dict[str, str]:
    """Return the legend's words for the questions that both, one or neither of two runs find: what a training mended
    and broke, if the runs are of the map's first and second encoder.
    """
    about = opened_study.shown_runs(map.study)
    trained = [about[name].get("retriever") for name in (run, other_run)] == list(map.encoders)
    words = ("still found", "broken: only {a} finds", "fixed: only {b} finds", "still missed")
    plain = ("both find", "only {a} finds", "only {b} finds", "neither finds")
    cells = (BOTH, ONLY_FIRST, ONLY_SECOND, NEITHER)
    return {
        cell: name.format(a=run, b=other_run) for cell, name in zip(cells, words if trained else plain, strict=True)
    }


enter(page)
