"""`blindspot mcp`: give language-model agents access to the study."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blindspot.app.commands.common import StudyOption, open_study


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
    port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, help="Serve over HTTP on this port of localhost (default: standard input and output)."
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="With --port: file with the token that agents must send.")
    ] = None,
    study: StudyOption = None,
) -> None:
    """Serve the study to language-model agents (Model Context Protocol). Without --as and --jobs agents can only read."""
    if folder is not None and study is not None:
        raise typer.BadParameter("name the study once, as STUDY or with --study")
    if token_file is not None and port is None:
        raise typer.BadParameter("--token-file goes with --port")
    from blindspot.backend.service.agents import make_agents_server

    server = make_agents_server(open_study(folder or study), machine, jobs)
    if port is None:
        try:
            server.run("stdio")
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        return
    from blindspot.backend.service.agents_over_http import PATH, serve_agents
    from blindspot.backend.service.guard import bind_socket
    from blindspot.backend.service.running import read_token

    token = None if token_file is None else read_token(token_file)
    listening = bind_socket("localhost", port)
    print(f"agents reach the study at http://localhost:{port}{PATH} (Ctrl-C ends it)", flush=True)
    serve_agents(server, listening, token)
