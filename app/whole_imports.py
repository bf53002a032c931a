"""Import libraries whole before pages run side by side.

Some libraries look into `sys.modules` for others that they support: plotly for pandas, scipy for torch. Found while
another thread is still importing it, such a module lacks its classes, and the page that asked fails. So each page first
waits for these imports, and torch is imported only after them.
"""

from __future__ import annotations

from importlib import import_module
from threading import Lock

LIBRARIES = ("pandas", "scipy.stats")
_one_thread = Lock()


def import_whole() -> None:
    """Import LIBRARIES, or wait until another thread has. Takes a second the first time, and nothing then."""
    with _one_thread:
        for name in LIBRARIES:
            import_module(name)
