"""Start jobs through the service or the agents' server: which kinds of jobs clients may start, and with which
arguments.

Clients may not start jobs that read a file on the server or send texts to another server, nor pass argument values that
would do so (`job_values`). Such jobs can be started only on the command line and in the app.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blindspot.backend.core import jobs
from blindspot.backend.core.study import Study
from blindspot.backend.service.caller import Caller
from blindspot.backend.service.job_values import check_values
from blindspot.db.errors import BadInput, Missing, Refused
from blindspot.db.jobs import Job
from blindspot.db.rights import action_of_job

# Kind of job to the module that registers it. Modules load when a job of theirs is started.
STARTABLE = {
    "index bm25": "blindspot.backend.retrieval.bm25",
    "index dense": "blindspot.backend.retrieval.dense",
    "retrieve": "blindspot.backend.retrieval.retrieve",
    "count frequencies": "blindspot.backend.data.importing.importer",
    "make batch": "blindspot.backend.judging.batches",
    "map": "blindspot.backend.maps.making",
    "build training set": "blindspot.backend.training_sets.builder",
    "train dual-encoder": "blindspot.backend.training.dual_encoder",
    "train adapter": "blindspot.backend.training.adapter",
    "train cross-encoder": "blindspot.backend.training.cross_encoder",
    "train reader": "blindspot.backend.reader.training",
    "try model": "blindspot.backend.training.dual_encoder",
    "score run": "blindspot.backend.training.scoring",
    "learn judge": "blindspot.backend.judges.feature_judge",
    "judge run": "blindspot.backend.judges.feature_judge",
    "judge with labels": "blindspot.backend.judges.label_judge",
    "read": "blindspot.backend.reader.reading",
}
WITHHELD = frozenset({"study", "progress", "by", "vectors", "ids", "merge", "scores", "trained"})
"""Arguments that clients cannot set: those that the service sets itself, paths on the server, and values that are not
JSON.
"""
HIDDEN_ERROR = "it failed; those who may start this job see why"
MAX_ARGUMENTS = 20_000  # characters of the arguments as JSON
LOG_END = 20_000  # characters of the end of a log
_starting = threading.Lock()


@dataclass(frozen=True, slots=True)
class StartableJob:
    """A kind of job that clients can start, with the names of its arguments. `more`: whether it accepts further named
    arguments.
    """

    kind: str
    required: list[str]
    optional: list[str]
    more: bool


def startable(kind: str) -> StartableJob:
    """Return the arguments of a kind of job. Raises BadInput for a kind that clients cannot start."""
    parameters = inspect.signature(_job_kind(kind).function).parameters.values()
    named = [each for each in parameters if each.name not in WITHHELD and each.kind is not each.VAR_KEYWORD]
    return StartableJob(
        kind,
        [each.name for each in named if each.default is each.empty],
        [each.name for each in named if each.default is not each.empty],
        any(each.kind is each.VAR_KEYWORD for each in parameters),
    )


def start_job(study: Study, caller: Caller, kind: str, arguments: Mapping[str, Any], key: str | None = None) -> str:
    """Start a job in a separate process, and return its id.

    Args:
        key: Chosen by the client, who sends the same one when it asks again: the job is started once.

    Raises:
        BadInput: The kind cannot be started from afar, or an argument or its value is unknown, missing or not allowed.
        Forbidden: The caller may not start it. Refused: The job itself refuses its arguments.
    """
    takes = startable(kind)
    asked = jobs.JobRequest(_job_kind(kind), dict(arguments))
    caller.require(study, asked.action)
    if len(json.dumps(asked.arguments)) > MAX_ARGUMENTS:
        raise BadInput(f"the arguments of a job may have at most {MAX_ARGUMENTS:,} characters")
    known = [*takes.required, *takes.optional]
    if withheld := sorted(WITHHELD.intersection(arguments)):
        raise BadInput(f"the argument {withheld[0]!r} of {kind!r} cannot be given here; use the command line")
    if not takes.more and (unknown := [name for name in arguments if name not in known]):
        raise BadInput(f"unknown argument {unknown[0]!r} of {kind!r}; known: {', '.join(known) or 'none'}")
    if missing := [name for name in takes.required if name not in arguments]:
        raise BadInput(f"{kind!r} needs the argument {missing[0]!r}")
    check_values(study, kind, arguments)
    if "by" in inspect.signature(asked.kind.function).parameters:
        asked = jobs.JobRequest(asked.kind, asked.arguments | {"by": caller.name})
    if key is None:
        return jobs.submit_request(study, asked, caller.name)
    id = f"key-{hashlib.sha256(json.dumps([caller.kind, caller.name, key]).encode()).hexdigest()[:24]}"
    with _starting:
        try:
            earlier = jobs.status(study, id)
        except Missing:
            return jobs.submit_request(study, asked, caller.name, id)
    if (earlier.kind, earlier.arguments) != (kind, asked.arguments):
        raise Refused("this id started another job; choose a new id for a new job")
    return id


def cancel_job(study: Study, caller: Caller, id: str) -> dict[str, Any]:
    """Ask a job to stop, and return its state. Raises Forbidden if the caller lacks the right, and Missing for an
    unknown job.
    """
    caller.require(study, "cancel jobs")
    jobs.status(study, id)
    jobs.cancel(study, id, caller.name)
    return job_state(study, caller, id)


def recent_jobs(study: Study, caller: Caller, count: int) -> list[dict[str, Any]]:
    """Return the states of the last jobs, newest first."""
    return [_job_record(study, caller, each) for each in jobs.recent(study, count)]


def job_state(study: Study, caller: Caller, id: str) -> dict[str, Any]:
    """Return the current state of a job. The reason of a failure is shown only to callers who may start the job,
    because it may contain paths of the server.

    Raises Missing for an unknown job.
    """
    return _job_record(study, caller, jobs.status(study, id))


def log_end(study: Study, id: str) -> str:
    """Return the end of a job's printed output. Raises Missing for an unknown job."""
    jobs.status(study, id)
    return jobs.log(study, id)[-LOG_END:]


def _job_kind(kind: str) -> jobs.JobKind:
    if kind not in STARTABLE:
        raise BadInput(f"a job of the kind {str(kind)[:80]!r} cannot be started here; known: {', '.join(STARTABLE)}")
    importlib.import_module(STARTABLE[kind])
    found = jobs.kinds().get(kind)
    if found is None:
        raise Missing(f"this installation has no jobs of the kind {kind!r}")
    return found


def _job_record(study: Study, caller: Caller, job: Job) -> dict[str, Any]:
    error = job.error
    if error is not None and job.state == "failed" and not caller.is_allowed(study, action_of_job(job.kind)):
        error = HIDDEN_ERROR
    return {
        "job": job.id,
        "kind": job.kind,
        "title": jobs.title(job.kind, job.arguments),
        "state": job.state,
        "done": job.done,
        "total": job.total,
        "doing": job.doing,
        "started": job.started,
        "ended": job.ended,
        "error": error,
        "result": job.result,
    }
