"""A service on a real port in this process."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from blindspot.backend.core.study import Study
from blindspot.backend.service.api import make_api
from blindspot.backend.service.guard import PatientProtocol
from blindspot.backend.service.service import Service


@contextmanager
def served(study: Study, token: str | None = None, **options) -> Iterator[str]:
    """Serve a study for the length of the block, and yield its URL."""
    api = make_api(Service(study, "cpu"), token, **options)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(api, http=PatientProtocol, ws="none", log_level="warning", lifespan="on")
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)
