"""Jobs on a page: buttons that start them, and a panel of the waiting, running and latest finished jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import streamlit as st

from blindspot.app import who
from blindspot.app.components.marks import notice
from blindspot.app.markup import Html, div, show, span, tag
from blindspot.backend.core import jobs
from blindspot.backend.core.extras import first_missing, install_command
from blindspot.backend.core.jobs import JobRequest
from blindspot.backend.core.study import Study
from blindspot.backend.core.summary import latest_jobs
from blindspot.backend.text.number_words import duration, quantity
from blindspot.db.errors import BlindspotError
from blindspot.db.jobs import Job
from blindspot.db.rights import action_of_job

ENDED_JOBS_SHOWN = 5
JOBS_CONSIDERED = 50  # number of latest jobs that the panel considers
LOG_SHOWN = 8000  # characters to show from the end of the log
SECONDS_TO_STOP = 10.0  # after this time the panel offers to kill a cancelled job
_REFUSED = "jobs-refused"
_STARTED = "jobs-started"  # (kind, name of the part that the job makes) of this visitor's jobs


def is_unfinished(study: Study, request: JobRequest) -> bool:
    """Return whether the same job with the same arguments is waiting or running."""
    return any(job.unfinished for job in _same_requests(study, request))


def _same_requests(study: Study, request: JobRequest) -> list[Job]:
    """The recent jobs with the same kind and arguments, newest first."""
    of_request = (request.kind.kind, request.arguments)
    return [job for job in jobs.recent(study, JOBS_CONSIDERED) if (job.kind, job.arguments) == of_request]


def followed_button(study: Study, request: JobRequest, key: str, words: str) -> None:
    """Show a button that starts a job, and below it the job's progress, or why it failed. The page reruns when the job
    ends. Use this on pages that have no panel of jobs.
    """
    start_button(study, request, key, words)
    same = _same_requests(study, request)
    if any(job.unfinished for job in same):
        st.fragment(_follow, run_every=1.0)(study, request)
    elif same and same[0].state == "failed":
        show(_ended_job(same[0], who.may(study.labels_path, request.action)))


def _follow(study: Study, request: JobRequest) -> None:
    """Show the progress of a job. When the job ends, rerun the whole page."""
    unfinished = [job for job in _same_requests(study, request) if job.unfinished]
    if not unfinished:
        st.rerun()
    show(_progress(unfinished[0], jobs.seconds_since_cancelled(study, unfinished[0].id) is not None))


def start_button(
    study: Study, request: JobRequest, key: str, label: str = "Start", missing_part: str = "", primary: bool = False
) -> None:
    """Show a button that starts a job, if the person has the right to start it.

    The button is disabled while the same job is unfinished, or while the study lacks something (`missing_part` names
    it). primary: whether the button is the one next step on its page.
    """
    if not who.may(study.labels_path, request.action):
        return
    if not missing_part and (extra := first_missing(request.kind.extras)):
        missing_part = f"needs the extra {extra}: {install_command(extra)}"
    unfinished = is_unfinished(study, request)
    st.button(
        "Started" if unfinished else label,
        key=key,
        type="primary" if primary else "secondary",
        disabled=unfinished or bool(missing_part),
        help=f"Start: {request.title}" + (f" ({missing_part})" if missing_part else ""),
        on_click=_start,
        args=(study, request),
    )


def _start(study: Study, request: JobRequest) -> None:
    start(study, request)


def start(study: Study, request: JobRequest) -> bool:
    """Start a job, unless the same job is unfinished. Return False if the job was refused; the panel then shows the
    reason.
    """
    try:
        if not is_unfinished(study, request):
            jobs.submit_request(study, request, actor=who.acting_name(study.labels_path))
            st.session_state.setdefault(_STARTED, []).append((request.kind.kind, request.arguments.get("name")))
    except BlindspotError as error:
        st.session_state[_REFUSED] = f"{request.title} was not started: {error}"
        return False
    return True


def started_here(kind: str, name: str) -> bool:
    """Return whether this visitor started a job of this kind that makes the part with this name."""
    return (kind, name) in st.session_state.get(_STARTED, [])


def cancel(study: Study, id: str, force: bool = False) -> None:
    """Cancel a job, as the signed-in person. If this is refused, the panel shows the reason."""
    try:
        jobs.cancel(study, id, actor=who.acting_name(study.labels_path), force=force)
    except BlindspotError as error:
        st.session_state[_REFUSED] = str(error)


@contextmanager
def with_job_panel(study: Study) -> Iterator[None]:
    """Show a page that has a panel of jobs. If a job ends meanwhile, rerun the page, so that all parts show the result."""
    before = unfinished(study)
    yield
    if before - unfinished(study):
        st.rerun()


def panel(study: Study, finished: bool = False) -> None:
    """Show the unfinished and the failed jobs; with `finished`, also the latest finished ones.

    While a job is unfinished, the panel refreshes every second. When a job ends, the whole page reruns.
    """
    recent = latest_jobs(study, JOBS_CONSIDERED)
    if not finished:
        recent = [job for job in recent if job.unfinished or job.state == "failed"]
    unfinished = {job.id for job in recent if job.unfinished}
    refused = st.session_state.pop(_REFUSED, None)
    if not recent and not refused:
        return
    with st.container(key="jobs"):
        if refused:
            show(notice(refused, kind="error"))
        failed = [job for job in recent if job.state == "failed"][:ENDED_JOBS_SHOWN]
        if unfinished or failed:
            show(tag("h2", "Jobs"))
        if unfinished:
            st.fragment(_unfinished_jobs, run_every=1.0)(study, unfinished)
        for job in failed:
            may_see = who.may(study.labels_path, action_of_job(job.kind))  # why it failed may name files of the server
            show(_ended_job(job, may_see))
            if may_see:
                _log(study, job)
        if ended := [job for job in recent if not job.unfinished and job.state != "failed"]:
            lines = (_ended_job(job, False) for job in ended[:ENDED_JOBS_SHOWN])
            show(tag("details", tag("summary", quantity(len(ended), "finished job")), *lines))


def unfinished(study: Study) -> set[str]:
    """Return the ids of the waiting and running jobs."""
    return {job.id for job in jobs.recent(study, JOBS_CONSIDERED) if job.unfinished}


def _unfinished_jobs(study: Study, known_jobs: set[str]) -> None:
    """Show the waiting and running jobs in their order. When the set of jobs changes, rerun the whole page."""
    unfinished = [job for job in jobs.recent(study, JOBS_CONSIDERED) if job.unfinished]
    if (
        who.sign_in_has_ended(study.labels_path)
        or _REFUSED in st.session_state
        or {job.id for job in unfinished} != known_jobs
    ):
        st.rerun()
    for job in reversed(unfinished):
        _with_cancel(study, job)


def _with_cancel(study: Study, job: Job) -> None:
    main_column, right = st.columns([9, 1.8], vertical_alignment="center")
    since_cancelled = jobs.seconds_since_cancelled(study, job.id)
    with main_column:
        show(_progress(job, since_cancelled is not None))
    if not who.may(study.labels_path, "cancel jobs"):
        return
    with right:
        if since_cancelled is None:
            st.button("Cancel", key=f"cancel-{job.id}", on_click=cancel, args=(study, job.id))
        elif since_cancelled >= SECONDS_TO_STOP:
            st.button(
                "End now",
                key=f"end-{job.id}",
                help="Kill the process of the job, which has not stopped yet. Unsaved work is lost.",
                on_click=cancel,
                args=(study, job.id, True),
            )


def _progress(job: Job, is_cancelled: bool) -> Html:
    line = div(
        span("stopping" if is_cancelled else job.state, cls=f"state {job.state}"),
        span(jobs.title(job.kind, job.arguments), cls="job-name"),
        span(_what_it_does(job), cls="soft"),
        cls="job-line",
    )
    if job.state == "waiting":
        return div(line, cls="job")
    share = min(job.done / job.total, 1.0) if job.total else None
    bar = div(
        span(style=f"width:{100 * (share or 0):.1f}%"),
        cls="progress" + ("" if share is not None else " unknown"),
        role="progressbar",
        aria_valuemin="0",
        aria_valuemax="100",
        aria_valuenow=None if share is None else f"{100 * share:.0f}",
    )
    return div(line, bar, cls="job")


def _what_it_does(job: Job) -> str:
    """Return a line such as "encoding: 1,200 of 100,000, 40/s, 41 min left", with rate and time of the current step."""
    if job.state == "waiting":
        return job.doing or "starting"
    doing = job.doing or "working"
    if not job.done:
        return doing
    words = [f"{doing}: {job.done:,}" + (f" of {job.total:,}" if job.total else "")]
    rate = _rate(job)
    if rate:
        words.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
        if job.total:
            words.append(f"{duration((job.total - job.done) / rate)} left")
    return ", ".join(words)


def _rate(job: Job) -> float | None:
    """Return the number of items per second since this session first saw the job's current step; None during the first
    second.
    """
    first_seen = st.session_state.setdefault("job-rates", {})
    now = time.monotonic()
    doing, since, done = first_seen.get(job.id, (None, now, job.done))
    if doing != job.doing:
        first_seen[job.id] = (job.doing, now, job.done)
        return None
    return (job.done - done) / (now - since) if now - since >= 1 and job.done > done else None


def _ended_job(job: Job, may_see: bool) -> Html:
    line = div(
        span(job.state, cls=f"state {job.state}"),
        span(jobs.title(job.kind, job.arguments), cls="job-name"),
        span(_end_and_duration(job), cls="soft"),
        cls="job-line",
    )
    shown = job.error and job.state == "failed" and may_see
    return div(line, div(job.error, cls="job-error") if shown else "", cls="job ended")


def _end_and_duration(job: Job) -> str:
    """Return the end time and duration, such as "2026-03-01 14:05 UTC, took 3 min"."""
    if not job.ended:
        return ""
    when = f"{job.ended[:16].replace('T', ' ')} UTC"
    if not job.started:
        return when
    seconds = (datetime.fromisoformat(job.ended) - datetime.fromisoformat(job.started)).total_seconds()
    return f"{when}, took {duration(seconds)}"


def _log(study: Study, job: Job) -> None:
    """Show the end of a failed job's log in an expander."""
    printed = jobs.log(study, job.id).strip()
    if not printed or printed == job.error:
        return
    with st.expander("Log"):
        if len(printed) > LOG_SHOWN:
            printed = "…\n" + printed[-LOG_SHOWN:].partition("\n")[2]
        st.code(printed, language=None, wrap_lines=True)
        show(tag("p", "For the whole log, run: ", tag("code", f"blindspot jobs log {job.id}"), cls="soft"))
