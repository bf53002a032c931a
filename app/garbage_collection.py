"""Keep Python's garbage collections short in the app's server.

Streamlit runs `gc.collect(2)` after every run of a page's script. This visits every object of the process: modules,
questions and everybody's pages. It took 85 ms of the 115 ms that storing a label took (benchmarks/RESULTS.md).

This module therefore runs a full collection from time to time and excludes everything that survives it from later
collections, with `gc.freeze`. The collections in between visit only objects created since then, and free their garbage
at once. Garbage among the excluded objects is freed by the next full collection.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

SECONDS_BETWEEN = 30.0
"""Shortest time between the end of a full collection and the start of the next."""
LONG_SECONDS = 0.05
"""Seconds. If a collection takes longer than this, everything that survives it is excluded too, because modules or
questions have just been loaded.
"""
LARGEST_SHARE = 1 / 200
"""Largest share of the time that full collections may take; with millions of questions, one takes seconds."""


class ShortCollections:
    """A callback for `gc.callbacks`; see the docstring of this module."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._next_whole, self._began = 0.0, 0.0
        self._is_whole = False

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        if info["generation"] < 2:
            return
        now = self._clock()
        if phase == "start":
            self._is_whole, self._began = now >= self._next_whole, now
            if self._is_whole:
                gc.unfreeze()  # into the generation that is now collected
            return
        if self._is_whole or now - self._began > LONG_SECONDS:
            gc.freeze()
        if self._is_whole:
            self._next_whole = now + max(SECONDS_BETWEEN, (now - self._began) / LARGEST_SHARE)


def keep_collections_short() -> None:
    """Install the callback in this process, once."""
    if not any(isinstance(callback, ShortCollections) for callback in gc.callbacks):
        gc.callbacks.append(ShortCollections())
