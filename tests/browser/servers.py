"""Servers of the app for browser tests. Each is a process of its own, forked from one that has imported the app.

A server that starts from nothing takes more than a second of processor time for its imports alone. The fixture `address`
and the tests of what such a start does run the real command instead. The jobs that a server starts are forked too, see
`tests.forked`.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import pkgutil
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from blindspot.app import server
from blindspot.backend.core.study import ENVIRONMENT_VARIABLE, Study
from tests import forked

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.browser.preload"])


class ForkedServer:
    """A server process with the methods of `subprocess.Popen` that the tests use."""

    def __init__(self, process: BaseProcess):
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> None:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("the app's server", timeout or 0)


def free_port(address: str = server.ADDRESS) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def start(
    study: Study, port: int, address: str = server.ADDRESS, folder: Path | None = None, place: Path | None = None
) -> ForkedServer:
    """Start a server, and return it before it answers. folder: its working folder; place: the study's folder, as the
    server is told.
    """
    forked.begin()  # a job that a page starts then waits less
    arguments = server.command(port, address)[3:]
    environment = server.environment(study) | {ENVIRONMENT_VARIABLE: str(place or study.folder)}
    process = FORKS.Process(target=_serve, args=(arguments, environment, str(folder or os.getcwd())))
    process.start()
    return ForkedServer(process)


@contextmanager
def serving(study: Study, port: int | None = None, address: str = server.ADDRESS) -> Iterator[int]:
    """Yield the port of a server, which a test may stop and restart at the same port."""
    port = port or free_port(address)
    process = start(study, port, address)
    try:
        server.wait_until_up(port, process, address)
        yield port
    finally:
        process.kill()
        process.wait()


_shared: list[tuple[ForkedServer, int, Path]] = []


@contextmanager
def showing(study: Study) -> Iterator[int]:
    """Yield the port of the one server that the tests of this process share; it shows this study from now on."""
    if _shared:
        _, port, place = _shared[0]
        turned = place.with_name("turned")
        turned.symlink_to(study.folder.resolve())
        turned.replace(place)
    else:
        place, port = Path(tempfile.mkdtemp(prefix="blindspot-shown-")) / "study", free_port()
        place.symlink_to(study.folder.resolve())
        _shared.append((process := start(study, port, place=place), port, place))
        server.wait_until_up(port, process)
    yield port


def end_shared() -> None:
    for process, _, place in _shared:
        process.kill()
        process.wait()
        shutil.rmtree(place.parent)
    _shared.clear()


def _serve(arguments: list[str], environment: Mapping[str, str], folder: str) -> None:
    from blindspot.app import server_process
    from blindspot.backend.core import jobs

    jobs._start_process = forked.start_job
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    server_process.main(arguments)


def import_the_app() -> None:
    """Import what a server imports until it has shown its first page."""
    import blindspot.app.components

    names = [
        "blindspot.app.server_process",
        "uvicorn",
        "streamlit.starlette",
        "streamlit.web.bootstrap",
        "pandas",
        "plotly.graph_objects",
    ]
    names += [
        name for _, name, _ in pkgutil.walk_packages(blindspot.app.components.__path__, "blindspot.app.components.")
    ]
    for name in names:
        importlib.import_module(name)


@contextmanager
def open_to_others(study):
    """The app with personal links, as for a team."""
    with serving(study, address="0.0.0.0") as port:
        yield f"http://{server.ADDRESS}:{port}"
