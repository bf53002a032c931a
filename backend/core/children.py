"""Start child processes that end when this process ends, even if `kill -9` ends it.

A supervisor process runs between this process and the command. The supervisor holds the read end of a pipe; only this
process holds the write end. The system closes that pipe when this process ends, and the supervisor then ends the
command. A pipe works on every Unix and for every program, Java included. On Linux the kernel also kills the command if
the supervisor is killed.

Jobs are not started this way: a job continues when the app ends (see `blindspot.backend.core.jobs`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

SECONDS_TO_END = 5.0  # from SIGTERM to SIGKILL
_PR_SET_PDEATHSIG = 1


def start_child(command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a command that ends when this process ends, or when `end_child` is called.

    The command reads nothing from standard input. `options` are those of `subprocess.Popen`, without `stdin`.
    The exit code is the command's own.
    """
    return subprocess.Popen([sys.executable, "-m", __name__, *command], stdin=subprocess.PIPE, **options)


def end_child(process: subprocess.Popen[Any]) -> int:
    """End a process of `start_child` (SIGTERM, then SIGKILL after 5 s) and return its exit code. Does nothing if the
    process has already ended.
    """
    if process.stdin is not None and not process.stdin.closed:
        process.stdin.close()
    try:
        return process.wait(timeout=2 * SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@contextmanager
def child(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run a command as a context manager; it ends when the `with` block ends. See `start_child`."""
    process = start_child(command, **options)
    try:
        yield process
    finally:
        end_child(process)


def _supervise(command: list[str]) -> int:
    """Run the command until it ends or standard input closes. Return 0 if this supervisor ended the command, else the
    command's exit code.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which closes the pipe
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, close_fds=False, preexec_fn=_prepare_command)
    ended_here = threading.Event()

    def end_command(*_: object) -> None:
        ended_here.set()
        process.terminate()
        threading.Timer(SECONDS_TO_END, process.kill).start()

    def watch_parent() -> None:
        while os.read(0, 1024):
            pass
        end_command()

    signal.signal(signal.SIGTERM, end_command)
    threading.Thread(target=watch_parent, daemon=True).start()
    code = process.wait()
    return 0 if ended_here.is_set() else code


def _prepare_command() -> None:
    """Prepare the new process before the command starts: restore the handling of Ctrl-C and, on Linux, let the kernel
    kill the process when the supervisor dies.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _exit_like(code: int) -> None:
    """End this process with an exit code, or by the signal that ended the command."""
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    os._exit(code)  # the watching thread is blocked in a read


if __name__ == "__main__":
    _exit_like(_supervise(sys.argv[1:]))
