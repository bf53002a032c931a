"""The app's log file in the study's folder, where errors can be read after the terminal is closed."""

from __future__ import annotations

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

LOG = Path("logs") / "app.log"
"""Path of the log within the study's folder."""
BYTES, OLD_FILES = 1 << 20, 3
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def start_log(folder: Path) -> None:
    """Write warnings and errors of this process to the study's log and to standard error.

    A read-only study has no log.
    """
    logging.raiseExceptions = False  # a full disk must not put tracebacks of `logging` on the terminal
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    try:
        (folder / LOG).parent.mkdir(exist_ok=True)
        handlers.append(RotatingFileHandler(folder / LOG, maxBytes=BYTES, backupCount=OLD_FILES, encoding="utf-8"))
    except OSError as error:
        print(f"blindspot: the app writes no log: {error}", file=sys.stderr)
    logging.basicConfig(level=logging.WARNING, format=_FORMAT, handlers=handlers, force=True)
    streamlit = logging.getLogger("streamlit")
    streamlit.handlers, streamlit.propagate = [], True


def where_details_are() -> str:
    """Return the end of an error message, which says where to find the traceback."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, RotatingFileHandler):
            return f"Details: {LOG} in the study's folder."
    return "Details: the terminal where the app was started."
