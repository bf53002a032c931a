"""`blindspot mcp`: give language-model agents access to the study."""

from __future__ import annotations

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
