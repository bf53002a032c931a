"""`blindspot serve`: answer live questions over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blindspot.app.commands.common import Device, Hosts, StudyOption, open_study


def serve(
    study: StudyOption = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the service.")] = 8600,
    address: Annotated[
        str, typer.Option(help="Address to listen on. Any address but localhost requires --token-file.")
    ] = "localhost",
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the token that every request must send.")
    ] = None,
    device: Device = None,
    host: Hosts = None,
) -> None:
    """Answer live questions over HTTP, with encoders and indexes loaded once for all users."""
    from blindspot.backend.service.running import serve as run

    run(open_study(study), port, address, token_file, device, host or ())
