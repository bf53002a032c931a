"""What the last action of a page did, or why it failed."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from blindspot.app.components.marks import notice
from blindspot.app.markup import show
from blindspot.db.errors import BlindspotError

_MESSAGE = "message-of-last-action"


def try_action(work: Callable[[], str]) -> None:
    """Run the action of a button. The next runs of the page show the words that it returns, or its error."""
    try:
        kind, words = "", work()
    except BlindspotError as error:
        kind, words = "error", str(error)
    st.session_state[_MESSAGE] = kind, words, None


def show_last_message() -> None:
    """Show the message of the last action, until the next action or until the address changes: a plot may make the page
    run again by itself. The container exists even without a message; otherwise open expanders below it would close.
    """
    kind, words, shown_at = st.session_state.get(_MESSAGE, ("", "", None))
    here = st.context.url, st.query_params.to_dict()
    with st.container():
        if words and shown_at in (None, here):
            show(notice(words, kind=kind))
            st.session_state[_MESSAGE] = kind, words, here
