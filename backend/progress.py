"""The type of progress callbacks. It is in a module of its own because every layer of the backend reports progress."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """A function that long-running work calls to report its progress.

    Args:
        done: items finished in the current step.
        total: items in the current step; None if unknown.
        doing: the current step, for people: "encoding passages". A new text starts a new step.

    The work must not catch exceptions that the function raises, because a job is cancelled in this way.
    """

    def __call__(self, completed: int, total: int | None, activity: str, /) -> None: ...
