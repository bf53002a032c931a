"""The type of a progress callback. The module is outside the packages because every layer of the backend reports
progress.
"""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A function that long work calls to report how far it is.

    Args:
        done: items finished in the current step.
        total: items in the current step; None if unknown.
        doing: the current step, for people: "encoding passages". A new text starts a new step.

    The work must let every exception of the function pass: that is how a job is cancelled.
    """

    def __call__(self, done: int, total: int | None, doing: str, /) -> None: ...
