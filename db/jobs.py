"""Records of jobs in labels.db: the request, the process, the progress and the outcome of each job."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

from blindspot.db.connection import PerThread, insert
from blindspot.db.errors import Missing

UNFINISHED = ("waiting", "running")


@dataclass(frozen=True, slots=True)
class Job:
    """The record of one job.

    Attributes:
        state: waiting, running, done, failed or cancelled.
        done, total, doing: items finished and items in all (None if unknown) of the current step, and its name.
        function: where the job's function is defined, "module:name"; None in records of an older version.
        heavy: heavy jobs of a study run one after another.
        pid, host, boot, process: the process that does the job, its machine, that machine's boot, and the identity of
            the process, which distinguishes it from a later process with the same pid; None while unknown.
        heartbeat: the last time that the process reported, UTC.
    """

    id: str
    kind: str
    arguments: dict[str, Any]
    state: str
    pid: int | None
    host: str | None
    started: str | None
    ended: str | None
    done: int
    total: int | None
    doing: str
    error: str | None
    result: Any
    function: str | None = None
    heavy: bool = True
    boot: str | None = None
    process: str | None = None
    heartbeat: str | None = None

    @property
    def unfinished(self) -> bool:
        return self.state in UNFINISHED


_COLUMNS = tuple(column.name for column in fields(Job))
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM job"


class Jobs(PerThread):
    """The jobs of one labels.db. Threads may share it."""

    def create(
        self,
        id: str,
        kind: str,
        arguments: dict[str, Any],
        *,
        function: str | None = None,
        heavy: bool = True,
        host: str | None = None,
        boot: str | None = None,
    ) -> None:
        """Record a job that is waiting to be started."""
        insert(
            self.connection,
            "job",
            id=id,
            kind=kind,
            arguments=json.dumps(arguments),
            state="waiting",
            function=function,
            heavy=int(heavy),
            host=host,
            boot=boot,
            heartbeat=_utc_now(),
        )

    def adopt(self, id: str, pid: int, process: str | None, host: str, boot: str | None) -> None:
        """Record which process does the job."""
        self._update(id, pid=pid, process=process, host=host, boot=boot, heartbeat=_utc_now())

    def start(self, id: str) -> None:
        """Record that a waiting job is now running."""
        self._update(id, ("waiting",), state="running", doing="", started=_utc_now(), heartbeat=_utc_now())

    def beat(self, id: str, completed: int, total: int | None, activity: str) -> None:
        """Record the progress of a job, and that its process is alive."""
        self._update(id, done=completed, total=total, doing=activity, heartbeat=_utc_now())

    def end(self, id: str, state: str, error: str | None = None, result: Any = None) -> None:
        """Record the outcome. Only the first outcome of a job counts; a later one changes nothing."""
        self._update(id, UNFINISHED, state=state, ended=_utc_now(), error=error, result=json.dumps(result))

    def _update(self, id: str, only_in: Sequence[str] = (), **values: Any) -> None:
        """Change the record of a job; with `only_in`, only if its state is one of these."""
        columns = ", ".join(f"{column} = ?" for column in values)
        condition = f" AND state IN ({', '.join('?' * len(only_in))})" if only_in else ""
        self.connection.execute(f"UPDATE job SET {columns} WHERE id = ?{condition}", (*values.values(), id, *only_in))

    def get(self, id: str) -> Job:
        """Raises Missing."""
        row = self.connection.execute(f"{_SELECT} WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise Missing(f"this study has no job {id!r}; list the jobs with: blindspot jobs list")
        return _job(row)

    def recent(self, count: int = 20) -> list[Job]:
        """Return the latest jobs, newest first."""
        return [_job(row) for row in self.connection.execute(f"{_SELECT} ORDER BY rowid DESC LIMIT ?", (count,))]

    def jobs_ahead_of(self, id: str) -> list[Job]:
        """Return the unfinished heavy jobs that were recorded before this one, oldest first."""
        rows = self.connection.execute(
            f"{_SELECT} WHERE heavy AND state IN ('waiting', 'running') AND rowid < (SELECT rowid FROM job WHERE id "
            "= ?) ORDER BY rowid",
            (id,),
        )
        return [_job(row) for row in rows]


def _job(row: tuple[Any, ...]) -> Job:
    values = dict(zip(_COLUMNS, row, strict=True))
    values["arguments"] = json.loads(values["arguments"])
    values["result"] = json.loads(values["result"] or "null")
    values["heavy"] = bool(values["heavy"])
    return Job(**values)


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
