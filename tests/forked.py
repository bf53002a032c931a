"""Python processes that have imported PyTorch, sentence-transformers and the whole backend before they start.

These imports take six seconds of processor time, often more than the work that follows. Here one process per pytest
process, the fork server, does them once, and the others are forked from it. A forked process is otherwise like a fresh
one: own session, own environment and folder, nothing of the tests' state. `tests/test_jobs.py` and the server of the
fixture `address` in `tests/browser` start their jobs as the product does.

Outside Linux, where such a fork is not safe, every process starts from nothing.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from blindspot.backend.core import jobs
from blindspot.backend.core.study import Study

ROOT = Path(__file__).parents[1]
SERVER = "BLINDSPOT_FORK_SERVER"
"""Environment variable: the pid of the pytest process, a space, the folder with its fork server's socket."""
CAN_FORK = sys.platform == "linux"
SECONDS_TO_START = 120
SECONDS_BETWEEN_LOOKS = 1.0  # of the fork server, at the pytest process
FILES = 3  # the most files that a new process gets
A_JOB = "import sys; from blindspot.backend.core import jobs; sys.exit(jobs.main(*sys.argv[1:]))"
_start_from_nothing = jobs._start_process


def python(*words: object, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Do what `python -c CODE ...` or `python -m MODULE ...` does in the root of the repository, and wait for its end.

    environment: all environment variables of the process (default: those of this process).
    """
    command = [str(word) for word in words]
    if not CAN_FORK:
        return subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        with _forked(command, ROOT, [output, errors], environment) as answers:
            code = int(answers.readlines()[-1])
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess(command, code, output.read(), errors.read())


def start_job(study: Study, id: str, lock: IO[str]) -> None:
    """Start the process of a job; takes the place of `jobs._start_process`."""
    if not CAN_FORK:
        _start_from_nothing(study, id, lock)
        return
    with open(study.path("jobs", id) / "log", "a") as log:
        words = ["-c", A_JOB, str(study.folder), id]
        with _forked(words, Path.cwd(), [log, log, lock]) as answers:
            answers.readline()  # the process has begun: it holds the lock


@contextmanager
def jobs_are_forked() -> Iterator[None]:
    """Within the block, `jobs.submit` forks the processes of jobs."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(jobs, "_start_process", start_job)
        yield


@contextmanager
def _forked(
    words: Sequence[str], cwd: Path, files: Sequence[IO[str]], environment: Mapping[str, str] | None = None
) -> Iterator[IO[str]]:
    """Let the fork server start a process. Yield a file with its pid and, once it has ended, its exit code, a line each.

    files: the standard output and error of the process, then files whose numbers there are appended to the words.
    """
    variables = dict(os.environ if environment is None else environment)
    asked = json.dumps({"words": words, "cwd": str(cwd), "environment": variables}).encode()
    with _connection() as connection:
        socket.send_fds(connection, [len(asked).to_bytes(8, "big")], [file.fileno() for file in files])
        connection.sendall(asked)
        with connection.makefile("r") as answers:
            yield answers


def begin() -> None:
    """Start the fork server, unless it was started before, and do not wait for it."""
    owner, folder = os.environ[SERVER].split(" ", 1)
    if CAN_FORK and not Path(folder, "socket").exists():
        # If several start one at the same time, the first takes the socket and the others end.
        command = [sys.executable, "-m", __name__, folder, owner]
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True)


def _connection() -> socket.socket:
    """Connect to the fork server, and start it first if need be."""
    folder = os.environ[SERVER].split(" ", 1)[1]
    connection, began = socket.socket(socket.AF_UNIX), False
    deadline = time.monotonic() + SECONDS_TO_START
    while True:
        try:
            connection.connect(f"{folder}/socket")
            return connection
        except (FileNotFoundError, ConnectionRefusedError):
            assert time.monotonic() < deadline, "the fork server did not start"
        if not began:
            begin()
            began = True
        time.sleep(0.02)


def serve(folder: Path, owner: int) -> None:
    """Fork processes for those who ask, until the pytest process has ended."""
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(folder / "socket"))
    except OSError:  # another server was faster
        return
    listener.listen(64)
    _import_everything()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system forgets the processes that answer for others
    while _lives(owner):
        if not select.select([listener], [], [], SECONDS_BETWEEN_LOOKS)[0]:
            continue
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os._exit(_answer(connection))
        connection.close()
    shutil.rmtree(folder, ignore_errors=True)


def _import_everything() -> None:
    import transformers

    from tests.job_kinds import every_kind

    every_kind()
    for name in ("accelerate", "datasets", "sklearn.linear_model", "scipy.stats", "faiss", "pandas"):
        importlib.import_module(name)
    for name in ("BertModel", "BertTokenizerFast", "AutoModelForSequenceClassification", "get_scheduler"):
        getattr(transformers, name)
    gc.collect()
    gc.freeze()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _answer(connection: socket.socket) -> int:
    """Start what one connection asks for, tell its pid, wait, and tell its exit code."""
    head, files, *_ = socket.recv_fds(connection, 8, FILES)
    asked = json.loads(_received(connection, int.from_bytes(head, "big")))
    pid = os.fork()
    if pid == 0:
        connection.close()
        os._exit(_become(asked, files))
    for file in files:
        os.close(file)
    try:
        connection.sendall(f"{pid}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        connection.sendall(f"{code}\n".encode())
    except OSError:  # nobody listens any more
        pass
    return 0


def _received(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        parts += connection.recv(count - len(parts))
    return bytes(parts)


def _become(asked: dict, files: list[int]) -> int:
    """Do what `python` does with these words, and return the exit code."""
    os.setsid()
    output, errors, *others = files
    for number, file in enumerate((os.open(os.devnull, os.O_RDONLY), output, errors)):
        os.dup2(file, number)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["cwd"])
    option, what, *arguments = asked["words"]
    sys.argv = [what, *arguments, *map(str, others)]
    try:
        if option == "-c":
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
        else:
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
