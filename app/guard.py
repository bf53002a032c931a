"""What goes wrong on a page is one line on it, never a traceback."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from app.components.marks import notice
from app.markup import show
from db.errors import BlindspotError


@contextmanager
def one_line() -> Iterator[None]:
    """Around all of a page: Streamlit's own handler would take an error before `main.py` could."""
    try:
        yield
    except BlindspotError as error:
        show(notice(str(error), kind="error"))
    except (OSError, sqlite3.Error, ValueError) as error:
        logging.getLogger(__name__).exception("a page could not be shown")
        show(notice(f"This could not be read: {error}. The log of the app's server says more.", kind="error"))
