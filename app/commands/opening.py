"""`blindspot open`, `blindspot demo` and `blindspot download`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from blindspot.app.commands.common import Hosts, StudyOption, open_study, progress


def open_app(
    study: StudyOption = None,
    port: Annotated[int, typer.Option(help="Port of the app.")] = 8501,
    address: Annotated[
        str,
        typer.Option(
            help="Address to listen on. With 0.0.0.0 other machines can reach the app, and people sign in with "
            "a personal link."
        ),
    ] = "localhost",
    without_sign_in: Annotated[
        bool,
        typer.Option(
            "--without-sign-in", help="Let everybody who can reach the app choose a name, without signing in."
        ),
    ] = False,
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="URL|none",
            help="URL of the 'blindspot serve' that answers live questions (default: $BLINDSPOT_BACKEND, else the app itself answers them, as with none).",
        ),
    ] = None,
    host: Hosts = None,
) -> None:
    """Open the study in the app, on http://localhost:8501."""
    from blindspot.app.server import serve
    from blindspot.backend.retrieval.remote import use_backend

    opened = open_study(study)
    if backend is not None:
        use_backend(None if backend == "none" else backend)
    serve(opened, port, address, without_sign_in, host or ())


def demo(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Folder of the demo study.")] = Path("demo"),
    port: Annotated[int, typer.Option(help="Port of the app.")] = 8501,
    app: Annotated[
        bool, typer.Option("--app/--no-app", help="Whether to open the app; --no-app waits until the demo is finished.")
    ] = True,
) -> None:
    """Create the demo study and open the app as soon as BM25 is ready; the rest follows as jobs."""
    from blindspot.app.server import serve
    from blindspot.backend.core import jobs
    from blindspot.backend.demo import making

    with progress() as watch:
        study = making.make_first_parts(folder, progress=watch)
        if app:
            making.finish_in_background(study)
        elif making.missing_parts(study):
            jobs.run(making.finish, study, progress=watch)
    print(making.result_line(study))
    if app:
        serve(study, port)


def download(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Data set to download: entityquestions, wikipedia, nq or dpr.")
    ],
    folder: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder for the files.")] = Path("downloads"),
) -> None:
    """Download a public data set or model. An interrupted download is resumed."""
    from blindspot.backend.data.download import NEXT
    from blindspot.backend.data.download import download as fetch

    with progress() as watch:
        paths = fetch(name, folder, watch)
    for path in paths:
        print(f"Downloaded {path}")
    print("Next: " + NEXT[name].format(folder=folder))
