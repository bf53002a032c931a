"""Jobs: outcome, queue, cancelling, and processes that die."""

import contextlib
import dataclasses
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import psutil
import pytest

from blindspot.backend.core import job_process, job_reports, jobs
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import read_manifest
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.retrieval.bm25 import build_index
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.db.errors import Missing, Refused
from blindspot.db.jobs import Jobs
from tests.counted_jobs import count_up, give_back, until, wait
from tests.studies import make_study, people

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@job("test light", light=True)
def at_once(study, progress=None):
    return "done at once"


@job("test silent")
def report_nothing(study, progress=None):
    time.sleep(10**6)


@job("test inner")
def do_inside(study, progress=None):
    return jobs.run(count_up, study, steps=2, progress=progress)


def refuse_odd(study, number, **_):
    if number % 2:
        raise Refused("the number is odd; give an even one")


@job("test checked", check=refuse_odd)
def take_even(study, number, name="n", progress=None):
    return number


@pytest.fixture
def study(tmp_path):
    return make_study(tmp_path / "s", people(30))


@pytest.fixture(autouse=True)
def processes_find_this_module(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", ROOT)


def test_here(study):
    seen = []
    assert jobs.run(count_up, study, steps=3, progress=lambda *state: seen.append(state)) == {"steps": 3}
    assert seen == [(0, None, "counting"), (1, None, "counting"), (2, None, "counting")]
    job = jobs.recent(study)[0]
    assert (job.state, job.result, job.arguments) == ("done", {"steps": 3}, {"steps": 3})


def test_in_a_process_of_its_own(study):
    job = wait(study, jobs.submit(build_index, study, threads=1))
    assert job.state == "done", (job.error, jobs.log(study, job.id))
    assert (job.kind, job.function) == ("index bm25", "blindspot.backend.retrieval.bm25:build_index")
    assert job.result["passages"] == 30
    assert read_manifest(study.folder / "indexes" / "bm25")["passages"] == 30


def test_the_process_of_a_finished_job_is_gone(study):
    """A zombie still takes a signal."""
    pid = wait(study, jobs.submit(count_up, study, steps=1)).pid
    deadline = time.monotonic() + 30
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(0.02)


def test_a_failure_is_its_line(study):
    job = wait(study, jobs.submit(retrieve, study, "bm25", k=5))
    assert job.state == "failed" and "no questions" in job.error
    assert "Traceback" not in jobs.log(study, job.id)


def test_a_fault_of_ours_is_in_the_log(study):
    job = wait(study, jobs.submit(give_back, study, "unknown"))
    assert job.state == "failed" and job.error == "KeyError: 'unknown'"
    assert "Traceback" in jobs.log(study, job.id) and "give_back" in jobs.log(study, job.id)


@pytest.mark.parametrize(
    "what, recorded",
    [
        ("text", "a-run"),
        ("nothing", None),
        ("number", 3),
        ("dataclass", {"count": 3, "where": "STUDY", "share": None}),
        ("part", {"name": "a-part"}),
        ("list", [1, "two"]),
        ("object", "<class 'object'>"),
    ],
)
def test_every_kind_of_result_is_recorded(study, what, recorded):
    """A job whose result was a string succeeded and was shown as failed."""
    jobs.run(give_back, study, what)
    job = jobs.recent(study)[0]
    assert job.state == "done" and job.error is None
    assert json.loads(json.dumps(job.result).replace(str(study.folder), "STUDY")) == recorded


def test_what_cannot_work_is_refused_before_anything_is_recorded(study):
    for start in (jobs.run, jobs.submit):
        with pytest.raises(Refused, match="the number is odd"):
            start(take_even, study, 3)
        with pytest.raises(Refused, match="test checked name .*at most 64"):
            start(take_even, study, 2, name="n" * 65)
        with pytest.raises(Refused, match="is not a job"):
            start(people, study)
        with pytest.raises(TypeError):
            start(take_even, study, 2, colour="red")
    with pytest.raises(Refused, match="make batch name"):
        jobs.submit(make_batch, study, "b" * 129, ["r"])
    assert jobs.recent(study) == []
    assert jobs.run(take_even, study, 2) == 2


def test_two_functions_of_one_kind_are_a_mistake():
    with pytest.raises(ValueError, match="two functions are registered as 'test count'"):
        job("test count")(lambda study, progress=None: None)


def test_cancelling(study):
    def cancel_soon(done, total, doing):
        if done == 2:
            jobs.cancel(study, jobs.recent(study)[0].id)

    with pytest.raises(jobs.Cancelled):
        jobs.run(count_up, study, steps=50, progress=cancel_soon)
    assert jobs.recent(study)[0].state == "cancelled"


def test_ctrl_c_is_recorded_as_cancelled(study):
    def interrupt(done, total, doing):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jobs.run(count_up, study, progress=interrupt)
    assert jobs.recent(study)[0].state == "cancelled"


def test_a_killed_process_is_found_dead_and_writes_no_more(study, tmp_path):
    lines = tmp_path / "lines"
    id = jobs.submit(count_up, study, file=str(lines))
    job = until(study, id, lambda job: job.state == "running" and lines.exists())
    os.kill(job.pid, signal.SIGKILL)
    job = wait(study, id, 5)
    assert (job.state, job.error) == ("failed", jobs.DIED)
    written = lines.read_text()
    time.sleep(0.2)
    assert lines.read_text() == written


def test_a_job_goes_on_when_the_process_that_submitted_it_is_killed(study, tmp_path):
    lines = tmp_path / "lines"
    code = (
        "import sys, time; from blindspot.backend.core import jobs; from blindspot.backend.core.study import Study\n"
        "from tests.counted_jobs import count_up\n"
        "print(jobs.submit(count_up, Study.open(sys.argv[1]), steps=150, file=sys.argv[2]), flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(study.folder), str(lines)], stdout=subprocess.PIPE, text=True
    )
    id = parent.stdout.readline().strip()
    parent.kill()
    parent.wait()
    assert wait(study, id).state == "done"


def test_killed_before_its_process_began_is_found_dead(study, monkeypatch):
    """Such a job stayed "waiting" for ever, and nobody could start it again."""
    child = os.fork()
    if child == 0:
        jobs._start_process = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        jobs.submit(count_up, study)
        os._exit(1)
    os.waitpid(child, 0)
    [job] = Jobs(study.labels_path).recent()
    assert job.state == "waiting"
    job = jobs.status(study, job.id)
    assert (job.state, job.error) == ("failed", jobs.NEVER_STARTED)
    monkeypatch.setattr(jobs, "_start_process", lambda *_: None)  # the lock is free, as when the child dies immediately
    id = jobs.submit(count_up, study)
    jobs.cancel(study, id)
    assert jobs.status(study, id).state == "failed"


def test_a_process_that_cannot_be_started_fails_the_job(study, monkeypatch):
    def refuse(*_):
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(jobs, "_start_process", refuse)
    with pytest.raises(OSError):
        jobs.submit(count_up, study)
    assert jobs.recent(study)[0].state == "failed"


@pytest.mark.parametrize("boot", [None, "another-boot"])
def test_a_job_under_another_host_name_is_dead_when_it_reports_no_more(study, boot):
    records = Jobs(study.labels_path)
    records.create("far", "test count", {}, host="elsewhere", boot=boot)
    records.adopt("far", 1, "pid:[1] 7", "elsewhere", boot)
    records.start("far")
    assert jobs.status(study, "far").state == "running"
    reported = datetime.now(UTC) - timedelta(seconds=job_process.SECONDS_WITHOUT_HEARTBEAT + 5)
    with sqlite3.connect(study.labels_path) as connection:
        connection.execute("UPDATE job SET heartbeat = ?", (reported.isoformat(timespec="seconds"),))
    jobs.cancel(study, "far")
    assert jobs.status(study, "far").state == "failed"


def test_this_machine_under_another_name_looks_at_the_lock(study, monkeypatch):
    id = jobs.submit(count_up, study)
    until(study, id, lambda job: job.state == "running")
    monkeypatch.setattr(job_process, "host_name", lambda: "renamed")
    assert jobs.status(study, id).state == "running"
    os.kill(jobs.status(study, id).pid, signal.SIGKILL)
    assert wait(study, id, 5).state == "failed"


def test_a_lock_that_a_worker_inherited_does_not_keep_a_dead_job_alive(study):
    job_id, lock = jobs._record_waiting_job(study, jobs._kind_of(count_up), {})
    with lock:
        child = subprocess.Popen(["sleep", "60"])
        records = Jobs(study.labels_path)
        records.adopt(
            job_id, child.pid, job_process.process_identity(child.pid), job_process.host_name(), job_process.boot_id()
        )
        records.start(job_id)
        assert jobs.status(study, job_id).state == "running"
        child.kill()
        child.wait()
        assert jobs.status(study, job_id).state == "failed"


def test_a_job_of_the_version_before_is_found_dead(study):
    """Its record has no boot and no process, and its lock is free."""
    records = Jobs(study.labels_path)
    records.create("old", "index bm25", {})
    with sqlite3.connect(study.labels_path) as connection:
        connection.execute("UPDATE job SET state = 'running', pid = 1, host = ?", (job_process.host_name(),))
    assert jobs.status(study, "old").state == "failed"


def test_heavy_jobs_run_one_after_another_and_say_for_what_they_wait(study, tmp_path):
    first = jobs.submit(count_up, study, file=str(tmp_path / "one"))
    until(study, first, lambda job: job.state == "running")
    second = jobs.submit(retrieve, study, "bm25", split="dev", k=5)
    third = jobs.submit(count_up, study, steps=1)
    assert until(study, second, lambda job: job.doing).doing == "waits for: test count"
    assert until(study, third, lambda job: job.doing).doing == "waits for: test count and 1 more"
    assert jobs.run(at_once, study) == "done at once"
    assert [jobs.status(study, id).state for id in (first, second, third)] == ["running", "waiting", "waiting"]
    jobs.cancel(study, second)
    assert wait(study, second, 5).state == "cancelled", "a waiting job can be cancelled"
    assert jobs.status(study, third).state == "waiting"
    assert until(study, third, lambda job: job.doing == "waits for: test count")
    jobs.cancel(study, first)
    assert wait(study, third, 10).state == "done" and jobs.status(study, first).state == "cancelled"


def test_a_job_that_runs_no_longer_says_that_it_waits(study):
    first = jobs.submit(count_up, study)
    until(study, first, lambda job: job.state == "running")
    second = jobs.submit(report_nothing, study)
    until(study, second, lambda job: job.doing == "waits for: test count")
    jobs.cancel(study, first)
    assert until(study, second, lambda job: job.state == "running").doing == ""
    time.sleep(1.5)  # the next report to labels.db does not bring it back
    assert jobs.status(study, second).doing == ""
    jobs.cancel(study, second, force=True)


def test_a_dead_job_holds_up_nobody(study):
    first = jobs.submit(count_up, study)
    pid = until(study, first, lambda job: job.state == "running").pid
    second = jobs.submit(count_up, study, steps=1)
    until(study, second, lambda job: job.doing)
    os.kill(pid, signal.SIGKILL)
    assert wait(study, second, 10).state == "done"


def test_the_command_line_waits_too_unless_told_not_to(study):
    first = jobs.submit(count_up, study)
    until(study, first, lambda job: job.state == "running")
    seen = []
    with jobs.without_waiting():
        jobs.run(count_up, study, steps=1, progress=lambda *state: seen.append(state[2]))
    assert seen == ["counting"]

    def told(done, total, doing):
        seen.append(doing)
        if doing.startswith("waits for"):
            jobs.cancel(study, first)

    jobs.run(count_up, study, steps=1, progress=told)
    assert seen[1] == "waits for: test count" and seen[-1] == "counting"


def test_a_job_inside_a_job_does_not_wait_for_itself(study):
    done = []
    thread = threading.Thread(target=lambda: done.append(jobs.run(do_inside, study)), daemon=True)
    thread.start()
    thread.join(20)
    assert done == [{"steps": 2}]
    assert [job.state for job in jobs.recent(study)] == ["done", "done"]


def test_a_job_that_reports_nothing_shows_that_it_lives_and_can_be_ended(study, monkeypatch):
    monkeypatch.setattr(job_reports, "SECONDS_BETWEEN_HEARTBEATS", 0.0)
    id = jobs.submit(report_nothing, study)
    pid = until(study, id, lambda job: job.state == "running").pid
    jobs.cancel(study, id)
    assert jobs.status(study, id).unfinished and jobs.seconds_since_cancelled(study, id) < 5
    jobs.cancel(study, id, force=True)
    assert jobs.status(study, id).state == "cancelled"
    deadline = time.monotonic() + 5
    with contextlib.suppress(psutil.NoSuchProcess):  # it may end between two looks
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_progress_that_cannot_be_written_does_not_end_the_work(study, monkeypatch):
    def full(*_):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Jobs, "beat", full)
    assert jobs.run(count_up, study, steps=3) == {"steps": 3}


def test_a_process_runs_registered_functions_alone(study):
    """A record names a module and a function; neither another function of the module nor another module will do."""
    for function in ("tests.test_jobs:people", "os:getcwd", "", "no_such_module:x"):
        id, lock = jobs._record_waiting_job(study, dataclasses.replace(jobs._kind_of(count_up)), {"steps": 1})
        with sqlite3.connect(study.labels_path) as connection:
            connection.execute("UPDATE job SET function = ? WHERE id = ?", (function, id))
        with lock:
            jobs._start_process(study, id, lock)
        job = wait(study, id)
        assert job.state == "failed" and job.error.startswith("the function of this job could not be loaded")


def test_a_record_alone_loads_no_code(study):
    records = Jobs(study.labels_path)
    records.create("strange", "strange kind", {}, function="antigravity:fly")
    assert jobs.request_again(records.get("strange")) is None
    assert "antigravity" not in sys.modules
    jobs.run(count_up, study, steps=1)
    again = jobs.request_again(jobs.recent(study)[0])
    assert (again.kind.function, again.arguments) == (count_up, {"steps": 1})


def test_a_study_that_may_only_be_read_still_shows_its_dead_jobs(study, monkeypatch):
    Jobs(study.labels_path).create("dead", "index bm25", {})

    def read_only(*_, **__):
        raise sqlite3.OperationalError("attempt to write a readonly database")

    monkeypatch.setattr(Jobs, "end", read_only)
    assert jobs.status(study, "dead").state == "failed"


def test_titles():
    assert jobs.title("retrieve", {"kind": "dense", "split": "dev", "encoder": "m"}) == "retrieve dense over dev with m"
    assert jobs.title("import passages", {"path": "/data/p.tsv"}) == "import passages p.tsv"
    assert jobs.title("index bm25", {}) == "index bm25"


def test_unknown_jobs(study):
    with pytest.raises(Missing, match="no job"):
        jobs.status(study, "nothing")


def test_nothing_heavy_is_imported_where_jobs_are_defined():
    from tests.sources import HEAVY, modules

    defining = [path for path in modules("backend") if "\n@job(" in path.read_text()]
    names = [".".join(("blindspot", *path.relative_to(ROOT).with_suffix("").parts)) for path in defining]
    code = f"import sys, {', '.join(names)}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert len(names) > 15 and done.stdout.strip() == "[]", done.stdout + done.stderr


def test_the_list_shows_ids_whole_at_80_columns(study, monkeypatch):
    from typer.testing import CliRunner

    from blindspot.app import terminal_tables
    from blindspot.app.cli import app

    monkeypatch.setattr(terminal_tables.console, "width", 80)
    jobs.run(count_up, study, steps=1)
    with pytest.raises(Missing):
        jobs.run(retrieve, study, "dense", split="dev", encoder="a-rather-long-name-of-an-encoder-that-is-nowhere")
    printed = CliRunner().invoke(app, ["jobs", "list", "--study", str(study.folder)]).output
    assert all(job.id in printed for job in jobs.recent(study)), printed
    assert max(map(len, printed.splitlines())) <= 80
