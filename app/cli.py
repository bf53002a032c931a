"""The `blindspot` command. The module of a command in `app/commands/` is imported when the command is called. The heavy
modules that a command needs are imported when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperGroup

from blindspot.app.commands.common import group
from blindspot.app.terminal import clean_streams
from blindspot.db.errors import BlindspotError

PATH: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "demo": (
            "opening:demo",
            "Create the demo study and open the app as soon as BM25 is ready; the rest follows as jobs.",
        ),
        "check": (
            "check:check",
            "Check a file of training data: faults at once, and the share of false negatives from a few labels.",
        ),
        "new": (
            "imports:new",
            "Create an empty study, or a study from retriever output.",
        ),
        "import": (
            "imports:import_app",
            "Import passages, questions, runs, relevance judgements or entity frequencies.",
        ),
        "open": ("opening:open_app", "Open the study in the app, on http://localhost:8501."),
        "status": ("runs:status", "Show what the study contains and the one next command."),
        "download": ("opening:download", "Download a public data set or model."),
    },
    "Look": {
        "retrieve": ("runs:retrieve", "Search every question and store the hits as a run."),
        "index": ("indexes:index_app", "Index the passages for BM25 or for dense retrieval."),
        "encoder": ("indexes:encoder_app", "Add encoders to study.toml, or list them."),
        "report": ("runs:report", "Report the accuracy of runs, with n and intervals."),
        "compare": (
            "compare:compare",
            "Compare two runs: the difference with its interval and p value, and the questions that only one of "
            "them answers.",
        ),
        "misses": (
            "compare:misses",
            "Count the causes of one run's misses, or of two runs': near-namesakes, other words, rare subjects "
            "and others.",
        ),
        "map": ("map:map_app", "Make maps of the embedding space."),
        "oracle": (
            "compare:oracle",
            "Show what an oracle reaches that chooses the best of several runs for each question, and how often "
            "it chooses each.",
        ),
        "experiment": ("experiments:experiment", "Repeat the papers' experiments on your own data."),
    },
    "Judge": {
        "batch": ("batches:batch_app", "Create, assign and close batches of questions to judge."),
        "people": ("people:people_app", "Add, invite and pause the people who work on the study."),
        "labels": ("labels:labels_app", "Back up, restore, check, export or import labels."),
        "judge": (
            "judge:judge_app",
            "Learn a judge from your labels in seconds, and judge the passages of runs with it.",
        ),
    },
    "Clean": {
        "training-set": (
            "training_sets:training_set_app",
            "Build training sets from runs, labels and scores; compare and export them.",
        ),
    },
    "Train": {
        "train": ("train:train_app", "Train retrievers, and the cross-encoders that clean their training sets."),
        "read": (
            "read:read",
            "Answer the questions of a run from its passages, and report exact match and F1 at each k.",
        ),
    },
    "Share": {
        "export": ("exports:export_app", "Export parts of a study in the formats of other tools."),
        "serve": (
            "serve:serve",
            "Answer live questions over HTTP, with encoders and indexes loaded once for all users.",
        ),
        "consent": ("consent:consent_app", "Allow texts of a study to go to a server, or take that back."),
    },
    "Keep": {
        "settings": ("settings:settings", "Show the settings of the study itself, or change those that are named."),
        "jobs": ("jobs:jobs_app", "List jobs, print their logs, cancel them."),
        "delete": ("parts:delete", "Delete a run, batch, training set, model or map."),
    },
}
"""The commands in the order in which people use them, and within each step the most used first: the function or group
of each, and its line of help. A test compares this line with the command's own docstring.
"""
LATE = {"retrieve": "runs:RetrieveCommand"}
"""Commands that have a class of their own."""
MORE = {"train": ("read",)}
"""Modules, besides the group's own, that add commands to a group."""


class _Commands(Mapping[str, Any]):
    """The commands by name. Each is imported and built only when it is needed, because a start of the program needs
    just one of them.
    """

    _places: ClassVar = {name: place for commands in PATH.values() for name, (place, _) in commands.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, name: str) -> Any:
        return _build(name, self._places[name])


@cache
def _build(name: str, place: str) -> Any:
    """Return the command or group at a place such as "runs:report"."""
    found = _imported(place)
    for module in MORE.get(name, ()):
        import_module(f"blindspot.app.commands.{module}")
    if isinstance(found, typer.Typer):
        built = typer.main.get_group(found)
        built.name = name
        return built
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    alone.command(name, cls=_imported(LATE[name]) if name in LATE else None)(found)
    return typer.main.get_command(alone)


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(f"blindspot.app.commands.{module}"), name)


class _AlongThePath(TyperGroup):
    """Lists the commands in the order in which people use them, step by step."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = _Commands()  # type: ignore[assignment]  # nobody adds commands to it

    def list_commands(self, context: object) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for step, commands in PATH.items():
            with formatter.section(step):
                formatter.write_dl([(name, line) for name, (_, line) in commands.items()])


app = group(
    "Find where a dense passage retriever is blind, mend its training data by hand, train it again.", _AlongThePath
)


@app.callback()
def options(
    context: typer.Context,
    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="Start at once, even while another heavy job of the study runs."),
    ] = False,
) -> None:
    if no_wait:
        from blindspot.backend.core.jobs import without_waiting

        context.with_resource(without_waiting())


def main() -> None:
    """Run the command. An error that a person can fix prints one line, and the exit code is 1."""
    clean_streams()
    try:
        app()
    except BlindspotError as error:
        print(f"blindspot: {error}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
    except Exception as error:
        if not isinstance(error, OSError) and type(error).__module__ != "sqlite3":
            raise  # a bug: show the traceback
        from blindspot.db.connection import advice_for

        advice = advice_for(error)  # explains an SQLite message, which does not name the database
        line = f"a database of the study: {advice}" if advice else str(error)
        print(f"blindspot: {line}", file=sys.stderr)  # such as a full disk, or a file without permission
        sys.exit(1)


if __name__ == "__main__":
    main()
