"""`blindspot open`, `demo` and `download`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.commands.common import Hosts, StudyOption, open_study, progress


def open_app(
    study: StudyOption = None,
    port: Annotated[int, typer.Option(help="The port on this machine.")] = 8501,
    address: Annotated[
        str, typer.Option(help="Where to listen; 0.0.0.0 lets others in, who sign in by a personal link.")
    ] = "localhost",
    without_sign_in: Annotated[bool, typer.Option("--without-sign-in", help="Believe everybody who comes.")] = False,
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="URL|none",
            help="The 'blindspot serve' that answers live questions; default "
            "$BLINDSPOT_BACKEND, else one beside the app; none: the app itself.",
        ),
    ] = None,
    host: Hosts = None,
) -> None:
    """Open the study in the app, on http://localhost:8501."""
    from app.server import serve
    from backend.service.beside import asked_of

    opened = open_study(study)
    with asked_of(opened, backend):
        serve(opened, port, address, without_sign_in, host or ())


def demo(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where the demo study lies or will lie.")] = Path(
        "demo"
    ),
    passages: Annotated[
        int, typer.Option(min=500, max=1_000_000, help="Passages of the generated encyclopedia.")
    ] = 3000,
    seed: Annotated[int, typer.Option(min=0, help="The seed it is generated from.")] = 0,
    port: Annotated[int, typer.Option(help="The port on this machine.")] = 8501,
    app: Annotated[bool, typer.Option("--app/--no-app", help="Open the app at the end.")] = True,
) -> None:
    """Make the demo study, retrieve three ways, open the app."""
    from app.server import serve
    from backend.recipes.demo import make_demo

    with progress() as watch:
        study, lines = make_demo(folder, passages, seed, watch)
    for line in lines:
        print(line)
    if app:
        serve(study, port)


def download(
    name: Annotated[str, typer.Argument(metavar="NAME", help="entityquestions, wikipedia, nq or dpr.")],
    folder: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where the files go.")] = Path("downloads"),
) -> None:
    """Fetch the field's data sets and models, for those who have a network. Goes on where it broke off."""
    from backend.data.download import NEXT
    from backend.data.download import download as fetch

    with progress() as watch:
        paths = fetch(name, folder, watch)
    for path in paths:
        print(f"Have {path}")
    print("Next: " + NEXT[name].format(folder=folder))
