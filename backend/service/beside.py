"""Run a retrieval service for the app. It starts and ends with the app, and has its own port and token."""

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

from blindspot.backend.core.children import end_child, start_child
from blindspot.backend.core.extras import first_missing
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.remote import BACKEND, TOKEN, Backend
from blindspot.db.errors import BlindspotError

SECONDS_TO_START = 60
SECONDS_TO_RESTART = 1
RESTARTS = 3
NO_SERVICE = "none"


@contextmanager
def chosen_service(study: Study, url: str | None = None) -> Iterator[str | None]:
    """Set the environment so that all processes started within the `with` block use one service, and yield the URL of
    this service.

    Args:
        url: the service that is running; "none": no service, each process opens the indexes itself; None: the service
            that BLINDSPOT_BACKEND names, else a new one for the length of the block, or "none" without the extra `service`.

    Raises Refused for a malformed URL.
    """
    if url is None and not os.environ.get(BACKEND) and first_missing(("service",)):
        url = NO_SERVICE
    if url is None and not os.environ.get(BACKEND):
        with running_service(study) as own:
            yield own
    elif url is None:
        yield os.environ[BACKEND]
    else:
        if url != NO_SERVICE:
            Backend(url)
        with _environment_variables({BACKEND: None if url == NO_SERVICE else url}):
            yield None if url == NO_SERVICE else url


@contextmanager
def running_service(study: Study) -> Iterator[str]:
    """Run a service during the `with` block, and yield its URL.

    Within the block, BLINDSPOT_BACKEND and BLINDSPOT_BACKEND_TOKEN are set in this process's environment, so that
    processes started there use this service. The service responds as soon as the block begins, while it is still
    loading its indexes. It always ends when this process ends.

    Raises BlindspotError if the service does not start.
    """
    token = secrets.token_urlsafe(32)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        service = _ServiceProcess(study, listening, token)
        try:
            _wait_until_ready(service, Backend(url, token))
            service.watch()
            with _environment_variables({BACKEND: url, TOKEN: token}):
                yield url
        finally:
            service.stop_service()


class _ServiceProcess:
    """The process of the service. If it ends unexpectedly, for example for lack of memory, it is restarted on the same
    socket, at most three times.
    """

    def __init__(self, study: Study, listening: socket.socket, token: str):
        self._study, self._listening, self._token = study, listening, token
        self._ending = threading.Event()
        self.process = self._start()
        self._watcher = threading.Thread(target=self._watch, name="backend beside the app", daemon=True)

    def watch(self) -> None:
        self._watcher.start()

    def _start(self) -> subprocess.Popen:
        handle = self._listening.fileno()
        command = [sys.executable, "-m", "blindspot.backend.service.running", str(self._study.folder), str(handle)]
        return start_child(
            command, pass_fds=[handle], stdout=subprocess.DEVNULL, env={**os.environ, TOKEN: self._token}
        )

    def _watch(self) -> None:
        for _ in range(RESTARTS):
            code = self.process.wait()
            if self._ending.wait(SECONDS_TO_RESTART):
                return
            print(f"blindspot: the retrieval backend ended (exit {code}); restarting it", file=sys.stderr, flush=True)
            self.process = self._start()
        self.process.wait()
        self._listening.close()  # from now on requests fail immediately

    def stop_service(self) -> None:
        self._ending.set()
        end_child(self.process)
        while self._watcher.is_alive():  # it may have been starting another process
            self._watcher.join(timeout=0.2)
            end_child(self.process)


def _wait_until_ready(service: _ServiceProcess, backend: Backend) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        if service.process.poll() is not None:
            raise BlindspotError(
                f"the retrieval backend ended immediately (exit {service.process.returncode}); its message is above"
            )
        if backend.is_responding():
            return
        time.sleep(0.05)
    raise BlindspotError(f"the retrieval backend did not answer within {SECONDS_TO_START} s")


@contextmanager
def _environment_variables(variables: dict[str, str | None]) -> Iterator[None]:
    """Set environment variables of this process during the `with` block. A value of None removes a variable."""
    before = {name: os.environ.get(name) for name in variables}
    _set_variables(variables)
    try:
        yield
    finally:
        _set_variables(before)


def _set_variables(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
