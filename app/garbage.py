"""Keep Python's garbage collections short in the app's server.

Streamlit runs `gc.collect(2)` after every run of a page's script, which visits every object of the process: the modules,
the questions and everybody's pages. It took 85 ms of the 115 ms that storing a label took (benchmarks/RESULTS.md).

Here each collection visits only the objects that were made since the previous one. Everything that survives is set aside
with `gc.freeze`. Now and then a collection visits everything again, so garbage among the objects that were set aside is
freed too, only later.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

SECONDS_BETWEEN = 30.0
"""Shortest time from the end of a whole collection to the start of the next."""
SHARE = 1 / 200
"""Largest share of the time that whole collections take: with millions of questions one takes seconds."""


class ShortCollections:
    """A callback for `gc.callbacks`; see the module."""

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
        gc.freeze()  # what has just survived a collection of all generations
        if self._is_whole:
            self._next_whole = now + max(SECONDS_BETWEEN, (now - self._began) / SHARE)


def keep_collections_short() -> None:
    """Install the callback in this process, once."""
    if not any(isinstance(callback, ShortCollections) for callback in gc.callbacks):
        gc.callbacks.append(ShortCollections())
