"""Let other machines reach the app: a second server of the same study, which asks everybody for a personal link.

The app that somebody opens on their own machine answers this machine only, and lets its people sign in by name. To let
others in, that app starts a second server on all addresses of the machine. The second server ends with the app.
"""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import dataclass
from functools import cache
from threading import Lock

import streamlit as st

from blindspot.app import server
from blindspot.backend.core.children import end_child, start_child
from blindspot.backend.core.study import Study
from blindspot.backend.service.guard import EVERYWHERE, bind_socket, host_in_url
from blindspot.db.errors import BlindspotError, Refused

PORTS_TRIED = 20
_lock = Lock()


@dataclass
class _Second:
    """The second server of this process, if it runs."""

    process: subprocess.Popen | None = None


_second = _Second()


@cache
def address() -> str:
    """Return the address at which others reach the app once it is open to them. It is the same for as long as the app
    runs, and usually after a restart: the first free port after the app's own.
    """
    return f"http://{host_in_url(_own_address())}:{_free_port()}"


def is_open() -> bool:
    """Return whether other machines can reach the app now."""
    return _second.process is not None and _second.process.poll() is None


def let_others_in(study: Study) -> None:
    """Start the second server and wait until it answers. Raises BlindspotError if it does not start."""
    with _lock:
        if is_open():
            return
        port, everywhere = int(address().rpartition(":")[2]), EVERYWHERE[0]
        bind_socket(everywhere, port).close()
        environment = {**server.environment(study), server.SIGN_IN: "links"}
        process = start_child(
            server.command(port, everywhere), env=environment, stdout=subprocess.DEVNULL, cwd=os.getcwd()
        )
        try:
            server.wait_until_up(port, process, everywhere)
        except BlindspotError:
            end_child(process)
            raise
        _second.process = process


def keep_others_out() -> None:
    """End the second server. Personal links stay valid."""
    with _lock:
        if _second.process is not None:
            end_child(_second.process)
            _second.process = None


def _own_address() -> str:
    """Return the IP address of this machine on its network, or its name if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing: the system only chooses the address to send from
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()


def _free_port() -> int:
    own = int(st.get_option("server.port"))
    for port in range(own + 1, own + 1 + PORTS_TRIED):
        try:
            bind_socket(EVERYWHERE[0], port).close()
        except Refused:
            continue
        return port
    raise Refused(f"no port from {own + 1} to {own + PORTS_TRIED} is free; open the app with another --port")
