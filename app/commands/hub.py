"""`blindspot hub`: push and pull training sets, encoders, judges and studies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from blindspot.app.commands.common import StudyOption, group, open_study, progress
from blindspot.backend.text.number_words import quantity

if TYPE_CHECKING:
    from blindspot.backend.hub.pushing import PushPlan

Kind = Annotated[str, typer.Argument(metavar="KIND", help="training-set, encoder, judge or study.")]
Repository = Annotated[str, typer.Argument(metavar="REPOSITORY", help="Repository of the Hub, as USER/NAME.")]
LISTED = 20

hub_app = group("Push to the Hugging Face Hub, and pull from it. HF_TOKEN and HF_ENDPOINT work as elsewhere.")


@hub_app.command("push")
def push(
    kind: Kind,
    repository: Repository,
    name: Annotated[str | None, typer.Option("--name", help="Name of the part to push; not for a study.")] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Format of a training set that the Hub's viewer shows: parquet, sentence-transformers or tevatron.",
        ),
    ] = "parquet",
    public: Annotated[
        bool, typer.Option("--public", help="Let everybody see the repository (default: private).")
    ] = False,
    with_names: Annotated[
        bool, typer.Option("--with-names", help="Send the annotators' names of a study, instead of pseudonyms.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be sent.")] = False,
    study: StudyOption = None,
) -> None:
    """Push a training set, an encoder, a judge or the study to the Hub, after saying what is sent."""
    from blindspot.backend.hub import pushing
    from blindspot.backend.hub.repository import HubRepository

    target = HubRepository(repository, kind)
    with progress() as watch, pushing.plan_push(open_study(study), kind, name, format, with_names, watch) as plan:
        _say_plan(plan, f"{'public' if public else 'private'} {target.type} {target.address}")
        if dry_run:
            print("Nothing was sent, because of --dry-run.")
            return
        print(f"Sent: {pushing.push(plan, target, public)}", flush=True)


@hub_app.command("pull")
def pull(
    kind: Kind,
    repository: Repository,
    name: Annotated[
        str | None, typer.Option("--name", help="Name in this study (default: the name under which it was pushed).")
    ] = None,
    to: Annotated[Path | None, typer.Option("--to", metavar="DIR", help="New folder for a study.")] = None,
    study: StudyOption = None,
) -> None:
    """Pull a training set, an encoder or a judge into the study, or a study into a new folder. Runs no code from the Hub."""
    if (kind == "study") != (to is not None):
        raise typer.BadParameter("--to DIR goes with 'pull study', and 'pull study' needs it")
    from blindspot.backend.hub.pulling import pull, pull_study
    from blindspot.backend.hub.repository import HubRepository

    source = HubRepository(repository, kind)
    with progress():
        pulled = pull_study(source, to) if to is not None else pull(open_study(study), source, name)
    print(f"Pulled {kind} {pulled.name}: {quantity(pulled.files, 'file')}, {pulled.bytes / 1e6:,.1f} MB.")
    if pulled.skipped:
        print(f"Not taken: {', '.join(pulled.skipped[:LISTED])}")
    print(_next_step(kind, pulled.name, to))


def _say_plan(plan: PushPlan, repository_name: str) -> None:
    print(f"To {repository_name}: {quantity(len(plan.files), 'file')}, {plan.bytes / 1e6:,.1f} MB.")
    for path, size in plan.files[:LISTED]:
        print(f"  {path} ({size:,} bytes)")
    if len(plan.files) > LISTED:
        print(f"  ... and {len(plan.files) - LISTED:,} more")
    for note in plan.notes:
        print(note, flush=True)


def _next_step(kind: str, name: str, folder: Path | None) -> str:
    return {
        "training-set": f"Next: blindspot training-set show {name}",
        "encoder": f"Next: blindspot index dense --encoder {name}",
        "judge": f"Next: blindspot judge run {name} --run RUN",
        "study": f"Next: blindspot open --study {folder}",
    }[kind]
