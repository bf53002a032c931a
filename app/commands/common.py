"""Options that several commands share, and functions that open a study and show progress."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import typer
from typer.core import TyperGroup

from blindspot.app.terminal import clean_json
from blindspot.backend.core.declared import Field, declared_settings, settings_class
from blindspot.db.errors import Missing

if TYPE_CHECKING:
    from rich.console import RenderableType

    from blindspot.backend.core.study import Study
    from blindspot.backend.progress import Progress

P = ParamSpec("P")
R = TypeVar("R")

StudyOption = Annotated[
    str | None,
    typer.Option(
        "--study", metavar="DIR", help="Folder of the study (default $BLINDSPOT_STUDY, else the current folder)."
    ),
]
FileArgument = Annotated[
    Path, typer.Argument(metavar="FILE", help="File to read. Files ending in .gz or .xz are decompressed.")
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad",
        help="Skip invalid rows and write them to a file. Without this option an invalid row stops the import.",
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Load the model even if loading it runs its author's code (pickled weights, custom classes)."
    ),
]
Format = Annotated[
    str | None, typer.Option("--format", help="Format of the file (default: recognised from its content).")
]
Encoder = Annotated[str, typer.Option("--encoder", help="Name of an encoder in study.toml.")]
Device = Annotated[str | None, typer.Option(help="Device: cpu, cuda, cuda:1, ... (default: a GPU if there is one).")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Setting of the format (see docs/formats.md).")
]
Split = Annotated[
    str | None,
    typer.Option(help="Questions to use: train, dev, test, unlabelled, a question set, or SET/SPLIT (default all)."),
]
Ties = Annotated[
    str,
    typer.Option(
        metavar="id|row|file",
        help="Order of passages with equal scores: by passage id (as Pyserini does), by row of the collection, "
        "or in the order of the file.",
    ),
]
Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File to write (default: a generated name in the current folder).")
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help=(
            "Additional host name of the server, such as that of a reverse proxy. Others must then sign in or send "
            "a token."
        ),
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Relations = Annotated[list[str] | None, typer.Option(help="Use only questions of this relation (repeatable).")]
Buckets = Annotated[
    list[str] | None,
    typer.Option(help="Use only questions of this bucket, named as in a report: 'bucket 3', '2-3 mentions'."),
]


@settings_class
class OutputForm:
    """The output forms of a report."""

    json: bool = Field(default=False, description="Print JSON, for scripts")
    csv: bool = Field(default=False, description="Print CSV")
    latex: bool = Field(default=False, description="Print LaTeX tables (booktabs)")


class PrintedReport(Protocol):
    """A report that can print as tables, JSON, CSV or LaTeX."""

    def as_rich(self) -> RenderableType: ...

    def as_json(self) -> str: ...

    def as_csv(self) -> str: ...

    def as_latex(self) -> str: ...


def group(description: str, cls: type[TyperGroup] = TyperGroup) -> typer.Typer:
    """Create a group of commands whose help is plain text, so that it looks the same on a terminal, in a log and in the
    docs.
    """
    return typer.Typer(
        help=description,
        cls=cls,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        rich_markup_mode=None,
    )


def open_study(folder: str | None) -> Study:
    from blindspot.backend.core.study import Study

    return Study.open(folder)


def unopened_study(folder: str | None) -> Study:
    """Return the study in a folder without opening its labels.db, which may be damaged or on another machine."""
    from blindspot.backend.core.study import ENVIRONMENT_VARIABLE, SETTINGS_FILE, Study

    study = Study(Path(folder or os.environ.get(ENVIRONMENT_VARIABLE) or "."))
    if not study.settings_path.is_file():
        raise Missing(
            f"{study.folder} is not a study (it has no {SETTINGS_FILE}); name one with --study or ${ENVIRONMENT_VARIABLE}"
        )
    return study


def do(function: Callable[Concatenate[Study, P], R], study: Study, /, *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a job in this process with a progress bar. The arguments are those of the job's function."""
    from blindspot.backend.core import jobs

    with progress() as watch:
        return cast("Callable[..., R]", jobs.run)(function, study, *args, **kwargs, progress=watch)


def whole_numbers(text: str, option: str, example: str) -> list[int]:
    """Return the numbers of an option such as --k 5,20. Raises BadParameter, which names the option and shows the
    example.
    """
    numbers = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in numbers):
        raise typer.BadParameter(f"{option} needs whole numbers separated by commas, as in {example}")
    return [int(part) for part in numbers]


def check_form(form: dict[str, bool], **others: object) -> None:
    """Raise BadParameter if more than one form of a report is requested. others: further forms that the command has."""
    if sum(map(bool, [*form.values(), *others.values()])) > 1:
        names = (f"--{name}" for name in (*declared_settings(OutputForm), *others))
        raise typer.BadParameter(f"give one of {', '.join(names)}")


def print_report(report: PrintedReport, form: dict[str, bool]) -> None:
    """Print a report in one of the forms of `OutputForm`, or as tables."""
    if form:
        if "json" in form:
            text = clean_json(report.as_json())
        else:
            text = report.as_csv() if "csv" in form else report.as_latex()
        print(text.rstrip("\n"))
    else:
        from blindspot.app.console import Terminal

        Terminal().print(report.as_rich())


def print_json(content: Any) -> None:
    print(clean_json(json.dumps(content, ensure_ascii=False, indent=1)))


def by_bucket(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with the grouping by frequency under the name that the study uses."""
    return {**options, "by": "bucket"} if options.get("by") == "frequency" else options


@contextmanager
def progress() -> Iterator[Progress]:
    """Show progress. On Ctrl-C, say what was saved, and exit with code 130."""
    from blindspot.app.progress import terminal_progress
    from blindspot.backend.core.jobs import CANCELLED

    try:
        with terminal_progress() as watch:
            yield watch
    except KeyboardInterrupt:
        print(f"\nblindspot: {CANCELLED}", file=sys.stderr)
        raise typer.Exit(130) from None


def trust_models(study: Study, *models: str | None) -> None:
    """Record that the user trusts these models (encoders of the study, folders or Hub names), and print the code that
    they may now run.
    """
    from blindspot.backend.core.model_files import trust_model

    for model in filter(None, models):
        encoder = study.settings.encoders.get(model)
        named = [model] if encoder is None else [encoder.model, encoder.question_model, encoder.passage_model]
        for each in filter(None, named):
            for line in trust_model(each):
                print(f"{each} may now run: {line}")
