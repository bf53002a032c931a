"""Run the retrieval service in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from blindspot.backend.core.extras import require
from blindspot.backend.core.study import Study
from blindspot.db.errors import Missing, Refused

SHORTEST_TOKEN = 16  # characters
SECONDS_TO_CLOSE = 5


def read_token(path: str | Path) -> str:
    """Return the token in a file. Raises Missing if there is no file, and Refused if the token is too short or other
    users may read the file.
    """
    path = Path(path)
    if not path.is_file():
        raise Missing(f"no file {path}; create it, as in: (umask 077; openssl rand -hex 32 > {path})")
    if path.stat().st_mode & 0o077:
        raise Refused(f"others may read {path}; run 'chmod 600 {path}'")
    token = path.read_text(encoding="utf-8").strip()
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise Refused(f"{path}: a token is one word of at least {SHORTEST_TOKEN} ASCII characters")
    return token


def serve(
    study: Study,
    port: int,
    address: str = "localhost",
    token_file: str | Path | None = None,
    device: str | None = None,
    hosts: Sequence[str] = (),
) -> None:
    """Serve until the process gets a signal to end, and print the service's URL when it is ready for requests.

    Args:
        hosts: further names under which clients reach the service, such as that of a reverse proxy.

    Raises Refused if other machines could reach the address and no token is required, or if the port is taken.
    """
    require("service")
    import uvicorn

    from blindspot.backend.service.api import make_api
    from blindspot.backend.service.guard import (
        CONNECTIONS,
        Hosts,
        PatientProtocol,
        bind_socket,
        host_in_url,
        is_loopback,
    )
    from blindspot.backend.service.service import Service

    token = None if token_file is None else read_token(token_file)
    if (hosts or not is_loopback(address)) and token is None:
        raise Refused(
            f"others can reach {hosts[0] if hosts else address}: give a token with --token-file, or serve on "
            "localhost (an ssh tunnel leads there)"
        )
    listening = bind_socket(address, port)
    print(
        f"{study.settings.name} answers on http://{host_in_url(address)}:{listening.getsockname()[1]} "
        "(Ctrl-C ends it; indexes load now)",
        flush=True,
    )
    _leave_signals_to_python()
    config = uvicorn.Config(
        make_api(Service(study, device), token, Hosts(address, hosts)),
        http=PatientProtocol,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=CONNECTIONS,
        timeout_graceful_shutdown=SECONDS_TO_CLOSE,
        lifespan="on",
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass


def _leave_signals_to_python() -> None:
    """Prevent a Java virtual machine that is started later from handling Ctrl-C."""
    import jnius_config

    if not jnius_config.vm_running:
        jnius_config.add_options("-Xrs")
