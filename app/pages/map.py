"""Map: a 2-D projection of questions and passages, coloured by their properties; lasso selections become slices or
batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import streamlit as st

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.flips import FlipTable, flip_table
from blindspot.app import hidden_questions, url, who
from blindspot.app import study as opened_study
from blindspot.app.components.empty_page import show_empty_page
from blindspot.app.components.map import clusters, form, groups, selection
from blindspot.app.components.map.data import MapPoints, first_hits, known_of, open_map, points, runs_over
from blindspot.app.components.map.figure import Marks, PlaceName, held_figure, plot_settings, selectable
from blindspot.app.components.map.groups import NetChange
from blindspot.app.components.map.link import Lines, map_link
from blindspot.app.components.map.parts import address, parameters, quality_line, spread_table, warnings
from blindspot.app.components.map.point import OpenPoint, first_ranks_sentence, lines_of, passage_sentence, point_panel
from blindspot.app.components.marks import choices_fold, notice, relation_label, unbroken
from blindspot.app.components.message import show_last_message
from blindspot.app.components.parts import parts_panel
from blindspot.app.components.path_bar import lead_to
from blindspot.app.components.stylesheets import style_sheet
from blindspot.app.entry import enter
from blindspot.app.markup import div, link, show, tag
from blindspot.backend.core.result_table import signed_number, stated_interval
from blindspot.backend.evaluation.comparison import PairedFigures, figures_at
from blindspot.backend.evaluation.saved_selections import saved_selection
from blindspot.backend.evaluation.settings import HEADLINE_K
from blindspot.backend.maps.cluster_names import cluster_names
from blindspot.backend.maps.colours import (
    BOTH,
    MAP_COLOURS,
    MISSED,
    NEITHER,
    ONLY_FIRST,
    ONLY_SECOND,
    POSITIVE,
    SEVERAL,
    MapColour,
    colour_values,
    hits_of_two,
    misses_of_two,
)
from blindspot.backend.maps.edits import Clusters, clusters_of
from blindspot.backend.maps.point_values import questions_of_cluster
from blindspot.backend.maps.question_groups import QuestionGroup, are_by_relation
from blindspot.backend.maps.stored import Map, maps_of
from blindspot.backend.retrieval.full_text import MAX_WORDS
from blindspot.backend.text.number_words import quantity
from blindspot.backend.upkeep.study_path import NextStep
from blindspot.db.question_table import rows_of

NO_RUN = "none"
RUNS_SHOWN = 4  # in the table of clusters
MANY_RINGS = 60  # if more points than so many are marked, all others fade, and none has a ring


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
    if hidden_questions.any_hidden(study, map.question_ids):
        show(hidden_questions.notice_of_hidden(len(hidden_questions.hidden_ids(study).intersection(map.question_ids))))
        return
    state = clusters_of(map)
    coloured = Colouring(colour, run, other, k)
    shown = Shown(map, state, coloured, view, runs)
    lead_to(_next_step(shown))
    with head:
        _answer(shown)
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


def _next_step(shown: Shown) -> NextStep | None:
    """Return the step to the missed questions of the open group or cluster; else to those that one of two runs finds;
    else to the worst group.
    """
    map, (_, _, other, k) = shown.map, shown.colouring
    run, opened, reference = shown.colouring.run_of_misses, shown.group, shown.reference
    if run is None:
        return None
    numbers: Sequence[int] = () if opened is None else opened.numbers
    if shown.cluster is not None:
        numbers = questions_of_cluster(known_of(map), shown.clusters, shown.cluster)
    pair = {"a": run, "b": reference, "k": k}
    if shown.point is not None and shown.point.is_question:
        question = map.question_ids[shown.point.number]
        return NextStep("Open this question", url.QUESTION, parameters={"question": question, **pair})
    if shown.point is not None:
        asked = [*shown.point.asked_by, *(each for _, each in shown.point.retrieving)]
        if not asked:
            return NextStep("Find what has its words", url.FIND, parameters={"words": shown.point.title[:MAX_WORDS]})
        words = "Open the first of its questions"
        return NextStep(words, url.QUESTION, parameters={"question": map.question_ids[asked[0]], **pair})
    if questions := groups.missed_questions(map, numbers, run, reference, k):
        words = f"Read the {quantity(len(questions), 'question')} that {run} misses here"
        slice = groups.missed_slice(map, opened, run, k) if opened is not None else ""
        if slice and reference is not None:  # Question opens the first of the slice, and goes on in it
            return NextStep(words, url.QUESTION, parameters={**pair, "slice": slice})
        return NextStep(words, url.QUESTION, parameters={"question": questions[0].id, **pair})
    if other is not None:
        _, cells = _compared(map, run, other, k)
        is_broken = _is_training(map, run, other) and cells.only_a > 0
        count, finder, cell = (cells.only_a, run, "only_a") if is_broken else (cells.only_b, other, "only_b")
        if count:
            words = f"Look at the {quantity(count, 'question')} that only {finder} finds"
            return NextStep(words, url.COMPARE, parameters={"a": run, "b": other, "k": k, "cell": cell})
    if shown.worst is None:
        return None
    missed = quantity(groups.missed_count(shown.worst.hits[run]), "missed question")
    words = f"See the {missed} {groups.questions_phrase(map, shown.worst)}"
    return NextStep(words, url.MAP, parameters=parameters(map, group=shown.worst.id, cluster=None))


def _compared(map: Map, run: str, other: str, k: int) -> tuple[PairedFigures, FlipTable]:
    """Return the figures of two runs over the map's questions, and how many of them each finds."""
    compared = opened_study.comparison(
        map.study, run, other, "answers", opened_study.rule_of_runs(map.study, run, other)
    )
    rows = rows_of(compared.questions, map.question_ids)
    rows = rows[rows >= 0]
    return figures_at(compared, k, rows), flip_table(compared.first_ranks_a[rows], compared.first_ranks_b[rows], k)


def _answer(shown: Shown) -> None:
    """Show what the colours say, where they show hits and misses; else what is on the map."""
    map, (_, _, other, k) = shown.map, shown.colouring
    run = shown.colouring.run_of_misses
    if run is None:
        words = f"{quantity(map.shown_questions, 'question')} among {quantity(len(map.ordinals), 'passage')}"
        show(tag("h1", words))
        return
    if shown.point is not None and shown.point.is_question and (ranks := first_ranks_sentence(shown.point)):
        show(tag("h1", shown.point.title), tag("p", unbroken(ranks, shown.runs)))
        return
    if shown.point is not None and not shown.point.is_question:
        show(tag("h1", shown.point.title), tag("p", unbroken(passage_sentence(shown.point), shown.runs)))
        return
    in_all = _missed_in_all(shown.average, run, k)
    if shown.group is not None:
        title = tag("h1", unbroken(groups.missed_sentence(map, shown.group, run, shown.reference), shown.runs))
        show(title, tag("p", f"{in_all}.") if other is None else "")
    elif other is None:
        worst = groups.most_missed_sentence(map, shown.groups, run, shown.reference, shown.average)
        show(tag("h1", unbroken(in_all, [run])), tag("p", unbroken(worst, shown.runs)))
    if other is not None:
        _answer_of_two(shown, run, other, is_title=shown.group is None)


def _missed_in_all(hits: Estimate, run: str, k: int) -> str:
    """Return how many of the map's questions a run misses."""
    said = f"{run} misses {groups.missed_count(hits):,} of {quantity(hits.n, 'question')} in the top {k}"
    if hits.low is None:
        return said
    share, low, high = groups.missed_share(hits).percent
    return f"{said}: {share:.1f}% {stated_interval(low, high)}"


def _answer_of_two(shown: Shown, run: str, other: str, is_title: bool) -> None:
    """Show what the second run finds of what the first misses, and where it gains and loses.

    Args:
        is_title: whether this is the title of the page.
    """
    map, k = shown.map, shown.colouring.k
    figures, cells = _compared(map, run, other, k)
    pair = {"a": run, "b": other, "k": k}
    found = link(f"{cells.only_b:,} that {run} misses", url.href(url.COMPARE, {**pair, "cell": "only_b"}))
    lost = link(f"{cells.only_a:,} that {run} finds", url.href(url.COMPARE, {**pair, "cell": "only_a"}))
    names, missed = [run, other], [f"{cell + cells.neither:,}" for cell in (cells.only_b, cells.only_a)]
    title = f"{other} misses {missed[1]} of {quantity(cells.n, 'question')} in the top {k}, {run} {missed[0]}"
    difference = figures.difference.estimate
    points = ""
    if difference.low is not None:
        value, low, high = (-each for each in difference.percent)
        points = f": {signed_number(value)} points of Success@{k} {stated_interval(high, low, '+')}"
    where = groups.change_sentence(shown.groups, shown.changes, run, other) if is_title else f"{title}."
    show(
        tag("h1", unbroken(title, names)) if is_title else "",
        tag(
            "p",
            "It finds " if is_title else f"{other} finds ",
            found,
            " and misses ",
            lost,
            f"{points}. ",
            unbroken(where, names),
        ),
    )


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
                _plot(shown, known, _marks(shown, known, saved))
            show(warnings(map, len(selectable(len(map)))))
        with right:
            with st.container():
                if shown.point is not None:
                    show(point_panel(shown.point))
                elif point:
                    show(notice("This point is not on this map. ", link("Close", address(map, point=None))))
            _selection_panel(shown, known, saved, bool(point))


def _marks(shown: Shown, points: MapPoints, saved_ids: tuple[str, ...] | None) -> Marks:
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
                is_training = _is_training(map, run, other)
                show(groups.list_of_changes(map, shown.listed, shown.changes, run, other, k, is_training))
        selection.hint()


def _plot(shown: Shown, points: MapPoints, marks: Marks) -> None:
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
        names = _names_of_cells(map, run, other)
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


def _is_training(map: Map, run: str, other: str) -> bool:
    """Whether two runs are of the map's first and second encoder: of a model before and after training."""
    about = opened_study.shown_runs(map.study)
    return [about[name].get("retriever") for name in (run, other)] == list(map.encoders)


def _names_of_cells(map: Map, run: str, other_run: str) -> dict[str, str]:
    """Return the legend's words for the questions that both, one or neither of two runs find: what a training mended
    and broke, if the runs are of the map's first and second encoder.
    """
    words = ("still found", "broken", "fixed", "still missed")
    plain = ("both find", "only {a} finds", "only {b} finds", "neither finds")
    cells = (BOTH, ONLY_FIRST, ONLY_SECOND, NEITHER)
    return {
        cell: name.format(a=run, b=other_run)
        for cell, name in zip(cells, words if _is_training(map, run, other_run) else plain, strict=True)
    }


enter(page)
