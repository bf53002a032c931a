"""Child processes end with their parent, however it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from blindspot.app.server import wait_until_up
from blindspot.backend.core.children import child, end_child, start_child
from tests.studies import make_study, people

SLEEPER = [sys.executable, "-c", "import os, sys, time; print(os.getpid(), flush=True); time.sleep(600)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(600)",
]
PARENT = f"from blindspot.backend.core.children import start_child; start_child({SLEEPER!r}).wait()"


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pid, seconds=8.0):
    deadline = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_running(pid)


def test_kill_9_of_the_parent_ends_the_child():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    assert is_running(pid)
    parent.kill()
    parent.wait()
    assert wait_until_gone(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's death signal is Linux's")
def test_kill_9_of_the_supervisor_ends_the_child():
    process = start_child(SLEEPER, stdout=subprocess.PIPE, text=True)
    pid = int(process.stdout.readline())
    process.kill()
    assert process.wait() == -signal.SIGKILL and wait_until_gone(pid)
    end_child(process)


def test_the_block_ends_the_child():
    with child(SLEEPER, stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
    assert process.returncode == 0 and not is_running(pid)


def test_a_child_that_ignores_sigterm_is_killed():
    with child(STUBBORN, stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
    assert not is_running(pid)


@pytest.mark.parametrize("code", ["raise SystemExit(3)", "import os; os.kill(os.getpid(), 9)"])
def test_the_exit_code_is_the_command_s(code):
    process = start_child([sys.executable, "-c", code])
    assert process.wait(timeout=30) == (3 if "SystemExit" in code else -signal.SIGKILL)
    end_child(process)


def test_files_are_passed_on(tmp_path):
    with open(tmp_path / "note", "w") as file:
        command = [sys.executable, "-c", f"import os; os.write({file.fileno()}, b'hello')"]
        process = start_child(command, pass_fds=[file.fileno()])
        assert process.wait(timeout=30) == 0
        end_child(process)
    assert (tmp_path / "note").read_text() == "hello"


def started_command(*words, **options):
    return subprocess.Popen([sys.executable, "-m", "blindspot.app.cli", *words], stdout=subprocess.DEVNULL, **options)


def wait_for_child(process, name, seconds=60.0):
    """The process id of the first descendant whose command line contains `name`."""
    import psutil

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        for each in psutil.Process(process.pid).children(recursive=True):
            try:
                if (
                    any(name in word for word in each.cmdline())
                    and "blindspot.backend.core.children" not in each.cmdline()
                ):
                    return each.pid
            except psutil.Error:
                continue
        time.sleep(0.02)
    pytest.fail(f"{process.args} started no {name}")


def test_kill_9_of_index_bm25_leaves_no_java(tmp_path):
    study = make_study(tmp_path / "s", people())
    process = started_command("index", "bm25", "--study", str(study.folder))
    java = wait_for_child(process, "io.anserini.index.IndexCollection")
    os.kill(java, signal.SIGSTOP)  # so that it cannot end by finishing its work
    process.kill()
    process.wait()
    gone = wait_until_gone(java)
    if not gone:
        os.kill(java, signal.SIGKILL)
    assert gone
    assert "bm25" not in study.parts("indexes")


def test_kill_9_of_open_leaves_no_server_on_the_port(tmp_path):
    study = make_study(tmp_path / "s", people(12))
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", 0))
        port = probe.getsockname()[1]
    process = started_command(
        "open", "--study", str(study.folder), "--port", str(port), "--address", "127.0.0.2", "--backend", "none"
    )
    app = wait_for_child(process, "blindspot.app.server_process")
    wait_until_up(port, process, "127.0.0.2")
    process.kill()
    process.wait()
    assert wait_until_gone(app)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port), timeout=2)
