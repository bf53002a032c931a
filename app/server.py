"""Start the app's server for a study."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from db.errors import BlindspotError, Refused

if TYPE_CHECKING:
    from backend.core.study import Study

ADDRESS = "localhost"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("0.0.0.0", "::")
SIGN_IN = "BLINDSPOT_SIGN_IN"
"""Environment variable; "none" trusts everybody who reaches the server to say who they are."""
MAIN = Path(__file__).with_name("asgi.py")
SECONDS_TO_START = 60


def command(port: int, address: str = ADDRESS) -> list[str]:
    """The command that serves the app; the study is named by $BLINDSPOT_STUDY."""
    return [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        str(MAIN),
        "--server.port",
        str(port),
        "--server.address",
        address,
        "--server.headless",
        "true",
        "--browser.gatherUsageStats",
        "false",
        "--server.fileWatcherType",
        "none",
        "--client.toolbarMode",
        "minimal",
        "--logger.level",
        "error",
    ]


def environment(study: Study, trusting: bool = False) -> dict[str, str]:
    """What the server's process is told. `trusting`: whoever reaches it is believed to be who they say."""
    from backend.core.study import ENVIRONMENT_VARIABLE

    told = {name: value for name, value in os.environ.items() if name != SIGN_IN}
    return {**told, ENVIRONMENT_VARIABLE: str(study.folder), **({SIGN_IN: "none"} if trusting else {})}


def serve(study: Study, port: int, address: str = ADDRESS, without_sign_in: bool = False) -> None:
    """Serve until Ctrl-C; says where once the server answers.

    Raises:
        Refused: the port is taken; or others could reach the address, and nobody in the study could sign in.
    """
    import subprocess

    if address not in LOOPBACK and not without_sign_in:
        _refuse_open_door(study, address)
    with socket.socket() as probe:
        if probe.connect_ex((ADDRESS, port)) == 0:
            raise Refused(
                f"port {port} is in use (is the app open already on http://{ADDRESS}:{port} ?); give another with --port"
            )
    for stop in (signal.SIGINT, signal.SIGTERM):  # either ends the server with this process
        signal.signal(stop, signal.default_int_handler)
    server = subprocess.Popen(
        command(port, address), env=environment(study, without_sign_in), stdout=subprocess.DEVNULL
    )
    try:
        wait_until_up(port, server)
        where = ADDRESS if address in LOOPBACK else socket.gethostname() if address in EVERYWHERE else address
        print(f"{study.settings.name} is open on http://{where}:{port} (Ctrl-C ends it)", flush=True)
        server.wait()
    except KeyboardInterrupt:
        print("\nClosed.")
    finally:
        server.terminate()
        server.wait()


def _refuse_open_door(study: Study, address: str) -> None:
    from db.people import People

    oidc = any((folder / ".streamlit" / "secrets.toml").is_file() for folder in (Path.home(), Path.cwd(), MAIN.parent))
    if not oidc and not any(person.invited for person in People(study.labels_path).all()):
        raise Refused(
            f"others can reach {address}, and nobody could sign in there: give people links ('blindspot people invite NAME'), "
            "set up a sign-in (docs/judge.md), or trust everybody who comes with --without-sign-in"
        )


def wait_until_up(port: int, server) -> None:
    """Raises BlindspotError when the server ends or does not answer in a minute."""
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise BlindspotError(
                f"the app's server ended at once (exit {server.returncode}); what it said stands above"
            )
        try:
            with urllib.request.urlopen(f"http://{ADDRESS}:{port}/_stcore/health", timeout=1) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise BlindspotError(f"the app did not answer on port {port} within {SECONDS_TO_START} s")
