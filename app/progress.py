"""Progress on standard error: a bar with rate and time left in a terminal, lines in a log or a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from blindspot.backend.progress import Progress

SECONDS_BETWEEN_LINES = 10


@contextmanager
def terminal_progress() -> Iterator[Progress]:
    """Yield a progress function that shows its reports until the end of the block."""
    if sys.stderr.isatty():
        with _bar() as watch:
            yield watch
    else:
        yield _Lines()


@contextmanager
def _bar() -> Iterator[Progress]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import (
        Progress as ProgressBar,
    )

    from blindspot.app.console import Terminal

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with ProgressBar(*columns, console=Terminal(stderr=True), transient=True) as progress:
        task, at = None, ""

        def watch(completed: int, total: int | None, activity: str) -> None:
            nonlocal task, at
            if task is None or activity != at:
                if task is not None:
                    progress.remove_task(task)
                task, at = progress.add_task(activity, total=total, rate=""), activity
            speed = progress.tasks[0].speed
            progress.update(task, completed=completed, total=total, rate=f"{speed:,.0f}/s" if speed else "")

        yield watch


class _Lines:
    """Prints a line when a new step begins, and every ten seconds within a step."""

    def __init__(self) -> None:
        self._doing, self._last_line, self._step_start, self._done_at_start = "", 0.0, 0.0, 0

    def __call__(self, completed: int, total: int | None, activity: str, /) -> None:
        now = time.monotonic()
        if activity != self._doing:
            self._doing, self._last_line, self._step_start, self._done_at_start = activity, now, now, completed
            print(f"{activity} ...", file=sys.stderr, flush=True)
        elif now - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = now
            rate = (completed - self._done_at_start) / (now - self._step_start)
            remaining = f", {(total - completed) / rate:,.0f} s left" if total and rate > 0 else ""
            of = f" of {total:,}" if total else ""
            print(f"{activity}: {completed:,}{of} ({rate:,.0f}/s{remaining})", file=sys.stderr, flush=True)
