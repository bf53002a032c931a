"""The tabs of the Training page. The address stores the tab (`tab`) and the current set of all tabs (`set`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import streamlit as st

from blindspot.app import url
from blindspot.app.components import jobs
from blindspot.app.components.marks import notice
from blindspot.app.components.relations_tables import choices
from blindspot.app.markup import Html, div, link, show, tag

Tab = Literal["sets", "judges", "models"]
TITLES: dict[Tab, str] = {
    "sets": "Sets",
    "judges": "Automatic judges",
    "models": "Models",
}
_KNOWN = "training-sets-known"


def current() -> Tab:
    """Return the tab of the address; `model=NAME` alone opens the models."""
    chosen = url.one_of("tab", get_args(Tab), "sets")
    return "models" if url.value("model") and not url.value("tab") else chosen


def address(tab: Tab, **parameters: object) -> str:
    """Return the address of a tab."""
    return url.href(url.TRAINING, {"tab": tab, **parameters})


def open_built(tab: Tab, sets: Sequence[str]) -> None:
    """Open a set that this visitor built, if the visitor waited for it on the tab of the sets."""
    known = st.session_state.get(_KNOWN, set(sets))
    for name in sets:
        is_new = name not in known and name != url.value("set")
        if is_new and tab == "sets" and jobs.started_here("build training set", name):
            st.query_params.from_dict({"tab": "sets", "set": name})
            st.rerun()


def tabs_head(tab: Tab, sets: Sequence[str], chosen_set: str) -> None:
    """Show the tabs, and one line for each set that was built meanwhile."""
    offered = [(words, address(key, set=chosen_set), key == tab) for key, words in TITLES.items()]
    show(div(choices("show", offered), cls="choosers tabs"))
    known_sets: set[str] = st.session_state.setdefault(_KNOWN, set(sets))
    with st.container():  # always there, so that a line in it moves and closes nothing below
        for name in sets:
            if name not in known_sets:
                leads_there = "" if name == chosen_set else link(f"Open {name}", address("sets", set=name))
                show(notice(f"The set {name} is built. ", leads_there))
    known_sets.add(chosen_set)


def part_name(name: str) -> Html:
    """Return the name of a set, a model or a run as it is shown in sentences: a name such as "clean" is no verb."""
    return tag("code", name)


def title(finding: object, more: object = "") -> None:
    """Show what a tab found in one sentence, its heading, and below it at most one line more."""
    show(tag("h1", finding), tag("p", more, cls="soft") if more else "")


def pools(manifest: Mapping[str, Any] | None, offered_runs: Sequence[str]) -> list[str]:
    """Return those of the offered runs that a set was mined from; otherwise the first offered run."""
    mined = [name for name in (manifest or {}).get("request", {}).get("runs", ()) if name in offered_runs]
    return mined or list(offered_runs[:1])
