"""A service beside the app: started with it, ended with it, on a port of its own with a token of its own."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from backend.core.children import end_child, start_child
from backend.retrieval.remote import BACKEND, TOKEN, Backend
from db.errors import BlindspotError

if TYPE_CHECKING:
    from backend.core.study import Study

SECONDS_TO_START = 60
SECONDS_TO_RESTART = 1
RESTARTS = 3
OWN = "none"


@contextmanager
def asked_of(study: Study, url: str | None = None) -> Iterator[str | None]:
    """Whom processes started within the block ask live questions; gives the URL.

    `url`: a service that runs already; "none": nobody, each process opens the indexes itself; None: the one that
    BLINDSPOT_BACKEND names, else one that is started for the block. Raises Refused for an address that is none.
    """
    if url is None and not os.environ.get(BACKEND):
        with started(study) as own:
            yield own
    elif url is None:
        yield os.environ[BACKEND]
    else:
        if url != OWN:
            Backend(url)
        with _environment({BACKEND: None if url == OWN else url}):
            yield None if url == OWN else url


@contextmanager
def started(study: Study) -> Iterator[str]:
    """Start a service for `study`, give its URL, end it with the block.

    Within the block BLINDSPOT_BACKEND and BLINDSPOT_BACKEND_TOKEN stand in this process's environment, so that processes started
    there ask it. It answers when the block begins; its indexes load meanwhile. It ends too when this process is killed.

    Raises BlindspotError when it does not start.
    """
    token = secrets.token_urlsafe(32)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        kept = _Kept(study, listening, token)
        try:
            _wait(kept, Backend(url, token))
            kept.watch()
            with _environment({BACKEND: url, TOKEN: token}):
                yield url
        finally:
            kept.end()


class _Kept:
    """The service's process, started again on the same socket when it ends by itself (out of memory, say), a few times."""

    def __init__(self, study: Study, listening: socket.socket, token: str):
        self._study, self._listening, self._token = study, listening, token
        self._ending = threading.Event()
        self.process = self._start()
        self._watcher = threading.Thread(target=self._watch, name="backend beside the app", daemon=True)

    def watch(self) -> None:
        self._watcher.start()

    def _start(self) -> subprocess.Popen:
        handle = self._listening.fileno()
        command = [sys.executable, "-m", "backend.service.running", str(self._study.folder), str(handle)]
        return start_child(
            command, pass_fds=[handle], stdout=subprocess.DEVNULL, env={**os.environ, TOKEN: self._token}
        )

    def _watch(self) -> None:
        for _ in range(RESTARTS):
            code = self.process.wait()
            if self._ending.wait(SECONDS_TO_RESTART):
                return
            print(
                f"blindspot: the retrieval backend ended (exit {code}); starting it again", file=sys.stderr, flush=True
            )
            self.process = self._start()
        self.process.wait()
        self._listening.close()  # from now on the app is told at once that nothing answers

    def end(self) -> None:
        self._ending.set()
        end_child(self.process)
        while self._watcher.is_alive():  # it may have been about to start another
            self._watcher.join(timeout=0.2)
            end_child(self.process)


def _wait(kept: _Kept, backend: Backend) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        if kept.process.poll() is not None:
            raise BlindspotError(
                f"the retrieval backend ended at once (exit {kept.process.returncode}); what it said stands above"
            )
        if backend.answers():
            return
        time.sleep(0.05)
    raise BlindspotError(f"the retrieval backend did not answer within {SECONDS_TO_START} s")


@contextmanager
def _environment(wanted: dict[str, str | None]) -> Iterator[None]:
    """This process's environment with some variables set, or unset where None, for the block."""
    before = {name: os.environ.get(name) for name in wanted}
    _set(wanted)
    try:
        yield
    finally:
        _set(before)


def _set(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
