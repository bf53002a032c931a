"""The process that serves the app; `app.server` starts it.

    BLINDSPOT_STUDY=STUDY python -m app.hosting --port 8501 --address localhost

It runs Streamlit's own ASGI application behind `backend.service.guard`, which `streamlit run` has no place for.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

MAIN = Path(__file__).with_name("main.py")
MEGABYTES_PER_MESSAGE = 8  # from a browser; an outbox of 10,000 unsaved labels takes half of it
SECONDS_TO_CLOSE = 5


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m app.hosting")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--host", action="append", default=[])
    given = parser.parse_args(arguments)

    from app.log import start_log
    from backend.core.study import ENVIRONMENT_VARIABLE
    from db.errors import Refused

    start_log(Path(os.environ.get(ENVIRONMENT_VARIABLE) or "."))
    try:
        host(given.port, given.address, given.host)
    except Refused as error:
        sys.exit(f"blindspot: {error}")


def host(port: int, address: str, names: list[str]) -> None:
    """Serve the app until this process is told to end. Raises Refused when the address cannot be used."""
    import uvicorn
    from starlette.middleware import Middleware
    from streamlit.starlette import App
    from streamlit.web import bootstrap

    from app.entry import report
    from backend.service import guard

    listening = guard.listen(address, port)
    bootstrap.load_config_options(_streamlit_options(port, address))
    rate = None if guard.is_loopback(address) else guard.Rate(guard.REQUESTS_AT_ONCE, guard.REQUESTS_PER_SECOND)
    app = App(
        MAIN,
        middleware=[Middleware(guard.Guard, hosts=guard.Hosts(address, names), rate=rate)],
        on_script_error=report,
    )
    config = uvicorn.Config(
        app,
        http=guard.PatientProtocol,
        ws="websockets-sansio",
        ws_max_size=MEGABYTES_PER_MESSAGE << 20,
        ws_ping_interval=30,
        ws_ping_timeout=30,
        limit_concurrency=guard.CONNECTIONS,
        timeout_graceful_shutdown=SECONDS_TO_CLOSE,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
    )
    uvicorn.Server(config).run(sockets=[listening])


def _streamlit_options(port: int, address: str) -> dict[str, Any]:
    """Streamlit's configuration. A config.toml of the user cannot undo what is set here."""
    return {
        "server.port": port,
        "server.address": address,
        "server.headless": True,
        "server.fileWatcherType": "none",
        "server.enableCORS": True,
        "server.enableXsrfProtection": True,
        "server.enableStaticServing": False,
        "server.enableAgentApi": False,
        "server.maxUploadSize": 1,
        "server.maxWidgetStateSize": MEGABYTES_PER_MESSAGE,
        "browser.gatherUsageStats": False,
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "none",
        "logger.level": "error",
        "logger.enableRich": False,
    }


if __name__ == "__main__":
    main(sys.argv[1:])
