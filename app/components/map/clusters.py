"""The clusters of a map: the table, and an open cluster with its actions (rename, note, split, merge, judge)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from textwrap import shorten
from types import MappingProxyType

import numpy as np
import streamlit as st

from blindspot.analysis.accuracy import Estimate, proportion
from blindspot.analysis.buckets import FEW
from blindspot.app import url, who
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.map.data import MapPoints, first_hits, known_of
from blindspot.app.components.map.figure import PlaceName
from blindspot.app.components.map.parts import address
from blindspot.app.components.map.selection import acting_person, panel
from blindspot.app.components.marks import INTERVAL, few, percentage
from blindspot.app.components.message import try_action
from blindspot.app.markup import Html, div, join, link, row, show, span, table_head, tag, term
from blindspot.app.markup import table as table_of
from blindspot.backend.core.result_table import stated_interval
from blindspot.backend.maps import edits as changes
from blindspot.backend.maps.cluster_names import cluster_names
from blindspot.backend.maps.edits import Clusters
from blindspot.backend.maps.point_values import ClusterRow, cluster_rows, questions_of_cluster
from blindspot.backend.maps.selection import QUESTION
from blindspot.backend.maps.stored import Map
from blindspot.backend.text.number_words import quantity
from blindspot.db.records import Question

UNLABELLED = "Share of the cluster's passages that are neither gold nor judged for any question of this map"
QUESTIONS = "Questions of this map with a positive passage in the cluster"
RUNS_SHOWN = 4


def rows_of_runs(map: Map, clusters: Clusters, runs: Sequence[str], k: int) -> list[ClusterRow]:
    """Return every cluster with its name on this page and the figures of the first runs."""
    known, firsts = known_of(map), {run: first_hits(map.study, run) for run in runs[:RUNS_SHOWN]}
    names = cluster_names(known, clusters)
    return [replace(row, name=names[row.id]) for row in cluster_rows(known, clusters, firsts, k)]


def most_missed(rows: Sequence[ClusterRow], run: str) -> ClusterRow | None:
    """Return the cluster in which a run misses the most questions; None if it misses none of any."""
    worst = max(rows, key=lambda row: missed_count(row, run), default=None)
    return worst if worst is not None and missed_count(worst, run) else None


NAMES_SHOWN = 8
LONGEST_NAME = 32  # characters of a name on the map
APART = (0.3, 0.045)  # least distance of two names, beside and below each other, as a share of the map
LINE = 0.03  # height of a name, as a share of the map
PARTS = 12  # the map's extent is cut into so many parts, across and down, of which a name looks for the fullest
WIDE = 0.15  # passages lie apart if their median distance to their middle is above this share of the map's extent


def names_on_map(
    map: Map,
    clusters: Clusters,
    view: int,
    only: Sequence[int] | None = None,
    numbers: Mapping[int, int] = MappingProxyType({}),
) -> tuple[PlaceName, ...]:
    """Return the names of the largest clusters, each where its passages are densest, leaving out those that would lie
    over another's, and those whose passages lie apart.

    Args:
        only: the clusters to name instead, in this order.
        numbers: of clusters, which stand before their names, and in the place of a name that is left out.
    """
    places = np.asarray(map.coordinates(view))
    extent = _extent(places)
    names = cluster_names(known_of(map), clusters)
    shown: list[PlaceName] = []
    for id in (clusters.ids if only is None else only)[: NAMES_SHOWN if numbers else None]:
        x, y = _densest(places[map.shown_questions + clusters.members(id)], places)
        is_free = not lie_apart(map, clusters, id, view) and all(
            abs(x - each.x) > APART[0] * extent or abs(y - each.y) > APART[1] * extent for each in shown
        )
        number = f"{numbers[id]}" if id in numbers else ""
        name = shorten(names[id], LONGEST_NAME, placeholder=" …") if is_free and len(shown) < NAMES_SHOWN else ""
        if not name and any(abs(x - each.x) < APART[0] * extent and abs(y - each.y) < LINE * extent for each in shown):
            y -= LINE * extent  # a number below the name that it would lie on
        if words := " ".join(filter(None, (number, name))):
            shown.append(PlaceName(words, x, y))
    return tuple(shown)


def place_of_missed(map: Map, clusters: Clusters, id: int, view: int, run: str, k: int) -> tuple[float, float]:
    """Return the place among the questions that a run misses in a cluster where they are densest."""
    missed = {question.id for question in missed_questions(map, clusters, id, run, k)}
    rows = [row for row, question in enumerate(map.question_ids[: map.shown_questions]) if question in missed]
    places = np.asarray(map.coordinates(view))
    return _densest(places[rows], places)


def _extent(places: np.ndarray) -> float:
    return float(np.ptp(places, axis=0).max()) or 1.0


def _densest(own: np.ndarray, places: np.ndarray) -> tuple[float, float]:
    """Return the point among a cluster's own where they are densest: the middle one of the fullest part of the map."""
    parts = np.floor((own - places.min(axis=0)) / (_extent(places) / PARTS))
    _, part_of, counts = np.unique(parts, axis=0, return_inverse=True, return_counts=True)
    own = own[part_of.reshape(-1) == int(np.argmax(counts))]
    x, y = own[np.argmin(np.square(own - own.mean(axis=0)).sum(axis=1))].tolist()
    return x, y


def lie_apart(map: Map, clusters: Clusters, id: int, view: int) -> bool:
    """Whether the passages of a cluster are spread over the map (see WIDE)."""
    places = np.asarray(map.coordinates(view))
    own = places[map.shown_questions + clusters.members(id)]
    return float(np.median(np.linalg.norm(own - own.mean(axis=0), axis=1))) > WIDE * _extent(places)


def missed_points(map: Map, points: MapPoints, clusters: Clusters, id: int, run: str, k: int) -> frozenset[str]:
    """Return the ids of the points of the questions that a run misses in a cluster, and of their positives there, the
    passages.
    """
    known = known_of(map)
    missed = {question.id for question in missed_questions(map, clusters, id, run, k)}
    passages = (
        points.ids[map.shown_questions + place]
        for place in clusters.members(id).tolist()
        if any(known.questions[number].id in missed for number in known.questions_by_passage.get(place, ()))
    )
    return frozenset((*passages, *(QUESTION + question for question in missed)))


def missed_interval(map: Map, first_ranks: Mapping[str, int], k: int) -> str:
    """Return the share of the map's questions that a run misses with its interval, in brackets after their number."""
    known = known_of(map)
    rows = [row for row, question in enumerate(known.questions) if question.id in first_ranks]
    missed = np.array([not 0 < first_ranks[known.questions[row].id] <= k for row in rows], bool)
    share = proportion(missed, known.units[np.array(rows, np.int64)])
    if share.low is None or share.high is None:
        return ""
    return f" ({100 * (share.value or 0.0):.1f}%, {stated_interval(100 * share.low, 100 * share.high)[1:]}"


def missed_count(row: ClusterRow, run: str) -> int:
    """Return how many questions with a positive in a cluster a run misses."""
    return round(row.hits[run].n * (1 - (row.hits[run].value or 0.0)))


MISSES_SHOWN = 8  # in the list, and named on the map where its colours show what a run misses


def by_misses(rows: Sequence[ClusterRow], run: str) -> list[ClusterRow]:
    """Return the clusters in the order of the questions that a run misses in them, most first."""
    return sorted(rows, key=lambda row: -missed_count(row, run))


def best_other(rows: Sequence[ClusterRow], run: str, compared: str | None = None) -> str | None:
    """Return the run to compare the misses of `run` with: the one that was chosen, else the one of the others that misses
    the smallest share; None without another.
    """
    others = [name for name in rows[0].hits if name != run] if rows else []
    if compared in others:
        return compared

    def missed_share(name: str) -> float:
        return sum(missed_count(row, name) for row in rows) / max(sum(row.hits[name].n for row in rows), 1)

    return min(others, key=missed_share, default=None)


def misses_by_cluster(map: Map, rows: Sequence[ClusterRow], run: str, compared: str | None, k: int) -> Html:
    """List the clusters in which a run misses the most questions, each with a link that opens it, its share, and the
    share that the best other run misses.
    """
    most = [row for row in by_misses(rows, run) if missed_count(row, run)]
    if not most:
        return Html("")
    other = best_other(rows, run, compared)
    lines = [
        row(
            f"{missed_count(each, run):,} of {each.hits[run].n:,}",
            tag("td", percentage(_missed(each.hits[run])), cls=_few(each, run)),
            *([] if other is None else [tag("td", percentage(_missed(each.hits[other])), cls=_few(each, other))]),
            head=join(
                span(f"{number} ", cls="soft"),
                link(each.name, address(map, cluster=each.id + 1, point=None, selection=None, list=None)),
            ),
        )
        for number, each in enumerate(most[:MISSES_SHOWN], 1)
    ]
    heads = ["missed", "%", *([] if other is None else [f"{other}, %"])]
    listed = table_of(table_head("cluster", *heads), lines, "figures clusters")
    return div(
        tag("h2", f"Where {run} misses most, by number"),
        listed,
        tag(
            "p",
            f"Questions missed in the top {k}. Their numbers on the map: where their passages are densest. Pale: {few(map.study.settings.unit)}.",
            cls="convention",
        ),
        cls="panel misses",
    )


def _missed(hits: Estimate) -> Estimate:
    """Return the share missed for the share found."""
    value, low, high = (None if end is None else 1 - end for end in (hits.value, hits.high, hits.low))
    return replace(hits, value=value, low=low, high=high)


def _few(cluster: ClusterRow, run: str) -> str | None:
    return "few" if cluster.hits[run].n_units < FEW else None


def missed_questions(map: Map, clusters: Clusters, id: int, run: str, k: int) -> list[Question]:
    """Return the questions with a positive in a cluster that a run misses, in the map's order."""
    known, first = known_of(map), first_hits(map.study, run)
    questions = [known.questions[number] for number in questions_of_cluster(known, clusters, id)]
    return [each for each in questions if each.id in first and not 0 < first[each.id] <= k]


def table(map: Map, clusters: Clusters, rows: Sequence[ClusterRow], k: int, open_cluster: int | None) -> None:
    """Show every cluster with its figures, and the buttons that undo and redo edits."""
    if not rows:
        show(div(tag("h2", "Clusters"), tag("p", "This map has no clusters."), cls="panel"))
        return
    shown = list(rows[0].hits)
    loose = int((clusters.labels == changes.NOISE).sum())
    label = f"All {quantity(len(rows), 'cluster')}" if len(rows) > 1 else "1 cluster"
    with st.container(key="map-clusters"), st.expander(label, expanded=open_cluster is not None):
        show(_undo_edit(map, clusters))
        _undo_buttons(map, clusters)
        show(scrolling(_table(map, rows, shown, k, open_cluster), few(map.study.settings.unit)))
        show(
            tag(
                "p",
                f"Clusters of {map.encoders[0]} in the original space. "
                + (f"{quantity(loose, 'passage')} outside all clusters. " if loose else "")
                + "A cluster is named after the commonest relations of its questions, else after its most distinctive words "
                "(log-odds with a prior, Monroe et al.). "
                f"S@{k}: Success@{k} over the questions with a positive in the cluster; {INTERVAL}.",
                cls="convention",
            )
        )


def _undo_edit(map: Map, clusters: Clusters) -> Html:
    return tag(
        "p",
        f"{quantity(clusters.edits, 'manual change')}." if clusters.edits else "",
        cls="convention",
    )


def _undo_buttons(map: Map, clusters: Clusters) -> None:
    if not (clusters.undoable or clusters.redoable) or not who.may(map.study.labels_path, "edit maps"):
        return
    undo_column, right, _ = st.columns([2, 2, 3])
    if clusters.undoable:
        undo_column.button(
            f"Undo: {clusters.undoable}",
            key="map-undo",
            on_click=lambda: try_action(
                lambda: _message_after(changes.undo(map, clusters.edits, acting_person(map)), "Undone.")
            ),
        )
    if clusters.redoable:
        right.button(
            f"Redo: {clusters.redoable}",
            key="map-redo",
            on_click=lambda: try_action(
                lambda: _message_after(changes.redo(map, clusters.edits, acting_person(map)), "Redone.")
            ),
        )


def _message_after(_: Clusters, label: str) -> str:
    return label


def _table(map: Map, rows: Sequence[ClusterRow], runs: Sequence[str], k: int, open_cluster: int | None) -> Html:
    head = table_head(
        "cluster",
        tag("th", "passages", scope="col", cls="wide"),
        tag("th", term("unlabelled", UNLABELLED), scope="col", cls="wide"),
        tag("th", term("questions", QUESTIONS), scope="col", cls="wide"),
        *(tag("th", f"{run}, S@{k}", scope="col", cls="wide" if run in runs[1:] else None) for run in runs),
    )
    lines = (
        row(
            tag("td", f"{each.size:,}", cls="wide"),
            tag("td", "–" if (part := each.unlabelled.value) is None else f"{100 * part:.0f}%", cls="wide"),
            tag("td", f"{each.questions:,}", cls="wide"),
            *(tag("td", percentage(each.hits[run], inline=True), cls=_run_class(each, run, runs)) for run in runs),
            head=link(
                each.name,
                address(map, cluster=each.id + 1, point=None, selection=None, list=None),
                data_focus=f"cluster-{each.id}",
            ),
            cls="chosen" if each.id == open_cluster else None,
        )
        for each in rows
    )
    return table_of(head, lines, "figures clusters")


def _run_class(cluster: ClusterRow, run: str, runs: Sequence[str]) -> str | None:
    """The class of a run's cell: pale for few questions, and hidden in a narrow window from the second run on."""
    classes = (_few(cluster, run) or "", "wide" if run in runs[1:] else "")
    return " ".join(filter(None, classes)) or None


def opened_cluster(
    map: Map, points: MapPoints, clusters: Clusters, id: int, run: str | None, other: str | None, k: int
) -> None:
    """Show one cluster with the questions that `run` misses, its passages and actions. Raises Missing."""
    members, names = clusters.members(id), cluster_names(known_of(map), clusters)
    words = ", ".join(clusters.words.get(id, ())) or "no distinctive words"
    note = div(clusters.notes[id], cls="notice map-note") if clusters.notes.get(id) else ""
    show(
        div(
            span(f"{words}. ", cls="soft"),
            link("Show all clusters", address(map, cluster=None, list=None), cls="quiet"),
            note,
        ),
        _missed_list(missed_questions(map, clusters, id, run, k), run, other, k) if run is not None else "",
    )
    panel(
        map,
        points,
        [points.ids[map.shown_questions + place] for place in members.tolist()],
        names[id],
        run,
        k,
        can_clear=False,
    )
    _edit_forms(map, clusters, id, names)


def _missed_list(questions: Sequence[Question], run: str, other: str | None, k: int) -> Html:
    """The questions of a cluster that a run misses, each with a link to it."""
    if not questions:
        return Html("")
    pair = {"a": run, "b": other, "k": k}
    lines = (tag("li", link(each.text, url.href(url.QUESTION, {"question": each.id, **pair}))) for each in questions)
    words = f"{quantity(len(questions), 'question')} that {run} misses in the top {k}"
    return tag("details", tag("summary", words), tag("ul", *lines, cls="map-list"), cls="fold", open=True)


def _edit_forms(map: Map, clusters: Clusters, id: int, names: Mapping[int, str]) -> None:
    """Show the edit forms. A callback reads the typed text when its button is pressed, because the page's last run has
    an older text.
    """
    if not who.may(map.study.labels_path, "edit maps"):
        return
    other_clusters = {other: names[other] for other in clusters.ids if other != id}
    seen, at = clusters.edits, f"{id}-{clusters.edits}"
    typed = st.session_state
    with st.expander("Name and note"):
        st.text_input(
            "Name",
            clusters.names.get(id, ""),
            key=f"map-rename-{at}",
            placeholder="default: the questions' relation, or the distinctive words",
        )
        _button(
            "Rename",
            "map-rename",
            lambda: changes.rename(map, id, typed[f"map-rename-{at}"], seen, acting_person(map)),
            "Renamed.",
        )
        st.text_area("Note", clusters.notes.get(id, ""), key=f"map-note-{at}", height=90)
        _button(
            "Save note",
            "map-note",
            lambda: changes.note(map, id, typed[f"map-note-{at}"], seen, acting_person(map)),
            "Saved the note.",
        )
    with st.expander("Splitting and merging"):
        st.number_input("Parts", 2, 20, 2, key="map-parts", help="Number of parts for k-means in the original space.")
        _button(
            "Split",
            "map-split",
            lambda: changes.split(map, id, typed["map-parts"], seen_version=seen, actor=acting_person(map)),
            "Split.",
        )
        st.multiselect(
            "Merge with", list(other_clusters), format_func=other_clusters.__getitem__, key=f"map-merge-{at}"
        )
        _button(
            "Merge",
            "map-merge",
            lambda: changes.merge(map, [id, *typed[f"map-merge-{at}"]], seen, acting_person(map)),
            "Merged.",
        )


def _button(label: str, key: str, work: Callable[[], Clusters], message: str) -> None:
    st.button(label, key=key, on_click=lambda: try_action(lambda: _message_after(work(), message)))
