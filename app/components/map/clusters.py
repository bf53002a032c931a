"""The clusters of a map: the table, and an open cluster with its actions (rename, note, split, merge, judge)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import streamlit as st

from blindspot.analysis.buckets import FEW
from blindspot.app import who
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.map.data import MapPoints, first_hits, known_of
from blindspot.app.components.map.figure import PlaceName, fullest_place
from blindspot.app.components.map.groups import missed_count, missed_list, missed_questions
from blindspot.app.components.map.parts import address
from blindspot.app.components.map.selection import acting_person, panel
from blindspot.app.components.marks import INTERVAL, few, percentage
from blindspot.app.components.message import try_action
from blindspot.app.markup import Html, div, link, row, show, span, table_head, tag, term
from blindspot.app.markup import table as table_of
from blindspot.backend.maps import edits as changes
from blindspot.backend.maps.cluster_names import cluster_names
from blindspot.backend.maps.edits import Clusters
from blindspot.backend.maps.point_values import ClusterRow, cluster_rows, questions_of_cluster
from blindspot.backend.maps.stored import Map
from blindspot.backend.text.number_words import quantity

UNLABELLED = "Share of the cluster's passages that are neither gold nor judged for any question of this map"
QUESTIONS = "Questions of this map with a positive passage in the cluster"


def rows_of_runs(map: Map, clusters: Clusters, runs: Sequence[str], k: int) -> list[ClusterRow]:
    """Return every cluster with its name on this page and the figures of some runs."""
    known, firsts = known_of(map), {run: first_hits(map.study, run) for run in runs}
    names = cluster_names(known, clusters)
    return [replace(row, name=names[row.id]) for row in cluster_rows(known, clusters, firsts, k)]


NAMES_SHOWN = 8


def names_on_map(map: Map, clusters: Clusters, view: int) -> tuple[PlaceName, ...]:
    """Return the names of the largest clusters, each where its passages are densest."""
    places, names = np.asarray(map.coordinates(view)), cluster_names(known_of(map), clusters)
    return tuple(
        PlaceName(names[id], *fullest_place(places[map.shown_questions + clusters.members(id)], places))
        for id in clusters.ids[:NAMES_SHOWN]
    )


def table(
    map: Map, clusters: Clusters, rows: Sequence[ClusterRow], run: str | None, k: int, open_cluster: int | None
) -> None:
    """Show every cluster with its figures, those with the most questions that `run` misses first, and the buttons that
    undo and redo edits.
    """
    if run is not None:
        rows = sorted(rows, key=lambda row: -missed_count(row.hits[run]))
    if not rows:
        show(div(tag("h2", "Clusters"), tag("p", "This map has no clusters."), cls="panel"))
        return
    shown = list(rows[0].hits)
    loose = int((clusters.labels == changes.NOISE).sum())
    label = f"All {quantity(len(rows), 'cluster')} of passages" if len(rows) > 1 else "1 cluster of passages"
    with st.container(key="map-clusters"), st.expander(label, expanded=open_cluster is not None):
        if clusters.edits:
            show(tag("p", f"{quantity(clusters.edits, 'manual change')}.", cls="convention"))
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
                address(map, cluster=each.id + 1, group=None, point=None, selection=None, list=None),
                data_focus=f"cluster-{each.id}",
            ),
            cls="chosen" if each.id == open_cluster else None,
        )
        for each in rows
    )
    return table_of(head, lines, "figures clusters")


def _run_class(cluster: ClusterRow, run: str, runs: Sequence[str]) -> str | None:
    """The class of a run's cell: pale for few questions, and hidden in a narrow window from the second run on."""
    classes = ("few" if cluster.hits[run].n_units < FEW else "", "wide" if run in runs[1:] else "")
    return " ".join(filter(None, classes)) or None


def opened_cluster(
    map: Map, points: MapPoints, clusters: Clusters, id: int, run: str | None, other: str | None, k: int
) -> None:
    """Show one cluster with the questions that `run` misses, its passages and actions. Raises Missing."""
    members, names = clusters.members(id), cluster_names(known_of(map), clusters)
    words = ", ".join(clusters.words.get(id, ())) or "no distinctive words"
    questions = questions_of_cluster(known_of(map), clusters, id)
    note = div(clusters.notes[id], cls="notice map-note") if clusters.notes.get(id) else ""
    show(
        div(
            span(f"{words}. ", cls="soft"),
            link("Show all clusters", address(map, cluster=None, list=None), cls="quiet"),
            note,
        ),
        missed_list(map, missed_questions(map, questions, run, other, k), run, other, k) if run is not None else "",
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
