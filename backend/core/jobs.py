"""Long work: recorded in the study, with progress, a log and a way to cancel.

A job runs in this process (`run`, what the command line does) or in one of its own (`submit`, what the app does;
`python -m backend.core.jobs STUDY ID` is that process). Both look the same to whoever polls. A running job holds a lock on its
folder, so one whose process is gone is known by that and is recorded as failed.
"""

from __future__ import annotations

import dataclasses
import fcntl
import importlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from backend.core.rights import require
from backend.core.study import Study
from backend.progress import Progress
from db.errors import BlindspotError, Refused
from db.jobs import Job, Jobs
from db.rights import action_of_job

KINDS = {
    "import passages": "backend.data.importing.importer:import_passages",
    "import questions": "backend.data.importing.importer:import_questions",
    "import frequencies": "backend.data.importing.importer:import_frequencies",
    "import triples": "backend.data.importing.triples:import_triples",
    "import qrels": "backend.data.importing.qrels:import_qrels",
    "import run": "backend.data.importing.runs:import_run",
    "count frequencies": "backend.data.importing.importer:count_frequencies",
    "index bm25": "backend.retrieval.bm25:build_index",
    "index dense": "backend.retrieval.dense:build_index",
    "index faiss": "backend.retrieval.approximate:build",
    "index milvus": "backend.retrieval.milvus:build",
    "retrieve": "backend.retrieval.retrieve:retrieve",
    "map": "backend.maps:make",
    "build training set": "backend.training_sets.builder:build",
    "train dual-encoder": "backend.training.dual_encoder:train_dual_encoder",
    "train cross-encoder": "backend.training.cross_encoder:train_cross_encoder",
    "train reader": "backend.reader.training:train_reader",
    "read": "backend.reader.reading:read",
    "train per-relation": "backend.training.per_relation:train_per_relation",
    "retrieve per-relation": "backend.training.per_relation:retrieve_per_relation",
    "train rocketqa": "backend.recipes.rocketqa:train_rocketqa",
    "experiment": "backend.experiments.running:run_experiment",
    "experiment label-budget": "backend.experiments.label_budget:label_budget",
    "score run": "backend.training.scoring:score_run",
    "try model": "backend.training.dual_encoder:try_model",
    "make batch": "backend.judging.batches:make_batch",
}
CANCELLED = "cancelled; what was finished is kept, and the same command goes on from there"


class Cancelled(BlindspotError):
    """The job was asked to stop."""


def run(study: Study, kind: str, arguments: dict[str, Any], watch: Progress | None = None) -> Any:
    """Do a job here and now; returns what its function returns, raises what it raises."""
    id = _create(study, kind, arguments)
    return _execute(study, id, watch)


def submit(study: Study, kind: str, arguments: dict[str, Any], by: str | None = None) -> str:
    """Start a job in a process of its own and return its id. `by`: who asks; see `backend.core.rights.require`."""
    require(study, by, action_of_job(kind))
    id = _create(study, kind, arguments)
    folder = study.path("jobs", id)
    with open(folder / "log", "w") as log:
        subprocess.Popen(
            [sys.executable, "-m", "backend.core.jobs", str(study.folder), id],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return id


def cancel(study: Study, id: str, by: str | None = None) -> None:
    """Ask a job to stop; it does at its next report of progress, in half a second or so. `by`: as in `submit`."""
    require(study, by, "cancel jobs")
    if Jobs(study.labels_path).get(id).unfinished:
        (study.path("jobs", id) / "cancel").touch()


def status(study: Study, id: str) -> Job:
    """The job as it is now; one whose process is gone without a word is recorded as failed."""
    jobs = Jobs(study.labels_path)
    job = jobs.get(id)
    if job.state == "running" and job.host == socket.gethostname() and not _alive(study, id):
        jobs.end(id, "failed", "its process ended without a word; its log may say why")
        job = jobs.get(id)
    return job


def recent(study: Study, count: int = 20) -> list[Job]:
    """The last jobs, newest first, each as it is now."""
    return [status(study, job.id) if job.unfinished else job for job in Jobs(study.labels_path).recent(count)]


def log(study: Study, id: str) -> str:
    path = study.path("jobs", id) / "log"
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _create(study: Study, kind: str, arguments: dict[str, Any]) -> str:
    if kind not in KINDS:
        raise Refused(f"there is no job of the kind {kind!r}")
    id = time.strftime("%Y%m%d-%H%M%S-", time.gmtime()) + secrets.token_hex(3)
    study.path("jobs", id).mkdir(parents=True)
    Jobs(study.labels_path).create(id, kind, arguments)
    return id


def _execute(study: Study, id: str, watch: Progress | None) -> Any:
    jobs = Jobs(study.labels_path)
    job = jobs.get(id)
    with _held(study, id):
        jobs.start(id, os.getpid(), socket.gethostname())
        try:
            result = _function(job.kind)(study, **job.arguments, progress=_Reporter(study, jobs, id, watch))
        except (KeyboardInterrupt, Cancelled):
            jobs.end(id, "cancelled", CANCELLED)
            raise
        except BlindspotError as error:
            jobs.end(id, "failed", str(error))
            raise
        except BaseException as error:
            jobs.end(id, "failed", f"{type(error).__name__}: {error}")
            raise
        jobs.end(id, "done", result=_summary(result))
        return result


class _Reporter:
    """Given to the function that works: tells the watcher at once, labels.db once a second, and raises when cancelled."""

    def __init__(self, study: Study, jobs: Jobs, id: str, watch: Progress | None):
        self._jobs, self._id, self._watch = jobs, id, watch
        self._stop = study.path("jobs", id) / "cancel"
        self._told = 0.0

    def __call__(self, done: int, total: int | None, doing: str) -> None:
        if self._stop.exists():
            raise Cancelled(CANCELLED)
        if self._watch is not None:
            self._watch(done, total, doing)
        if time.monotonic() - self._told >= 1:
            self._jobs.beat(self._id, done, total, doing)
            self._told = time.monotonic()


def _function(kind: str) -> Callable[..., Any]:
    module, name = KINDS[kind].split(":")
    return getattr(importlib.import_module(module), name)


def _summary(result: Any) -> Any:
    """What labels.db keeps of a result."""
    if dataclasses.is_dataclass(result):
        return {
            key: str(value) if isinstance(value, Path) else value for key, value in dataclasses.asdict(result).items()
        }
    return result if isinstance(result, (dict, type(None))) else {"name": result.name}


@contextmanager
def _held(study: Study, id: str) -> Iterator[None]:
    with open(study.path("jobs", id) / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _alive(study: Study, id: str) -> bool:
    path = study.path("jobs", id) / "lock"
    if not path.exists():
        return False
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def main(folder: str, id: str) -> int:
    """The process of a submitted job."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # told to end: leave as on Ctrl-C, nothing half made
    study = Study.open(folder)
    try:
        _execute(study, id, lambda done, total, doing: None)
    except (KeyboardInterrupt, Cancelled):
        return 130
    except BlindspotError as error:
        print(error)
        return 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
