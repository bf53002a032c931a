"""How a page is entered: always through `main.py`, and with one line instead of a traceback where something goes wrong."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import streamlit as st

from app.components.marks import notice
from app.markup import show
from db.errors import BlindspotError

THROUGH_MAIN = "through-main"


def enter(page: Callable[[], None]) -> None:
    """What every page file ends with.

    Where a folder `pages` lies beside `main.py`, Streamlit runs the page's file alone when a server's very first visitor asks
    for that page: it learns of `st.navigation` only from `main.py`. So a page that was not entered through main enters it.
    """
    if not st.session_state.pop(THROUGH_MAIN, False):
        from app.main import main

        main()
        return
    with one_line():
        page()


@contextmanager
def one_line() -> Iterator[None]:
    """Streamlit's own handler stands around a page, and would take an error before `main.py` could."""
    try:
        yield
    except BlindspotError as error:
        show(notice(str(error), kind="error"))
    except (OSError, sqlite3.Error, ValueError) as error:
        logging.getLogger(__name__).exception("a page could not be shown")
        show(notice(f"This could not be read: {error}. The log of the app's server says more.", kind="error"))
