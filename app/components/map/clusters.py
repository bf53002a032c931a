"""The clusters of a map: the table, and an open cluster with its passages and the way to judging."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from blindspot.analysis.buckets import FEW
from blindspot.analysis.clusters import NOISE
from blindspot.app.components.compare_tables import scrolling
from blindspot.app.components.map.data import MapPoints, first_hits, known_of
from blindspot.app.components.map.parts import address
from blindspot.app.components.map.selection import panel
from blindspot.app.components.marks import INTERVAL, few, percentage
from blindspot.app.markup import Html, div, link, row, show, table_head, tag, term
from blindspot.app.markup import table as table_of
from blindspot.backend.maps.clusters import Clusters
from blindspot.backend.maps.point_values import ClusterRow, cluster_rows
from blindspot.backend.maps.stored import Map
from blindspot.backend.text.number_words import quantity

UNLABELLED = "Share of the cluster's passages that are neither gold nor judged for any question of this map"
QUESTIONS = "Questions of this map with a positive passage in the cluster"


def table(map: Map, clusters: Clusters, runs: Sequence[str], k: int, open_cluster: int | None) -> None:
    """Show every cluster with its figures, those with the most questions that the first run misses first."""
    rows = cluster_rows(known_of(map), clusters, {run: first_hits(map.study, run) for run in runs}, k)
    if not rows:
        show(div(tag("h2", "Clusters"), tag("p", "This map has no clusters."), cls="panel"))
        return
    if runs:
        rows = sorted(rows, key=lambda each: -each.hits[runs[0]].n * (1 - (each.hits[runs[0]].value or 0.0)))
    loose = int((clusters.labels == NOISE).sum())
    label = f"All {quantity(len(rows), 'cluster')} of passages" if len(rows) > 1 else "1 cluster of passages"
    with st.container(key="map-clusters"), st.expander(label, expanded=open_cluster is not None):
        show(
            scrolling(_table(map, rows, runs, k, open_cluster), few(map.study.settings.unit)),
            tag(
                "p",
                f"Clusters of {map.encoders[0]} in the original space. "
                + (f"{quantity(loose, 'passage')} outside all clusters. " if loose else "")
                + "A cluster is named after its most distinctive words (log-odds with a prior, Monroe et al.). "
                f"S@{k}: Success@{k} over the questions with a positive in the cluster; {INTERVAL}.",
                cls="convention",
            ),
        )


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
                each.name, address(map, cluster=each.id + 1, point=None, list=None), data_focus=f"cluster-{each.id}"
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


def opened_cluster(map: Map, points: MapPoints, clusters: Clusters, id: int, run: str | None, k: int) -> None:
    """Show one cluster with its passages, and send them to judging. Raises Missing."""
    ids = [points.ids[map.shown_questions + place] for place in clusters.members(id).tolist()]
    show(link("Show all clusters", address(map, cluster=None, list=None), cls="quiet"))
    panel(map, points, ids, clusters.name(id), run, k, can_clear=False)
