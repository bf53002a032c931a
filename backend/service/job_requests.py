"""Jobs through the service and the agents' server: which kinds may be started from afar, and with which arguments.

Left out are jobs that read a file of the server or send texts elsewhere. The command line and the app start those.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blindspot.backend.core import jobs
from blindspot.db.errors import BadInput, Missing

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study
    from blindspot.backend.service.caller import Caller
    from blindspot.db.jobs import Job

# Kind of job to the module that registers it. Modules load when a job of theirs is started.
STARTABLE = {
    "index bm25": "blindspot.backend.retrieval.bm25",
    "index dense": "blindspot.backend.retrieval.dense",
    "index titles": "blindspot.backend.retrieval.titles",
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
    "learning curve": "blindspot.backend.training.learning_curve",
}
WITHHELD = frozenset({"study", "progress", "by", "vectors", "ids", "merge", "scores", "trained"})
"""Arguments that a client cannot give: those that the service sets, files of the server, and values that are not JSON."""
MAX_ARGUMENTS = 20_000  # characters of the arguments as JSON
LOG_END = 20_000  # characters of the end of a log


@dataclass(frozen=True, slots=True)
class StartableJob:
    """A kind of job that can be started, with the names of its arguments; `more`: it takes further named ones."""

    kind: str
    required: list[str]
    optional: list[str]
    more: bool


def startable(kind: str) -> StartableJob:
    """Return what a kind of job takes. Raises BadInput for a kind that cannot be started from afar."""
    parameters = inspect.signature(_kind(kind).function).parameters.values()
    named = [each for each in parameters if each.name not in WITHHELD and each.kind is not each.VAR_KEYWORD]
    return StartableJob(
        kind,
        [each.name for each in named if each.default is each.empty],
        [each.name for each in named if each.default is not each.empty],
        any(each.kind is each.VAR_KEYWORD for each in parameters),
    )


def start(study: Study, caller: Caller, kind: str, arguments: Mapping[str, Any]) -> str:
    """Start a job in a process of its own, and return its id.

    Raises:
        BadInput: The kind cannot be started from afar, or an argument is unknown, missing or not allowed.
        Forbidden: The caller may not start it. Refused: The job itself refuses its arguments.
    """
    takes = startable(kind)
    asked = jobs.JobRequest(_kind(kind), dict(arguments))
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
    if "by" in inspect.signature(asked.kind.function).parameters:
        asked = jobs.JobRequest(asked.kind, asked.arguments | {"by": caller.name})
    return jobs.submit_request(study, asked, caller.name)


def cancel(study: Study, caller: Caller, id: str) -> dict[str, Any]:
    """Ask a job to stop, and return its state. Raises Forbidden, Missing."""
    caller.require(study, "cancel jobs")
    state(study, id)
    jobs.cancel(study, id, caller.name)
    return state(study, id)


def recent(study: Study, count: int) -> list[dict[str, Any]]:
    """Return the last jobs, newest first."""
    return [_record(each) for each in jobs.recent(study, count)]


def state(study: Study, id: str) -> dict[str, Any]:
    """Return a job as it is now. Raises Missing."""
    return _record(jobs.status(study, id))


def log_end(study: Study, id: str) -> str:
    """Return the end of what a job printed. Raises Missing."""
    jobs.status(study, id)
    return jobs.log(study, id)[-LOG_END:]


def _kind(kind: str) -> jobs.JobKind:
    if kind not in STARTABLE:
        raise BadInput(f"a job of the kind {str(kind)[:80]!r} cannot be started here; known: {', '.join(STARTABLE)}")
    importlib.import_module(STARTABLE[kind])
    found = jobs.kinds().get(kind)
    if found is None:
        raise Missing(f"this installation has no jobs of the kind {kind!r}")
    return found


def _record(job: Job) -> dict[str, Any]:
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
        "error": job.error,
        "result": job.result,
    }
