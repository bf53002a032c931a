"""Map: a 2-D projection of questions and passages, coloured by their properties; lasso selections become slices or
batches.
"""

from __future__ import annotations

import numpy as np
import streamlit as st

from blindspot.app import hidden_questions, url, who
from blindspot.app import study as opened_study
from blindspot.app.components.map import clusters, form, selection
from blindspot.app.components.map.data import MapPoints, first_hits, known_of, open_map, points, runs_over
from blindspot.app.components.map.figure import held_figure, selectable, stacked
from blindspot.app.components.map.link import map_link
from blindspot.app.components.map.parts import address, opened_point, quality_line, spread_table, warnings
from blindspot.app.components.marks import empty, notice, relation_label
from blindspot.app.components.next_step import show_empty_page
from blindspot.app.components.parts import parts_panel
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.entry import enter
from blindspot.app.markup import Html, div, link, show, tag
from blindspot.backend.evaluation.saved_selections import saved_selection
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.maps.colours import MAP_COLOURS, SEVERAL, MapColour, colour_values
from blindspot.backend.maps.edits import Clusters, clusters_of
from blindspot.backend.maps.stored import Map, maps_of
from blindspot.backend.text.number_words import count_and_noun


def page() -> None:
    show(style_sheet("map/page.css"))
    study = opened_study.current()
    maps = maps_of(study)
    selection.show_last_message()
    if not maps or url.value("new"):
        _new_map_form(study, set(maps))
        if not maps:
            return
    names = list(maps)[::-1]
    with st.container(key="pickers"):
        columns = st.columns([3, 2.2, 2.4, 1.3, 2.2, 1.7], vertical_alignment="bottom")
        with columns[0]:
            name = url.select("Map", "map", names, names[0], forget=("point", "cluster", "selection", "list", "view"))
        map = open_map(study, name)
        runs = runs_over(map)
        with columns[1]:
            colours = {colour.name: colour for colour in MAP_COLOURS if runs or not colour.needs_run}
            of_relations = "relation" if any(question.relation for question in known_of(map).questions) else "kind"
            usual = "hit" if "hit" in colours else of_relations
            by = url.select("Colour by", "by", list(colours), usual, format_func=lambda name: colours[name].title)
        with columns[2]:
            run = url.select("Run", "run", runs, runs[0]) if runs else None
        with columns[3]:
            k = _chosen_k()
        with columns[4]:
            view = _encoder_views(map)
        with columns[5]:
            if not url.value("new") and who.may(study.labels_path, "make maps"):
                show(div(link("Create another map", address(map, new=1), cls="quiet"), cls="map-another"))
    if hidden_questions.any_hidden(study, map.question_ids):
        show(hidden_questions.notice_of_hidden(len(hidden_questions.hidden_ids(study).intersection(map.question_ids))))
        return
    show(tag("h1", _title(map, colours[by], run, k)), _both_views(map, view, runs, run, k) if by == "hit" else "")
    _picture(map, colours[by], run, k, view)
    parts_panel(study, "map", list(maps), can_download=False)


def _title(map: Map, colour: MapColour, run: str | None, k: int) -> str:
    """Return what the colours show, where they show hits and misses; else what is on the map."""
    if colour.name != "hit" or run is None:
        return f"{count_and_noun(map.shown_questions, 'question')} among {count_and_noun(len(map.ordinals), 'passage')}"
    first = first_hits(map.study, run)
    ranks = [first[id] for id in map.question_ids if id in first]
    missed = sum(not 0 < rank <= k for rank in ranks)
    return f"{run} misses {missed:,} of {count_and_noun(len(ranks), 'question')} at {k}"


def _both_views(map: Map, views: list[int], runs: list[str], run: str | None, k: int) -> Html:
    """Say of two pictures side by side that their colours are those of one run, and what the other encoder's run finds
    and misses of its questions.
    """
    if run is None or len(views) < 2:
        return Html("")
    words = f"Both pictures show the same points, in the colours of {run}."
    retrievers = {name: opened_study.shown_runs(map.study)[name].get("retriever") for name in runs}
    encoder = next((each for each in map.encoders if each != retrievers[run]), "")
    other = next((name for name, retriever in retrievers.items() if retriever == encoder), None)
    if other is None:
        return tag("p", words)
    first, second = first_hits(map.study, run), first_hits(map.study, other)
    found = [(0 < first[id] <= k, 0 < second[id] <= k) for id in map.question_ids if id in first and id in second]
    gained, lost = found.count((False, True)), found.count((True, False))
    compare = link(
        "See the questions", url.href(url.COMPARE, {"a": run, "b": other, "k": k, "cell": "only_b"}), cls="quiet after"
    )
    words += (
        f" {other} finds {count_and_noun(gained, 'question')} that {run} misses, and misses {lost:,} that it finds."
    )
    return tag("p", words, compare)


ABOUT = (
    "A map is a 2-D projection of an encoder's vectors. It shows which questions and passages the encoder considers "
    "similar, what forms clusters, and where the misses are. Creating a map takes a minute or two."
)


def _new_map_form(study, taken_names: set[str]) -> None:
    if not taken_names and not study.has_corpus:
        show_empty_page(study, "No maps yet", ABOUT)
        return
    if not taken_names:
        show(empty("No maps yet", ABOUT))
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


def _encoder_views(map: Map) -> list[int]:
    if len(map.encoders) == 1:
        return [0]
    words = {"both": "before and after", "0": f"before: {map.encoders[0]}", "1": f"after: {map.encoders[1]}"}
    chosen = url.select("Encoders", "view", list(words), "both", format_func=words.__getitem__)
    return [0, 1] if chosen == "both" else [int(chosen)]


def _picture(map: Map, colour: MapColour, run: str | None, k: int, views: list[int]) -> None:
    shown, state = points(map), clusters_of(map)
    cluster_number = url.number("cluster", 0, 0) - 1
    cluster = cluster_number if cluster_number in state.ids else None
    saved = saved_selection(map.study, url.value("selection")).points if url.value("selection") else None
    point = url.value("point")
    with st.container(key="map-body"):
        picture_column, right = st.columns([7, 4] if len(views) == 1 else [8, 3])
        with picture_column:
            with st.container(key="map-picture", height="stretch"):
                _plot(map, shown, state, colour, run, k, views, _ringed_points(map, shown, state, cluster, saved))
            show(warnings(map, len(selectable(len(map), len(views)))))
        with right:
            with st.container():
                if point in shown.number:
                    show(opened_point(map, shown, shown.number[point], views[0]))
                elif point:
                    show(notice("This point is not on this map. ", link("Close", address(map, point=None))))
            _selection_panel(map, shown, state, cluster, saved, run, k, bool(point))
    clusters.table(map, state, runs_over(map), k, cluster)
    statistics = tag("summary", "Statistics: how far the map can be trusted, and the spread of each group")
    show(tag("details", statistics, quality_line(map), spread_table(map), cls="panel fold"))


def _selection_panel(
    map: Map,
    points: MapPoints,
    state: Clusters,
    cluster: int | None,
    saved: tuple[str, ...] | None,
    run: str | None,
    k: int,
    reading: bool,
) -> None:
    ids = selection.selected_ids(map)
    if cluster is not None:
        clusters.opened_cluster(map, points, state, cluster, run, k)
    elif saved is not None:
        on_map = [id for id in saved if id in points.number]
        if len(on_map) < len(saved):
            show(notice(f"Not on this map: {count_and_noun(len(saved) - len(on_map), 'point')} of this selection."))
        selection.panel(map, points, on_map, url.value("selection"), run, k)
    elif ids:
        selection.panel(map, points, ids, "Selection", run, k)
    elif not reading:
        selection.hint(map, run)


def _ringed_points(
    map: Map, points: MapPoints, state: Clusters, cluster: int | None, saved: tuple[str, ...] | None
) -> frozenset[str]:
    """Return the points to mark with rings: the open cluster and the saved selection. The browser marks the open point
    itself.
    """
    marked = set(saved or ())
    if cluster is not None:
        marked.update(
            points.ids[map.shown_questions + place] for place in np.flatnonzero(state.labels == cluster).tolist()
        )
    return frozenset(marked)


def _plot(
    map: Map,
    points: MapPoints,
    state: Clusters,
    colour: MapColour,
    run: str | None,
    k: int,
    views: list[int],
    marked: frozenset[str],
) -> None:
    measured = run if colour.needs_run else None
    first = first_hits(map.study, measured) if measured else None
    point_values = colour_values(
        map, known_of(map), colour.name, state, first, map.study.run(measured) if measured else None, k
    )
    labelled = (
        (lambda name: relation_label(name) if name != SEVERAL and name.startswith("P") else name)
        if colour.relations
        else str
    )
    plot = held_figure(map, point_values, views, marked, points.titles, points.starts, points.ids, labelled)
    st.plotly_chart(
        stacked(plot) if len(views) > 1 and url.value("stacked") else plot,
        key=selection.plot_key(map),
        on_select=lambda: selection.store_selection(map),
        selection_mode=("points", "box", "lasso"),
        height="stretch",
        config={"scrollZoom": True, "displaylogo": False, "modeBarButtonsToRemove": ["toImage"]},
        alt=(
            f"Map {map.name}: {count_and_noun(len(map), 'point')}, coloured by {colour.title}. The clusters below list the "
            "same passages."
        ),
    )
    map_link()
    if colour.note is not None and run:
        show(tag("p", colour.note(run, k), cls="convention"))


enter(page)
