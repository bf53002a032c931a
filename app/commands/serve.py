"""`blindspot serve` and `mcp`: serve the study to programs over HTTP, and to language-model agents."""

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


def mcp(
    folder: Annotated[
        str | None, typer.Argument(metavar="[STUDY]", help="Folder of the study; the same as --study.")
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help="Let the agent label, as a machine annotator of this name (default: it cannot label).",
        ),
    ] = None,
    jobs: Annotated[
        bool, typer.Option("--jobs", help="Let the agent start and cancel jobs (default: it cannot).")
    ] = False,
    study: StudyOption = None,
) -> None:
    """Serve the study to language-model agents (Model Context Protocol) over standard input and output. Without --as and --jobs
    agents can only read.
    """
    if folder is not None and study is not None:
        raise typer.BadParameter("name the study once, as STUDY or with --study")
    from blindspot.backend.service.agents import make_agents_server

    try:
        make_agents_server(open_study(folder or study), machine, jobs).run("stdio")
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
