"""The selected points of the map. The session keeps them by id; people can list them and send them to judging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from blindspot.app import url, who
from blindspot.app.components.map.data import MapPoints, known_of
from blindspot.app.components.map.parts import point_list
from blindspot.app.components.message import try_action
from blindspot.app.markup import div, show, span, tag
from blindspot.backend.maps.selection import QUESTION, pairs_to_judge, send_to_judging
from blindspot.backend.maps.stored import Map
from blindspot.backend.text.number_words import quantity

PLOT, _CHOSEN, _EPOCH = "map-plot", "map-chosen", "map-epoch"


def plot_key(map: Map) -> str:
    """Return the plot's key. `clear` changes the key, which makes the plot forget its selection."""
    return f"{PLOT}-{map.name}-{st.session_state.get(_EPOCH, 0)}"


def store_selection(map: Map) -> None:
    """Store the ids of the points in a box or lasso. (The browser opens a point that is clicked.)"""
    event = st.session_state.get(plot_key(map)) or {}
    selected = event.get("selection", {})
    ids = list(dict.fromkeys(id for point in selected.get("points", ()) if (id := _id(point.get("customdata")))))
    if selected.get("box") or selected.get("lasso"):
        st.session_state[_CHOSEN] = (map.name, ids)
        for key in ("point", "cluster", "list"):
            url.write(key, None)


def _id(plotly_point: Any) -> str:
    return str(plotly_point[0] if isinstance(plotly_point, (list, tuple)) and plotly_point else plotly_point or "")


def selected_ids(map: Map) -> list[str]:
    """Return the ids selected with a box or lasso in this session."""
    name, ids = st.session_state.get(_CHOSEN, ("", []))
    return ids if name == map.name else []


def clear() -> None:
    st.session_state.pop(_CHOSEN, None)
    st.session_state[_EPOCH] = st.session_state.get(_EPOCH, 0) + 1
    url.write("list", None)


def panel(
    map: Map, points: MapPoints, ids: Sequence[str], heading: str, run: str | None, k: int, can_clear: bool = True
) -> None:
    """Show a list of points, and the form that sends them to judging."""
    questions = sum(id.startswith(QUESTION) for id in ids)
    both = ((questions, "question"), (len(ids) - questions, "passage"))
    counts = [quantity(count, noun) for count, noun in both if count] or [quantity(0, "point")]
    with st.container(key="map-selection"):
        show(div(tag("h2", heading), span(" and ".join(counts), cls="soft"), cls="list-head"))
        if who.may(map.study.labels_path, "make batches"):
            name = f"map {map.name}" if can_clear else f"map {map.name}, {heading}"
            _judge(map, ids, run, k, name, is_primary=can_clear)
        show(point_list(map, points, ids, url.number("list", 1, 1, 500)))
        if can_clear:
            st.button("Clear selection", key="map-clear", on_click=clear)


def _judge(map: Map, ids: Sequence[str], run: str | None, k: int, name: str, is_primary: bool) -> None:
    """Show the form that sends points to judging. is_primary: whether its button is the filled one of the page."""
    if run is None:
        words = "To send passages to judging, choose a run: it says which questions the passages belong to."
        show(tag("p", words, cls="convention"))
        return
    known, opened = known_of(map), map.study.run(run)
    pairs = pairs_to_judge(map, known, opened, ids, k)
    summary = (
        f"{quantity(len(pairs.pairs), 'unlabelled pair')} of {quantity(pairs.questions, 'question')}: selected "
        f"passages among the first {k} of {run}."
    )
    if pairs.without_pairs:
        summary += (
            f" Not included: {quantity(pairs.without_pairs, 'passage')} outside the first {k} of every question of this "
            "map, or already labelled."
        )
    if pairs.further_pairs:
        summary += f" Not included: {quantity(pairs.further_pairs, 'pair')} beyond the maximum of eight per question."
    with st.expander("Send to judging", expanded=is_primary and bool(pairs.pairs)):
        show(tag("p", summary, cls="convention"))
        if not pairs.pairs:
            return
        key, typed = f"map-batch-{name}", st.session_state  # the text is read when the button is pressed

        def send() -> str:
            by = who.acting_name(map.study.labels_path)
            made = send_to_judging(map, known, opened, ids, k, typed[key].strip(), actor=by)
            counts = f"{quantity(made.frame, 'question')}, {quantity(made.passages, 'passage')} to judge"
            return f"Created batch “{made.name}”: {counts}."

        # In a form, typing does not draw the page again, which could move the button under the pointer.
        with st.form("map-batch-form", border=False, enter_to_submit=False):
            st.text_input("Name of the batch", name, key=key)
            st.form_submit_button(
                "Create batch",
                key="map-batch",
                type="primary" if is_primary else "secondary",
                on_click=lambda: try_action(send),
            )


def hint() -> None:
    """Explain how to use the map while nothing is selected."""
    lines = (
        "Draw a lasso or a box around points to list or judge them. Click a point to read it.",
        "Click a colour's name above the map to hide or show its points; double-click to show only them.",
    )
    show(div(tag("h2", "Selection"), *(tag("p", line) for line in lines), cls="panel"))
