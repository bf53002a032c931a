"""The server process of the app, started by `blindspot.app.server`.

    BLINDSPOT_STUDY=STUDY python -m blindspot.app.server_process --port 8501 --address localhost

It runs Streamlit's ASGI application behind `blindspot.backend.service.guard` and `blindspot.app.link_keys`. `streamlit run`
cannot add such middleware.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp

MAIN = Path(__file__).with_name("main.py")
HOME = MAIN.parent / "pages" / "home.py"
UPLOADS = "/_stcore/upload_file/"
MEGABYTES_OF_UPLOAD = 200  # of a training file that is dropped on the app, where only this machine reaches it
MEGABYTES_PER_MESSAGE = 8  # limit for messages from a browser; an outbox of 10,000 unsaved labels needs half of it
SECONDS_TO_CLOSE = 5


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m blindspot.app.server_process")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--host", action="append", default=[])
    parsed = parser.parse_args(arguments)

    from blindspot.app.garbage_collection import keep_collections_short
    from blindspot.app.log import start_log
    from blindspot.backend.core.study import ENVIRONMENT_VARIABLE
    from blindspot.db.errors import Refused

    start_log(Path(os.environ.get(ENVIRONMENT_VARIABLE) or "."))
    keep_collections_short()
    try:
        host(parsed.port, parsed.address, parsed.host)
    except Refused as error:
        sys.exit(f"blindspot: {error}")


def host(port: int, address: str, names: list[str]) -> None:
    """Serve the app until this process is terminated. Raises Refused if the app cannot listen on the address."""
    import uvicorn

    from blindspot.backend.service.guard import CONNECTIONS, PatientProtocol, bind_socket

    listening = bind_socket(address, port)
    config = uvicorn.Config(
        application(port, address, names),
        http=PatientProtocol,
        ws="websockets-sansio",
        ws_max_size=MEGABYTES_PER_MESSAGE << 20,
        ws_ping_interval=30,
        ws_ping_timeout=30,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=SECONDS_TO_CLOSE,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
    )
    # After application(), which imports Streamlit: two threads must not import it at once.
    Thread(target=import_first_page, daemon=True).start()
    uvicorn.Server(config).run(sockets=[listening])


def import_first_page() -> None:
    """Import what Home imports, and then what the other pages wait for, while a browser loads Streamlit's scripts. The
    page file itself is run by Streamlit only.
    """
    import_module("blindspot.app.main")
    for statement in ast.parse(HOME.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.ImportFrom) and statement.module:
            import_module(statement.module)
    from blindspot.app.whole_imports import import_whole

    import_whole()


def application(port: int, address: str, names: Sequence[str] = ()) -> ASGIApp:
    """Return the app's ASGI application with its middleware."""
    from starlette.middleware import Middleware
    from streamlit.starlette import App
    from streamlit.web import bootstrap

    from blindspot.app.entry import report
    from blindspot.app.link_keys import LinkKeys
    from blindspot.backend.core.study import ENVIRONMENT_VARIABLE
    from blindspot.backend.service.guard import REQUESTS_AT_ONCE, REQUESTS_PER_SECOND, Guard, Hosts, RequestRate

    hosts = Hosts(address, names)
    rate = None if hosts.is_local else RequestRate(REQUESTS_AT_ONCE, REQUESTS_PER_SECOND)
    megabytes = MEGABYTES_OF_UPLOAD if hosts.is_local else 1
    uploads = (UPLOADS, (megabytes + 1) << 20)  # with the frame of the form
    labels = Path(os.environ.get(ENVIRONMENT_VARIABLE) or ".").resolve() / "labels.db"
    middleware = [Middleware(Guard, hosts=hosts, rate=rate, uploads=uploads), Middleware(LinkKeys, labels_path=labels)]
    app = App(MAIN, middleware=middleware, on_script_error=report)
    # After App(), which tells Streamlit where main.py is: `.streamlit/config.toml` beside it holds the theme.
    bootstrap.load_config_options(_streamlit_options(port, address, megabytes))
    return app


def _streamlit_options(port: int, address: str, upload: int = 1) -> dict[str, Any]:
    """Return the options that config.toml cannot override."""
    return {
        "server.port": port,
        "server.address": address,
        "server.headless": True,
        "server.fileWatcherType": "none",
        "server.enableCORS": True,
        "server.enableXsrfProtection": True,
        "server.enableStaticServing": False,
        "server.enableAgentApi": False,
        "server.maxUploadSize": upload,
        "server.maxWidgetStateSize": MEGABYTES_PER_MESSAGE,
        "browser.gatherUsageStats": False,
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "none",
        "logger.level": "error",
        "logger.enableRich": False,
    }


if __name__ == "__main__":
    main(sys.argv[1:])
