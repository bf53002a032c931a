"""Records of long work, in labels.db: what was asked, how far it is, how it ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from db.connection import PerThread, writing
from db.errors import Missing

_COLUMNS = (
    "id",
    "kind",
    "arguments",
    "state",
    "pid",
    "host",
    "started",
    "ended",
    "done",
    "total",
    "doing",
    "error",
    "result",
)
UNFINISHED = ("waiting", "running")


@dataclass(frozen=True, slots=True)
class Job:
    """`state` is waiting, running, done, failed or cancelled; `done` of `total` (None where unknown) at `doing`."""

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

    @property
    def unfinished(self) -> bool:
        return self.state in UNFINISHED


class Jobs(PerThread):
    """The jobs of one labels.db. Threads may share it."""

    def create(self, id: str, kind: str, arguments: dict[str, Any]) -> None:
        with writing(self.connection) as connection:
            connection.execute(
                "INSERT INTO job (id, kind, arguments, state) VALUES (?, ?, ?, 'waiting')",
                (id, kind, json.dumps(arguments)),
            )

    def start(self, id: str, pid: int, host: str) -> None:
        with writing(self.connection) as connection:
            connection.execute(
                "UPDATE job SET state = 'running', pid = ?, host = ?, started = ?, heartbeat = ? WHERE id = ?",
                (pid, host, _now(), _now(), id),
            )

    def beat(self, id: str, done: int, total: int | None, doing: str) -> None:
        with writing(self.connection) as connection:
            connection.execute(
                "UPDATE job SET done = ?, total = ?, doing = ?, heartbeat = ? WHERE id = ?",
                (done, total, doing, _now(), id),
            )

    def end(self, id: str, state: str, error: str | None = None, result: Any = None) -> None:
        """Record the outcome; one that is recorded already stays."""
        with writing(self.connection) as connection:
            connection.execute(
                "UPDATE job SET state = ?, ended = ?, error = ?, result = ? WHERE id = ? AND state IN ('waiting', 'running')",
                (state, _now(), error, json.dumps(result), id),
            )

    def get(self, id: str) -> Job:
        """Raises Missing."""
        row = self.connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM job WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise Missing(f"there is no job {id!r} in this study")
        return _job(row)

    def recent(self, count: int = 20) -> list[Job]:
        """Newest first."""
        rows = self.connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM job ORDER BY rowid DESC LIMIT ?", (count,))
        return [_job(row) for row in rows]


def _job(row: tuple[Any, ...]) -> Job:
    values = dict(zip(_COLUMNS, row, strict=True))
    return Job(
        **{**values, "arguments": json.loads(values["arguments"]), "result": json.loads(values["result"] or "null")}
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
