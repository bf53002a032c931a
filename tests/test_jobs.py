"""Long work: outcome, cancelling, and a process that dies."""

import os
import signal
import time

import pytest

from backend.core import jobs
from backend.core.manifest import read_manifest
from db.errors import Missing, Refused
from tests.studies import make_study, people


@pytest.fixture
def study(tmp_path):
    return make_study(tmp_path / "s", people(30))


def wait(study, id, seconds=60):
    deadline = time.monotonic() + seconds
    while (job := jobs.status(study, id)).unfinished:
        assert time.monotonic() < deadline, jobs.log(study, id)
        time.sleep(0.05)
    return job


@pytest.fixture
def slow(monkeypatch):
    """A kind of job that goes on until it is stopped."""
    monkeypatch.setitem(jobs.KINDS, "slow", "tests.test_jobs:go_on")


def go_on(study, progress, steps=10**9):
    for step in range(steps):
        progress(step, None, "going on")
        time.sleep(0.01)
    return {"steps": steps}


def test_here(study, slow):
    seen = []
    assert jobs.run(study, "slow", {"steps": 3}, lambda *state: seen.append(state)) == {"steps": 3}
    assert seen == [(0, None, "going on"), (1, None, "going on"), (2, None, "going on")]
    job = jobs.recent(study)[0]
    assert (job.state, job.result, job.arguments) == ("done", {"steps": 3}, {"steps": 3})


def test_in_a_process_of_its_own(study):
    job = wait(study, jobs.submit(study, "index bm25", {"threads": 1}))
    assert job.state == "done", (job.error, jobs.log(study, job.id))
    assert job.result["passages"] == 30
    assert read_manifest(study.folder / "indexes" / "bm25")["passages"] == 30


def test_a_failure_is_its_line(study):
    job = wait(study, jobs.submit(study, "retrieve", {"kind": "bm25", "k": 5}))
    assert job.state == "failed" and "no questions" in job.error
    assert "Traceback" not in jobs.log(study, job.id)


def test_cancelling(study, slow):
    def cancel_soon(done, total, doing):
        if done == 2:
            jobs.cancel(study, jobs.recent(study)[0].id)

    with pytest.raises(jobs.Cancelled):
        jobs.run(study, "slow", {}, cancel_soon)
    assert jobs.recent(study)[0].state == "cancelled"


def test_ctrl_c_is_recorded_as_cancelled(study, slow):
    def interrupt(done, total, doing):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jobs.run(study, "slow", {}, interrupt)
    assert jobs.recent(study)[0].state == "cancelled"


def test_a_killed_process_is_found_dead(study):
    pid = os.fork()
    if pid == 0:  # the child holds a job and dies without a word
        jobs.KINDS["slow"] = "tests.test_jobs:go_on"
        try:
            jobs.run(study, "slow", {})
        finally:
            os._exit(1)
    deadline = time.monotonic() + 30
    while not (found := jobs.recent(study)) or found[0].state != "running":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    job = jobs.status(study, found[0].id)
    assert (job.state, job.error) == ("failed", "its process ended without a word; its log may say why")


def test_unknown_kinds_and_jobs(study):
    with pytest.raises(Refused, match="no job of the kind"):
        jobs.submit(study, "dance", {})
    with pytest.raises(Missing, match="no job"):
        jobs.status(study, "nothing")
