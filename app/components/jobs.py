"""Long work as it goes: a bar, the rate, the time left, a way to stop it, and what became of the last ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import streamlit as st

from app import who
from app.components.marks import notice
from app.markup import Html, div, show, span, tag
from backend.core import jobs
from backend.core.declared import declared
from backend.core.study import Study
from backend.retrieval.retriever import RETRIEVERS
from db.errors import Refused
from db.jobs import Job
from db.rights import action_of_job

SHOWN = 5
_REFUSED = "jobs-refused"
WORDS = {"waiting": "waiting", "running": "running", "done": "done", "failed": "failed", "cancelled": "cancelled"}


def name(kind: str, arguments: dict[str, Any]) -> str:
    """ "retrieve dense over dev with minilm": what a job does, for people."""
    if kind == "retrieve":
        over = f" over {arguments['split']}" if arguments.get("split") else ""
        retriever = RETRIEVERS.find(arguments.get("kind", ""))
        takes_encoder = retriever is None or "encoder" in declared(retriever.options)
        encoder = f" with {arguments['encoder']}" if arguments.get("encoder") and takes_encoder else ""
        return f"retrieve {arguments.get('kind', '')}{over}{encoder}"
    extra = arguments.get("name") or arguments.get("experiment") or arguments.get("path", "").rsplit("/", 1)[-1]
    return f"{kind} {extra}".strip()


def is_running(study: Study, kind: str, arguments: dict[str, Any]) -> bool:
    return any(job.unfinished and (job.kind, job.arguments) == (kind, arguments) for job in jobs.recent(study, 20))


def start_button(
    study: Study, kind: str, arguments: dict[str, Any], key: str, words: str = "Start", lacking: str = ""
) -> None:
    """A button that starts a job, for those who may. While the job runs, or something is `lacking` for it, it cannot be pressed."""
    if not who.may(study.labels_path, action_of_job(kind)):
        return
    running = is_running(study, kind, arguments)
    does = f"Start: {name(kind, arguments)}" + (f" ({lacking})" if lacking else "")
    st.button(
        "Running" if running else words,
        key=key,
        disabled=running or bool(lacking),
        help=does,
        on_click=submit,
        args=(study, kind, arguments),
    )


def submit(study: Study, kind: str, arguments: dict[str, Any]) -> bool:
    """Start a job for whoever is at work, unless the same one is under way; the panel says so where it is refused.

    Gives whether the job is under way now.
    """
    try:
        if not is_running(study, kind, arguments):
            jobs.submit(study, kind, arguments, by=who.acting(study.labels_path))
        return True
    except Refused as error:
        st.session_state[_REFUSED] = str(error)
        return False


def cancel(study: Study, id: str) -> None:
    """Cancel a job for whoever is at work; the panel says so where it is refused."""
    try:
        jobs.cancel(study, id, by=who.acting(study.labels_path))
    except Refused as error:
        st.session_state[_REFUSED] = str(error)


@contextmanager
def followed(study: Study) -> Iterator[None]:
    """Around the drawing of a page with a panel: a job that ends meanwhile makes it anew, for what was drawn before does not know
    what the job made."""
    under_way = {job.id for job in jobs.recent(study, SHOWN) if job.unfinished}
    yield
    if any(job.id in under_way and not job.unfinished for job in jobs.recent(study, SHOWN)):
        st.rerun()


def panel(study: Study) -> None:
    """The last jobs. While one is unfinished it looks again every second, and reruns the page when the last one ends."""
    active = any(job.unfinished for job in jobs.recent(study, SHOWN))
    st.fragment(_list, run_every=1.0 if active else None)(study, active)


def _list(study: Study, was_active: bool) -> None:
    if who.gone(study.labels_path):
        st.rerun()
    if refused := st.session_state.pop(_REFUSED, None):
        show(notice(refused, kind="error"))
    recent = jobs.recent(study, SHOWN)
    if not recent:
        return
    with st.container(key="jobs"):
        show(tag("h2", "Jobs"))
        may_cancel = who.may(study.labels_path, "cancel jobs")
        for job in (job for job in recent if job.unfinished):
            left, right = st.columns([9, 1.6], vertical_alignment="center")
            with left:
                show(_running(job))
            with right:
                if may_cancel:
                    st.button("Cancel", key=f"cancel-{job.id}", on_click=cancel, args=(study, job.id))
        ended = [_ended(job) for job in recent if not job.unfinished]
        if ended:
            show(*ended)
    if was_active and not any(job.unfinished for job in recent):
        st.rerun()


def _running(job: Job) -> Html:
    share = min(job.done / job.total, 1.0) if job.total else None
    bar = div(
        span(style=f"width:{100 * (share or 0):.1f}%"),
        cls="progress" + ("" if share is not None else " unknown"),
        role="progressbar",
        aria_valuemin="0",
        aria_valuemax="100",
        aria_valuenow=None if share is None else f"{100 * share:.0f}",
    )
    return div(
        div(span(name(job.kind, job.arguments), cls="job-name"), span(_told(job), cls="soft"), cls="job-line"),
        bar,
        cls="job",
    )


def _told(job: Job) -> str:
    """ "encoding: 1,200 of 100,000, 40/s, 41 min left"; rate and time are of the step the job is at."""
    if job.state == "waiting":
        return "starting"
    doing = job.doing or "working"
    if not job.done:
        return doing
    parts = [f"{doing}: {job.done:,}" + (f" of {job.total:,}" if job.total else "")]
    rate = _rate(job)
    if rate:
        parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
        if job.total:
            parts.append(f"{duration((job.total - job.done) / rate)} left")
    return ", ".join(parts)


def _rate(job: Job) -> float | None:
    """Things a second since this session first saw the job at this step; None until a second has passed."""
    seen = st.session_state.setdefault("job-rates", {})
    now = time.monotonic()
    doing, since, done = seen.get(job.id, (None, now, job.done))
    if doing != job.doing:
        seen[job.id] = (job.doing, now, job.done)
        return None
    return (job.done - done) / (now - since) if now - since >= 1 and job.done > done else None


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _ended(job: Job) -> Html:
    when = (job.ended or "")[:16].replace("T", " ")
    line = div(
        span(WORDS.get(job.state, job.state), cls=f"state {job.state}"),
        span(name(job.kind, job.arguments), cls="job-name"),
        span(when, cls="soft"),
        cls="job-line",
    )
    return div(line, div(job.error, cls="job-error") if job.error and job.state == "failed" else "", cls="job ended")
