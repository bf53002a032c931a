"""Start a page through `main.py`, and show an error as one line instead of a traceback."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import streamlit as st

from blindspot.app.components.marks import notice
from blindspot.app.log import where_details_are
from blindspot.app.markup import show
from blindspot.app.whole_imports import import_whole
from blindspot.db.connection import NotSaved
from blindspot.db.errors import BlindspotError

THROUGH_MAIN = "through-main"
TRANSIENT_ERRORS = (OSError, sqlite3.Error, NotSaved)
"""Errors that may be temporary, such as a full disk or a locked database. The page tries again."""
SECONDS_TO_RETRY = 5.0


def enter(page: Callable[[], None], draws: bool = True) -> None:
    """Run a page. Every page file ends with a call of this function.

    `main.py` calls `st.navigation`. Because of the folder `pages` next to `main.py`, Streamlit runs a page's file
    directly when the first visitor of a server requests that page. A page that was not started by `main.py` therefore
    starts `main.py`.

    Args:
        draws: whether the page may draw with plotly, which needs whole libraries.
    """
    if not st.session_state.pop(THROUGH_MAIN, False):
        from blindspot.app.main import main

        main()
        return
    with one_line():
        if draws:
            import_whole()
        page()


@contextmanager
def one_line() -> Iterator[None]:
    """Show an error of the block as one line. Streamlit would otherwise handle errors of a page before `main.py` could
    catch them.
    """
    try:
        yield
    except Exception as error:
        report(error)


def report(error: Exception) -> bool:
    """Show one line about an error, write the traceback to the log, and try again later if the error may be temporary.

    Streamlit calls this function for errors of fragments and callbacks, and shows nothing itself because the result is
    True.
    """
    log = logging.getLogger(__name__)
    if not isinstance(error, BlindspotError):
        log.error("a page failed", exc_info=error)
    elif isinstance(error, TRANSIENT_ERRORS):
        log.error("a page failed: %s", error)
    show(notice(describe(error), kind="error"))
    if isinstance(error, TRANSIENT_ERRORS):
        try_again()
    return True


def describe(error: Exception) -> str:
    """Return one line that describes an error."""
    reason = " ".join(str(error).split())
    if isinstance(error, BlindspotError):
        return f"{reason} (This page tries again every few seconds.)" if isinstance(error, TRANSIENT_ERRORS) else reason
    if isinstance(error, TRANSIENT_ERRORS):
        return (
            f"The study cannot be read or written now: {reason}. This page tries again every few seconds. "
            f"{where_details_are()}"
        )
    return f"This page failed: {type(error).__name__}: {reason}. {where_details_are()}"


def try_again() -> None:
    """Rerun the page in a few seconds."""
    runs = 0

    @st.fragment(run_every=SECONDS_TO_RETRY)
    def retry() -> None:
        nonlocal runs
        runs += 1
        if runs > 1:
            st.rerun()

    retry()
