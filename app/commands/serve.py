"""`blindspot serve`: the retrieval backend as a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.commands.common import Device, Hosts, StudyOption, open_study


def serve(
    study: StudyOption = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port on this machine.")] = 8600,
    address: Annotated[str, typer.Option(help="Where to listen; any but localhost needs --token-file.")] = "localhost",
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with the token that requests must bring.")
    ] = None,
    device: Device = None,
    host: Hosts = None,
) -> None:
    """Answer live questions over HTTP, with encoders and indexes held once for everybody."""
    from backend.service.running import serve as run

    run(open_study(study), port, address, token_file, device, host or ())
