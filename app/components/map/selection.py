"""What somebody chose on the map: kept by id in the session, read, saved as a slice, sent to judging."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from app import url, who
from app.components.map.data import MapPoints, known_of
from app.components.map.parts import address, point_list
from app.components.marks import count, notice
from app.markup import div, link, show, span, tag
from backend.evaluation.saved_selections import save_selection
from backend.maps import Map
from backend.maps.selection import QUESTION, pairs_to_judge, questions_of_selection, send_to_judging
from db.errors import BlindspotError

PLOT, _CHOSEN, _EPOCH, _SAID = "map-plot", "map-chosen", "map-epoch", "map-said"


def plot_key(map: Map) -> str:
    """The plot's key; another one after "clear", so that the picture forgets what was chosen on it."""
    return f"{PLOT}-{map.name}-{st.session_state.get(_EPOCH, 0)}"


def take(map: Map) -> None:
    """The plot's event: a box or a lasso chooses points, by id, never by place in the list. (A click is answered in the browser.)"""
    event = st.session_state.get(plot_key(map)) or {}
    found = event.get("selection", {})
    ids = list(dict.fromkeys(id for point in found.get("points", ()) if (id := _id(point.get("customdata")))))
    if found.get("box") or found.get("lasso"):
        st.session_state[_CHOSEN] = (map.name, ids)
        for key in ("selection", "cluster", "list"):
            url.write(key, None)


def _id(given: Any) -> str:
    return str(given[0] if isinstance(given, (list, tuple)) and given else given or "")


def chosen(map: Map) -> list[str]:
    """The ids that were chosen with the box or the lasso in this session."""
    name, ids = st.session_state.get(_CHOSEN, ("", []))
    return ids if name == map.name else []


def clear() -> None:
    st.session_state.pop(_CHOSEN, None)
    st.session_state[_EPOCH] = st.session_state.get(_EPOCH, 0) + 1
    url.write("selection", None)
    url.write("list", None)


def attempt(work: Callable[[], str]) -> None:
    """Do what a button asks for; its sentence, or its error, stands on the page at the next run."""
    try:
        st.session_state[_SAID] = ("", work())
    except BlindspotError as error:
        st.session_state[_SAID] = ("error", str(error))


def said() -> None:
    """The place is there without words too: else all that follows would move, and open expanders would close."""
    kind, words = st.session_state.pop(_SAID, ("", ""))
    with st.container():
        if words:
            show(notice(words, kind=kind))


def acting(map: Map) -> str | None:
    """Who acts now, for the `by` of what a button does. Raises Refused where nobody is signed in and somebody must be."""
    return who.acting(map.study.labels_path)


def panel(
    map: Map, points: MapPoints, ids: Sequence[str], heading: str, run: str | None, k: int, can_clear: bool = True
) -> None:
    """A list of points and what can be done with it."""
    known = known_of(map)
    questions = sum(id.startswith(QUESTION) for id in ids)
    with st.container(key="map-selection"):
        show(
            div(
                tag("h2", heading),
                span(f"{count(questions, 'question')}, {count(len(ids) - questions, 'passage')}", cls="soft"),
                cls="list-head",
            )
        )
        if who.may(map.study.labels_path, "make batches"):
            _judge(map, known, ids, run, k, f"map {map.name}" if can_clear else f"map {map.name}, {heading}")
        if who.may(map.study.labels_path, "save slices"):
            _save(map, known, ids)
        show(point_list(map, points, ids, url.number("list", 1, 1, 500)))
        if can_clear:
            st.button("Clear the selection", key="map-clear", on_click=clear)


def _judge(map: Map, known: Any, ids: Sequence[str], run: str | None, k: int, name: str) -> None:
    if run is None:
        show(
            tag(
                "p",
                "To send passages to judging, choose a run: it says which question a passage was found for.",
                cls="convention",
            )
        )
        return
    opened = map.study.run(run)
    found = pairs_to_judge(map, known, opened, ids, k)
    told = (
        f"{count(len(found.pairs), 'unlabelled pair')} of {count(found.questions, 'question')}: what is chosen here and stands among the "
        f"first {k} of {run}."
    )
    if found.without:
        told += f" {count(found.without, 'passage')} of the selection stand there for no question of this map, or are labelled already."
    if found.more:
        told += f" {count(found.more, 'more pair')} beyond the eight that a question shows."
    with st.expander("Send to judging", expanded=bool(found.pairs)):
        show(tag("p", told, cls="convention"))
        if not found.pairs:
            return
        key, typed = f"map-batch-{name}", st.session_state  # what is typed is read when the button is pressed
        st.text_input("Name of the batch", name, key=key)
        st.button(
            "Make the batch",
            key="map-batch",
            type="primary",
            on_click=lambda: attempt(lambda: _send(map, known, opened, ids, k, typed[key])),
        )


def _send(map: Map, known: Any, run: Any, ids: Sequence[str], k: int, name: str) -> str:
    made = send_to_judging(map, known, run, ids, k, name.strip(), by=acting(map))
    return f"Made the batch “{made.name}”: {count(made.frame, 'question')}, {count(made.passages, 'passage')} to judge."


def _save(map: Map, known: Any, ids: Sequence[str]) -> None:
    questions = questions_of_selection(known, map, ids)
    with st.expander("Save as a slice"):
        show(
            tag(
                "p",
                f"{count(len(questions), 'question')}: those chosen, and those with a positive among the passages chosen.",
                cls="convention",
            )
        )
        typed = st.session_state
        st.text_input("Name of the slice", key="map-slice-name", disabled=not questions)
        st.button(
            "Save",
            key="map-slice",
            disabled=not questions,
            on_click=lambda: attempt(lambda: _kept(map, questions, ids, typed["map-slice-name"])),
        )


def _kept(map: Map, questions: Sequence[str], ids: Sequence[str], name: str) -> str:
    made = save_selection(map.study, name, questions, ids, map.name, acting(map))
    url.write("selection", made.name)
    return f"Saved “{made.name}”: {count(len(questions), 'question')}. This page's address now opens it."


def hint(map: Map, run: str | None) -> None:
    """What to do with the picture, while nothing is chosen."""
    show(
        div(
            tag("h2", "Choose on the picture"),
            tag(
                "p",
                "Draw a lasso or a box around points to list them, save them as a slice or send them to judging. Click a point to read it, "
                "with its true nearest neighbours. Click a name below the picture to hide or show a group; click it twice to see it alone.",
            ),
            tag("p", "By keyboard: open a cluster below, and its passages from there.", cls="convention"),
            tag(
                "p",
                link("Hit or miss", address(map, by="hit")),
                " · ",
                link("clusters", address(map, by="cluster")),
                " · ",
                link("labels", address(map, by="label")),
            ),
            cls="panel",
        )
    )
