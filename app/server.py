"""Start and stop the app's server for a study."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from blindspot.db.errors import BlindspotError, Refused

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

ADDRESS = "localhost"
SIGN_IN = "BLINDSPOT_SIGN_IN"
"""Environment variable: with "none" everybody can sign in by name, and "links" requires personal links. Without it, the
address that the app listens on decides.
"""
SECONDS_TO_START = 60


def command(port: int, address: str = ADDRESS, hosts: Sequence[str] = ()) -> list[str]:
    """Return the command that serves the app. The environment variable BLINDSPOT_STUDY names the study."""
    names = [word for host in hosts for word in ("--host", host)]
    return [sys.executable, "-m", "blindspot.app.server_process", "--port", str(port), "--address", address, *names]


def environment(study: Study, without_sign_in: bool = False, hosts: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment of the server's process. If there are further host names, the app is behind a proxy with
    remote users, who must sign in.
    """
    from blindspot.backend.core.study import ENVIRONMENT_VARIABLE

    inherited = {name: value for name, value in os.environ.items() if name != SIGN_IN}
    sign_in: dict[str, str] = {}
    if without_sign_in:
        sign_in = {SIGN_IN: "none"}
    elif hosts:
        sign_in = {SIGN_IN: "links"}
    return {**inherited, ENVIRONMENT_VARIABLE: str(study.folder), **sign_in}


def serve(
    study: Study, port: int, address: str = ADDRESS, without_sign_in: bool = False, hosts: Sequence[str] = ()
) -> None:
    """Serve until Ctrl-C, and print the app's URL once the server answers.

    Args:
        hosts: further names under which people reach the server, such as that of a reverse proxy.

    Raises:
        Refused: the address or port cannot be used, or others can reach the address but nobody could sign in.
    """
    from blindspot.backend.core.children import child
    from blindspot.backend.core.made_from import is_check
    from blindspot.backend.service.guard import EVERYWHERE, bind_socket, host_in_url, is_loopback

    local = is_loopback(address) and not hosts
    if not local and not without_sign_in:
        _refuse_open_door(study, hosts[0] if hosts else address)
    _refuse_taken_port(address, port)
    bind_socket(address, port).close()
    for stop in (signal.SIGINT, signal.SIGTERM):  # either one ends the server with this process
        signal.signal(stop, signal.default_int_handler)
    try:
        with child(
            command(port, address, hosts), env=environment(study, without_sign_in, hosts), stdout=subprocess.DEVNULL
        ) as server:
            wait_until_up(port, server, address)
            shown = socket.gethostname() if address in EVERYWHERE else address
            page = "/check" if is_check(study) else ""
            print(
                f"{study.settings.name} is open on http://{host_in_url(shown)}:{port}{page} (Ctrl-C ends it)",
                flush=True,
            )
            server.wait()
    except KeyboardInterrupt:
        print("\nClosed.")


def _refuse_open_door(study: Study, address: str) -> None:
    from blindspot.db.people import People

    app_folder = Path(__file__).parent
    oidc = any((folder / ".streamlit" / "secrets.toml").is_file() for folder in (Path.home(), Path.cwd(), app_folder))
    if not oidc and not any(person.invited for person in People(study.labels_path).all()):
        raise Refused(
            f"others can reach {address}, and nobody could sign in there: give people links (on the page Team, or 'blindspot "
            "people invite NAME'), set up a sign-in (docs/judge.md), or trust everybody who comes with --without-sign-in"
        )


def _refuse_taken_port(address: str, port: int) -> None:
    from blindspot.backend.service.guard import host_in_url, reachable_host

    host = reachable_host(address)
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return
    raise Refused(
        f"port {port} is in use (is the app open already on http://{host_in_url(host)}:{port} ?); give another with --port"
    )


def wait_until_up(port: int, server: subprocess.Popen, address: str = ADDRESS) -> None:
    """Wait until the server answers. Raises BlindspotError if the server exits, or does not answer within a minute."""
    from blindspot.backend.service.guard import host_in_url, reachable_host

    health = f"http://{host_in_url(reachable_host(address))}:{port}/_stcore/health"
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise BlindspotError(f"the app's server ended at once (exit {server.returncode}); its message is above")
        try:
            with urllib.request.urlopen(health, timeout=1) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise BlindspotError(f"the app did not answer on {health} within {SECONDS_TO_START} s")
