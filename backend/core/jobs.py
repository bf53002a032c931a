"""Jobs: long-running work that a study records. A job has progress, a log and a place in a queue, and can be cancelled.

A job is a function that is registered where it is defined:

    @job("index bm25")
    def build_index(study: Study, threads: int | None = None, progress: Progress | None = None) -> dict: ...

`run(build_index, study, threads=2)` does the job in this process, as the command line does. `submit(build_index, study,
threads=2)` starts a process for it, as the app does. `run` and `submit` take the function's own arguments, and the
study lists both kinds of job in the same way.

Heavy jobs of a study run one after another, in the order in which they were submitted. A light job starts at once.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import math
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, Any, ClassVar, Concatenate, ParamSpec, Protocol, TypeVar, cast

from blindspot.backend.core import job_process
from blindspot.backend.core.extras import require as require_extras
from blindspot.backend.core.job_reports import CANCELLED as CANCELLED
from blindspot.backend.core.job_reports import Cancelled as Cancelled
from blindspot.backend.core.job_reports import JobReporter
from blindspot.backend.core.require_right import require
from blindspot.backend.core.settings import check_name
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.db.errors import BlindspotError, Refused
from blindspot.db.jobs import Job, Jobs
from blindspot.db.rights import action_of_job

DIED = "the process of this job ended without a result: it was killed, or the memory was full; its log may say more"
NEVER_STARTED = "the process of this job ended before the job began; start it again"
SECONDS_BETWEEN_LOOKS = 0.3  # of a waiting job, at the jobs ahead of it


class NamedPart(Protocol):
    """A part of a study that has a name: a run, a training set, a map."""

    @property
    def name(self) -> str: ...


class DataclassInstance(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


JobResult = str | int | float | Mapping[str, Any] | Sequence[Any] | DataclassInstance | NamedPart | None
"""What the function of a job may return. The record stores a part by its name, and everything else as JSON."""

P = ParamSpec("P")
R = TypeVar("R")
Function = TypeVar("Function", bound=Callable[..., JobResult])


@dataclasses.dataclass(frozen=True)
class JobKind:
    """A function that is registered as a job.

    kind: the name that records and pages show. Studies keep it: do not change the kind of a released job.
    light: the job does not wait for others, and others do not wait for it.
    check: takes the same arguments, without `progress`, and raises a BlindspotError for invalid arguments. Called
        before anything is recorded.
    extras: the extras (`blindspot.backend.core.extras`) that the job needs. Without them it is not recorded either.
    """

    kind: str
    function: Callable[..., Any]
    light: bool = False
    check: Callable[..., object] | None = None
    extras: tuple[str, ...] = ()

    @property
    def function_path(self) -> str:
        return f"{self.function.__module__}:{self.function.__qualname__}"


@dataclasses.dataclass(frozen=True)
class JobRequest:
    """A job that can be started later: a registered function and its arguments as JSON values."""

    kind: JobKind
    arguments: dict[str, Any]

    @property
    def title(self) -> str:
        return title(self.kind.kind, self.arguments)

    @property
    def action(self) -> str:
        """The action of `blindspot.db.rights.ACTIONS` that a person needs the right for to start this job."""
        return action_of_job(self.kind.kind)


_KINDS: dict[str, JobKind] = {}


def job(
    kind: str, *, light: bool = False, check: Callable[..., object] | None = None, extras: tuple[str, ...] = ()
) -> Callable[[Function], Function]:
    """Register a function as a job. It stays an ordinary function.

    Its first parameter is the study, and it takes `progress`. The other arguments must be JSON values when the job is
    submitted.
    """

    def register(function: Function) -> Function:
        new = JobKind(kind, function, light, check, extras)
        known = _KINDS.setdefault(kind, new)
        if known.function_path != new.function_path:
            raise ValueError(f"two functions are registered as {kind!r}: {known.function_path} and {new.function_path}")
        _KINDS[kind] = new
        return function

    return register


def kinds() -> dict[str, JobKind]:
    """Return the kinds of job that this process has loaded, by name."""
    return dict(_KINDS)


def request(function: Callable[Concatenate[Study, P], object], *args: P.args, **kwargs: P.kwargs) -> JobRequest:
    """Prepare a job that a button can start later. Raises TypeError for arguments that cannot be written as JSON."""
    kind = _kind_of(function)
    arguments = _arguments_by_name(function, args, kwargs)
    arguments.pop("progress", None)
    return JobRequest(kind, json.loads(json.dumps(arguments)))


def request_again(record: Job) -> JobRequest | None:
    """Prepare the same job once more. Returns None if this process has not loaded the job's module: a record is data
    and must not cause code to be loaded.
    """
    kind = _KINDS.get(record.kind)
    return None if kind is None else JobRequest(kind, record.arguments)


def run(function: Callable[Concatenate[Study, P], R], study: Study, *args: P.args, **kwargs: P.kwargs) -> R:
    """Do a job in this process and record it.

    Takes the arguments of the function, `progress` among them. Returns and raises what the function does. A heavy job
    first waits for earlier heavy jobs and reports their titles, unless it is run inside `without_waiting`.

    Raises Refused, before anything is recorded, for a function that is not a job and for invalid arguments.
    """
    kind = _kind_of(function)
    arguments = _arguments_by_name(function, args, kwargs)
    progress = cast("Progress | None", arguments.pop("progress", None))
    _check_arguments(study, kind, arguments)
    id, lock = _record_waiting_job(study, kind, _json_value(arguments))
    with lock:
        return cast(R, _execute(study, id, kind, arguments, progress))


def submit(function: Callable[Concatenate[Study, P], object], study: Study, *args: P.args, **kwargs: P.kwargs) -> str:
    """Start a job in a separate process and return its id. Raises Refused as `run` does."""
    return submit_request(study, request(function, *args, **kwargs))


def submit_request(study: Study, request: JobRequest, actor: str | None = None) -> str:
    """Start a prepared job; see `submit`. `actor`: who asks; see `blindspot.backend.core.require_right.require`."""
    require(study, actor, request.action)
    _check_arguments(study, request.kind, request.arguments)
    id, lock = _record_waiting_job(study, request.kind, request.arguments)
    with lock:
        try:
            _start_process(study, id, lock)
        except OSError as error:
            Jobs(study.labels_path).end(id, "failed", f"its process could not be started: {error}")
            raise
    return id


def _start_process(study: Study, id: str, lock: IO[str]) -> None:
    """Start the process of a job, which inherits the job's lock. The job continues when this process ends."""
    with open(study.path("jobs", id) / "log", "a") as log:  # the traceback of a failure is appended as well
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(study.folder), id, str(lock.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[lock.fileno()],
        )
    # Without somebody who waits, the ended process stays a zombie until this process ends.
    threading.Thread(target=process.wait, name=f"process of job {id}", daemon=True).start()


def cancel(study: Study, id: str, actor: str | None = None, *, force: bool = False) -> None:
    """Cancel a job.

    A running job stops at its next progress report, within about a second, and keeps its finished work. A job that
    waits stops at once. `force` kills a process that does not stop. Does nothing to a job that has ended. `actor`: as in
    `submit_request`.
    """
    require(study, actor, "cancel jobs")
    job = status(study, id)
    if not job.unfinished:
        return
    folder = study.path("jobs", id)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cancel").touch()
    if force:
        job_process.kill_job(job)
        Jobs(study.labels_path).end(id, "cancelled", "cancelled and ended at once; the same command starts it again")


def seconds_since_cancelled(study: Study, id: str) -> float | None:
    """Return how many seconds ago somebody cancelled this job; None if nobody did."""
    try:
        return max(0.0, time.time() - (study.path("jobs", id) / "cancel").stat().st_mtime)
    except FileNotFoundError:
        return None


def status(study: Study, id: str) -> Job:
    """Return the current record of a job. If its process is gone, the job is first recorded as failed, or as cancelled
    if somebody cancelled it.
    """
    jobs = Jobs(study.labels_path)
    job = jobs.get(id)
    folder = study.path("jobs", id)
    if not job.unfinished or job_process.is_alive(folder, job):
        return job
    # The process may have recorded the outcome, and ended, since the record was read.
    job = jobs.get(id)
    if not job.unfinished:
        return job
    if (folder / "cancel").exists():
        outcome, why = "cancelled", CANCELLED
    else:
        outcome, why = "failed", DIED if job.state == "running" else NEVER_STARTED
    try:
        jobs.end(id, outcome, why)
    except sqlite3.OperationalError:  # a study that may only be read
        return dataclasses.replace(job, state=outcome, error=why)
    return jobs.get(id)


def recent(study: Study, count: int = 20) -> list[Job]:
    """Return the current records of the last jobs, newest first."""
    return [status(study, job.id) if job.unfinished else job for job in Jobs(study.labels_path).recent(count)]


def log(study: Study, id: str) -> str:
    """Return what a job printed."""
    path = study.path("jobs", id) / "log"
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def title(kind: str, arguments: Mapping[str, Any]) -> str:
    """Return a title for people, such as "retrieve dense over dev with minilm"."""
    if kind == "retrieve":
        over = f" over {arguments['split']}" if arguments.get("split") else ""
        encoder = f" with {arguments['encoder']}" if arguments.get("encoder") else ""
        return f"retrieve {arguments.get('kind', '')}{over}{encoder}"
    subject = (
        arguments.get("name") or arguments.get("experiment") or str(arguments.get("path") or "").rsplit("/", 1)[-1]
    )
    return f"{kind} {subject}".strip()


_without_waiting: ContextVar[bool] = ContextVar("without_waiting", default=False)
_inside_job: ContextVar[bool] = ContextVar("inside_job", default=False)


@contextmanager
def without_waiting() -> Iterator[None]:
    """Within this `with` block, `run` starts heavy jobs without waiting for other heavy jobs."""
    token = _without_waiting.set(True)
    try:
        yield
    finally:
        _without_waiting.reset(token)


def _kind_of(function: Callable[..., object]) -> JobKind:
    registered = next((kind for kind in _KINDS.values() if kind.function is function), None)
    if registered is None:
        name = getattr(function, "__qualname__", repr(function))
        raise Refused(f"{name} is not a job; register it with @job(...) where it is defined")
    return registered


def _arguments_by_name(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> dict[str, Any]:
    """Return the given arguments by name, without the study and without defaults."""
    signature = inspect.signature(function)
    bound = signature.bind(None, *args, **kwargs).arguments
    study, *_ = signature.parameters
    del bound[study]
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            bound |= bound.pop(parameter.name, {})
    return dict(bound)


def _check_arguments(study: Study, kind: JobKind, arguments: Mapping[str, Any]) -> None:
    require_extras(*kind.extras)
    if isinstance(arguments.get("name"), str):
        check_name(arguments["name"], kind.kind)
    if kind.check is not None:
        kind.check(study, **arguments)


def _record_waiting_job(study: Study, kind: JobKind, arguments: dict[str, Any]) -> tuple[str, IO[str]]:
    """Record a job as waiting. Returns the job's id and its lock, which is taken before the record is written."""
    id = time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(3)
    folder = study.path("jobs", id)
    folder.mkdir(parents=True)
    lock = job_process.take_lock(folder)
    Jobs(study.labels_path).create(
        id,
        kind.kind,
        arguments,
        function=kind.function_path,
        heavy=not kind.light,
        host=job_process.host_name(),
        boot=job_process.boot_id(),
    )
    return id, lock


def _execute(study: Study, id: str, kind: JobKind, arguments: Mapping[str, Any], progress: Progress | None) -> Any:
    """Run a recorded job whose lock this process holds, and record its outcome."""
    jobs = Jobs(study.labels_path)
    pid = os.getpid()
    jobs.adopt(id, pid, job_process.process_identity(pid), job_process.host_name(), job_process.boot_id())
    token = None
    try:
        with JobReporter(study, id, progress) as reporter:
            if not (kind.light or _without_waiting.get() or _inside_job.get()):
                _wait_for_turn(study, id, reporter)
            reporter.record_start()
            token = _inside_job.set(True)
            result = kind.function(study, **arguments, progress=reporter)
    except (KeyboardInterrupt, Cancelled):
        jobs.end(id, "cancelled", CANCELLED)
        raise
    except BlindspotError as error:
        jobs.end(id, "failed", str(error))
        raise
    except BaseException as error:
        with open(study.path("jobs", id) / "log", "a", encoding="utf-8") as file:
            traceback.print_exc(file=file)
        jobs.end(id, "failed", f"{type(error).__name__}: {error}")
        raise
    finally:
        if token is not None:
            _inside_job.reset(token)
    jobs.end(id, "done", result=_result_for_record(result))
    return result


def _wait_for_turn(study: Study, id: str, report: Progress) -> None:
    """Wait until every heavy job that was submitted earlier has ended."""
    jobs = Jobs(study.labels_path)
    while ahead := [job for job in jobs.jobs_ahead_of(id) if status(study, job.id).unfinished]:
        others = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
        report(0, None, f"waits for: {title(ahead[0].kind, ahead[0].arguments)}{others}")
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _result_for_record(result: JobResult) -> Any:
    """Return the JSON form of a job's result for the job's record."""
    name = getattr(result, "name", None)
    if isinstance(name, str) and not dataclasses.is_dataclass(result):
        return {"name": name}
    return _json_value(result)


def _json_value(value: Any) -> Any:
    """Convert a value to JSON values. Other objects become text, so that recording a result never makes a job fail."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _json_value(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _json_value(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, AbstractSet)):
        return [_json_value(each) for each in value]
    if hasattr(value, "tolist"):  # numpy
        return _json_value(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


def main(folder: str, id: str, lock: str) -> int:
    """Run a submitted job in its own process, which inherited the job's lock as an open file."""
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # ends like Ctrl-C: recorded as cancelled, nothing half made
    os.set_inheritable(int(lock), False)
    study = Study.open(folder)
    record = Jobs(study.labels_path).get(id)
    try:
        kind = _registered_kind(record)
    except Exception as error:
        Jobs(study.labels_path).end(id, "failed", f"the function of this job could not be loaded: {error}")
        traceback.print_exc()
        return 1
    try:
        _execute(study, id, kind, record.arguments, None)
    except (KeyboardInterrupt, Cancelled):
        return 130
    except BlindspotError as error:
        print(error)
        return 1
    except Exception:
        return 1  # the traceback is in the log
    return 0


def _registered_kind(record: Job) -> JobKind:
    """Return the function that a job's record names. Raises Refused if it is not registered as a job of that kind."""
    place = record.function or ""
    if place.startswith("backend."):  # a record of version 0.2 or older
        place = f"blindspot.{place}"
    importlib.import_module(place.partition(":")[0])
    kind = _KINDS.get(record.kind)
    if kind is None or kind.function_path != place:
        raise Refused(f"{record.function} is not registered as the job {record.kind!r}")
    return kind


if __name__ == "__main__":
    from blindspot.backend.core import jobs  # the module under its own name, with which functions register

    sys.exit(jobs.main(*sys.argv[1:]))
