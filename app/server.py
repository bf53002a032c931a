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
    from backend.study import Study

ADDRESS = "localhost"
MAIN = Path(__file__).with_name("main.py")
SECONDS_TO_START = 60


def command(port: int) -> list[str]:
    """The command that serves the app; the study is named by $BLINDSPOT_STUDY."""
    return [sys.executable, "-m", "streamlit", "run", str(MAIN), "--server.port", str(port), "--server.address", ADDRESS,
            "--server.headless", "true", "--browser.gatherUsageStats", "false", "--server.fileWatcherType", "none",
            "--client.toolbarMode", "minimal", "--logger.level", "error"]


def environment(study: Study) -> dict[str, str]:
    from backend.study import ENVIRONMENT_VARIABLE

    return {**os.environ, ENVIRONMENT_VARIABLE: str(study.folder)}


def serve(study: Study, port: int) -> None:
    """Serve until Ctrl-C; says where once the server answers. Raises Refused when the port is taken."""
    import subprocess

    with socket.socket() as probe:
        if probe.connect_ex((ADDRESS, port)) == 0:
            raise Refused(f"port {port} is in use (is the app open already on http://{ADDRESS}:{port} ?); give another with --port")
    for stop in (signal.SIGINT, signal.SIGTERM):  # either ends the server with this process
        signal.signal(stop, signal.default_int_handler)
    server = subprocess.Popen(command(port), env=environment(study), stdout=subprocess.DEVNULL)
    try:
        wait_until_up(port, server)
        print(f"{study.settings.name} is open on http://{ADDRESS}:{port} (Ctrl-C ends it)", flush=True)
        server.wait()
    except KeyboardInterrupt:
        print("\nClosed.")
    finally:
        server.terminate()
        server.wait()


def wait_until_up(port: int, server) -> None:
    """Raises BlindspotError when the server ends or does not answer in a minute."""
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise BlindspotError(f"the app's server ended at once (exit {server.returncode}); what it said stands above")
        try:
            with urllib.request.urlopen(f"http://{ADDRESS}:{port}/_stcore/health", timeout=1) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise BlindspotError(f"the app did not answer on port {port} within {SECONDS_TO_START} s")
