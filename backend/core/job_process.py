"""The process that runs a job, and checks whether this process is still alive.

The process of a job holds an exclusive lock on the file `jobs/ID/lock` of the study. The system releases the lock when
the process ends, however it ends. A submitted job inherits the lock from the process that submits it, so the lock is
held from before the job is recorded until the job ends.

Another machine cannot see the lock. It counts a job as dead when the job has not reported for
`SECONDS_WITHOUT_HEARTBEAT`.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import IO

from blindspot.db.jobs import Job

SECONDS_WITHOUT_HEARTBEAT = 120.0


def take_lock(folder: Path) -> IO[str]:
    """Take the lock of a new job. Closing the file releases the lock, unless another process inherited it."""
    file = open(folder / "lock", "w")  # noqa: SIM115 - the caller closes it
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def is_locked(folder: Path) -> bool:
    try:
        # A shared lock: two processes that look at the same time do not take each other for the owner.
        with open(folder / "lock") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def host_name() -> str:
    return socket.gethostname()


@cache
def boot_id() -> str | None:
    """Return the boot id of this machine, which is the same in all its containers; None if the system has
    no such id.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def process_identity(pid: int) -> str | None:
    """Return the pid namespace and start time of a process, which distinguish it from a later process with the same
    pid; None if unknown or gone.
    """
    try:
        start = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
        return f"{os.readlink('/proc/self/ns/pid')} {start}"
    except (OSError, IndexError):
        return None


def is_on_this_machine(job: Job) -> bool:
    """Return whether the job runs on this machine. Machine names can change and repeat, so the boot id decides if it is
    known.
    """
    if job.boot is None or boot_id() is None:
        return job.host in (None, host_name())
    return job.boot == boot_id()


def is_alive(folder: Path, job: Job) -> bool:
    """Return whether the process of an unfinished job is still alive."""
    if not is_on_this_machine(job):
        return _seconds_since(job.heartbeat) < SECONDS_WITHOUT_HEARTBEAT
    if not is_locked(folder):
        return False
    # A worker of a killed process may still hold the lock that it inherited.
    return not _shares_our_pids(job) or process_identity(job.pid or 0) == job.process


def kill_job(job: Job) -> bool:
    """Kill the process of a job at once, if it runs on this machine and is still the recorded process."""
    if job.pid is None or job.pid == os.getpid() or not is_on_this_machine(job) or not _shares_our_pids(job):
        return False
    if process_identity(job.pid) != job.process:
        return False
    os.kill(job.pid, signal.SIGKILL)
    return True


def _shares_our_pids(job: Job) -> bool:
    """Return whether this process and the job share a pid namespace. False if the job runs in another container."""
    ours = process_identity(os.getpid())
    return job.process is not None and ours is not None and job.process.rsplit(" ", 1)[0] == ours.rsplit(" ", 1)[0]


def _seconds_since(time: str | None) -> float:
    if time is None:
        return float("inf")
    return (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()
