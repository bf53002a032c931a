"""Write a job's progress to labels.db, where other processes read it, and stop the job when somebody cancels it."""

from __future__ import annotations

import sqlite3
import threading
import time
from typing import TYPE_CHECKING

from blindspot.backend.progress import Progress
from blindspot.db.errors import BlindspotError
from blindspot.db.jobs import Jobs

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

CANCELLED = "cancelled; finished work is kept, and the same command resumes from there"
SECONDS_BETWEEN_REPORTS = 1.0
SECONDS_BETWEEN_HEARTBEATS = 10.0


class Cancelled(BlindspotError):
    """Somebody cancelled the job."""


class JobReporter:
    """The `progress` of a job's function.

    Passes each report to the caller's own progress and raises Cancelled if somebody cancelled the job. A thread writes
    the last report to labels.db at most once a second, also while the function reports nothing, so that others see that
    the process is alive.
    """

    def __init__(self, study: Study, id: str, progress: Progress | None):
        self._jobs, self._id, self._progress = Jobs(study.labels_path), id, progress
        self._cancel_file = study.path("jobs", id) / "cancel"
        self._last: tuple[int, int | None, str] = (0, None, "")
        self._written: tuple[int, int | None, str] | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._write_reports, name=f"reports of job {id}", daemon=True)

    def __call__(self, completed: int, total: int | None, activity: str, /) -> None:
        if self._cancel_file.exists():
            raise Cancelled(CANCELLED)
        self._last = (int(completed), None if total is None else int(total), activity)
        if self._progress is not None:
            self._progress(completed, total, activity)

    def record_start(self) -> None:
        """Record that the job has started to run and no longer waits for other jobs."""
        self._last = self._written = (0, None, "")
        self._jobs.start(self._id)

    def __enter__(self) -> JobReporter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._write_latest_report()

    def _write_reports(self) -> None:
        last_write = 0.0
        while not self._ended.wait(SECONDS_BETWEEN_REPORTS):
            if self._last != self._written or time.monotonic() - last_write >= SECONDS_BETWEEN_HEARTBEATS:
                self._write_latest_report()
                last_write = time.monotonic()

    def _write_latest_report(self) -> None:
        report = self._last
        try:
            self._jobs.beat(self._id, *report)
        except sqlite3.Error:  # a full disk or a locked file must not end the work; the next report may succeed
            return
        self._written = report
