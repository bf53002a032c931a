"""What the last action of a page did, or why it failed."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from blindspot.app.components.marks import notice
from blindspot.app.markup import show
from blindspot.db.errors import BlindspotError

_MESSAGE = "message-of-last-action"


def try_action(work: Callable[[], str | None], place: str = "") -> None:
    """Run the action of a button. The next runs of the page show the words that it returns, or its error.

    Args:
        place: the part of the page that shows them, of those with a message of their own.
    """
    try:
        kind, words = "", work() or ""
    except BlindspotError as error:
        kind, words = "error", str(error)
    st.session_state[f"{_MESSAGE}-{place}"] = kind, words, None


def has_message(place: str) -> bool:
    """Return whether `show_last_message` will show words."""
    _, words, shown_at = st.session_state.get(f"{_MESSAGE}-{place}", ("", "", None))
    return bool(words) and shown_at in (None, _here())


def show_last_message(place: str = "") -> None:
    """Show the message of the last action, until the next action or until the address changes: a plot may make the page
    run again by itself. The container exists even without a message; otherwise open expanders below it would close.
    """
    with st.container():
        if has_message(place):
            kind, words, _ = st.session_state[f"{_MESSAGE}-{place}"]
            show(notice(words, kind=kind))
            st.session_state[f"{_MESSAGE}-{place}"] = kind, words, _here()


def _here() -> tuple[str | None, dict[str, str]]:
    return st.context.url, st.query_params.to_dict()
