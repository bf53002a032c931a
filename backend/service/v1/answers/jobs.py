"""The answers on jobs."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from blindspot.backend.service.v1.answers.parts import example

_JOB = {"job": "20261122-120000-a1b2c3", "kind": "retrieve", "title": "retrieve bm25 over dev", "state": "running",
        "done": 120, "total": 505, "doing": "searching", "started": "2026-11-22T12:00:00Z", "ended": None,
        "error": None, "result": None}  # fmt: skip


class JobAnswer(BaseModel):
    """A job: waiting, running, done, failed or cancelled."""

    model_config: ClassVar[ConfigDict] = example(_JOB)
    job: str
    kind: str
    title: str
    state: str
    done: int
    total: int | None
    doing: str
    started: str | None
    ended: str | None
    error: str | None
    result: Any


class JobsAnswer(BaseModel):
    """The last jobs, newest first."""

    model_config: ClassVar[ConfigDict] = example({"items": [_JOB]})
    items: list[JobAnswer]


class JobKindItem(BaseModel):
    """A kind of job that can be started. `more`: it takes further named arguments, such as a retriever's options."""

    kind: str
    required: list[str]
    optional: list[str]
    more: bool


class JobKindsAnswer(BaseModel):
    """The kinds of jobs that can be started here."""

    model_config: ClassVar[ConfigDict] = example(
        {"items": [{"kind": "index bm25", "required": [], "optional": ["threads"], "more": False}]}
    )
    items: list[JobKindItem]


class LogAnswer(BaseModel):
    """The end of what a job printed."""

    model_config: ClassVar[ConfigDict] = example({"job": _JOB["job"], "log": "505 questions\n"})
    job: str
    log: str
