"""The selected points of the map. The session keeps them by id; people can list them, save them as a slice or send them
to judging.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from blindspot.app import url, who
from blindspot.app.components.map.data import MapPoints, known_of
from blindspot.app.components.map.parts import point_list
from blindspot.app.components.message import try_action
from blindspot.app.markup import div, show, span, tag
from blindspot.backend.evaluation.saved_selections import save_selection
from blindspot.backend.maps.selection import QUESTION, pairs_to_judge, questions_of_selection, send_to_judging
from blindspot.backend.maps.stored import Map
from blindspot.backend.text.number_words import quantity

PLOT, _CHOSEN, _EPOCH = "map-plot", "map-chosen", "map-epoch"


def plot_key(map: Map) -> str:
    """Return the plot's key. `clear` changes the key, which makes the plot forget its selection."""
    return f"{PLOT}-{map.name}-{st.session_state.get(_EPOCH, 0)}"


def store_selection(map: Map) -> None:
    """Store the ids of the points in a box or lasso selection. (The browser handles clicks.)"""
    event = st.session_state.get(plot_key(map)) or {}
    lasso = event.get("selection", {})
    ids = list(dict.fromkeys(id for point in lasso.get("points", ()) if (id := _id(point.get("customdata")))))
    if lasso.get("box") or lasso.get("lasso"):
        st.session_state[_CHOSEN] = (map.name, ids)
        for key in ("selection", "group", "cluster", "list"):
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
    url.write("selection", None)
    url.write("list", None)


def acting_person(map: Map) -> str | None:
    """Return the name of the signed-in person, to record who acted (`by`). Raises Refused if sign-in is required and
    missing.
    """
    return who.acting_name(map.study.labels_path)


def panel(
    map: Map, points: MapPoints, ids: Sequence[str], heading: str, run: str | None, k: int, can_clear: bool = True
) -> None:
    """Show a list of points and its actions."""
    questions = sum(id.startswith(QUESTION) for id in ids)
    both = ((questions, "question"), (len(ids) - questions, "passage"))
    counts = [quantity(count, noun) for count, noun in both if count] or [quantity(0, "point")]
    with st.container(key="map-selection"):
        show(
            div(
                tag("h2", heading),
                span(" and ".join(counts), cls="soft"),
                cls="list-head",
            )
        )
        actions(map, ids, heading, run, k, is_primary=can_clear)
        show(point_list(map, points, ids, url.number("list", 1, 1, 500)))
        if can_clear:
            st.button("Clear selection", key="map-clear", on_click=clear)


def actions(map: Map, ids: Sequence[str], heading: str, run: str | None, k: int, is_primary: bool = False) -> None:
    """Show what can be done with points: send them to judging, save them as a slice.

    Args:
        is_primary: whether sending them to judging is the one filled button of the page.
    """
    known = known_of(map)
    if who.may(map.study.labels_path, "make batches"):
        name = f"map {map.name}" if is_primary else f"map {map.name}, {heading}"
        _judge(map, known, ids, run, k, name, is_primary)
    if who.may(map.study.labels_path, "save slices"):
        _save(map, known, ids)


def _judge(
    map: Map, known_kinds: Any, ids: Sequence[str], run: str | None, k: int, name: str, is_primary: bool
) -> None:
    if run is None:
        show(
            tag(
                "p",
                "To send passages to judging, choose a run: it says which questions the passages belong to.",
                cls="convention",
            )
        )
        return
    opened = map.study.run(run)
    pairs = pairs_to_judge(map, known_kinds, opened, ids, k)
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
        # In a form, typing does not draw the page again, which could move the button under the pointer.
        with st.form("map-batch-form", border=False, enter_to_submit=False):
            st.text_input("Name of the batch", name, key=key)
            st.form_submit_button(
                "Create batch",
                key="map-batch",
                type="primary" if is_primary else "secondary",
                on_click=lambda: try_action(lambda: _send(map, known_kinds, opened, ids, k, typed[key])),
            )


def _send(map: Map, known_kinds: Any, run: Any, ids: Sequence[str], k: int, name: str) -> str:
    result = send_to_judging(map, known_kinds, run, ids, k, name.strip(), actor=acting_person(map))
    return (
        f"Created batch “{result.name}”: {quantity(result.frame, 'question')}, "
        f"{quantity(result.passages, 'passage')} to judge."
    )


def _save(map: Map, known_kinds: Any, ids: Sequence[str]) -> None:
    questions = questions_of_selection(known_kinds, map, ids)
    with st.expander("Save as a slice"):
        show(
            tag(
                "p",
                f"{quantity(len(questions), 'question')}: the selected ones, and those with a positive among the "
                "selected passages.",
                cls="convention",
            )
        )
        typed = st.session_state
        with st.form("map-slice-form", border=False, enter_to_submit=False):
            st.text_input("Name of the slice", key="map-slice-name", disabled=not questions)
            st.form_submit_button(
                "Save",
                key="map-slice",
                disabled=not questions,
                on_click=lambda: try_action(lambda: _save_ids(map, questions, ids, typed["map-slice-name"])),
            )


def _save_ids(map: Map, questions: Sequence[str], ids: Sequence[str], name: str) -> str:
    result = save_selection(map.study, name, questions, ids, map.name, acting_person(map))
    url.write("selection", result.name)
    return (
        f"Saved “{result.name}”: {quantity(len(questions), 'question')}. The address of this page now shows the slice."
    )


def hint() -> None:
    """Explain how to use the map while nothing is selected."""
    show(
        div(
            tag("h2", "Selection"),
            tag(
                "p",
                "Draw a lasso or a box around points to list, save or judge them. Click a point to read it.",
                cls="by-mouse",
            ),
            tag(
                "p",
                "Click a colour's name above the map to hide or show its points; double-click to show only them. Without a "
                "mouse, open a row of the list above, and then one of its questions.",
                cls="convention by-mouse",
            ),
            tag("p", "Tap a point to read it. Open a row of the list above for its questions.", cls="by-touch"),
            cls="panel",
        )
    )
