"""The `blindspot` command, assembled from `app/commands/`. Commands import heavy modules when they run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from blindspot.app.commands import (
    agents,
    batches,
    consent,
    experiments,
    exports,
    hub,
    imports,
    indexes,
    jobs,
    judge,
    labels,
    opening,
    parts,
    people,
    recipe,
    runs,
    serve,
    tags,
    train,
)
from blindspot.app.commands import map as maps
from blindspot.app.commands import training_sets as sets
from blindspot.app.commands.check import check
from blindspot.app.commands.common import group
from blindspot.app.commands.compare import compare, oracle
from blindspot.app.commands.find import find
from blindspot.app.commands.misses import misses
from blindspot.app.commands.read import read, train_reader
from blindspot.app.commands.settings import settings
from blindspot.app.commands.why import why
from blindspot.app.terminal import clean_streams
from blindspot.db.errors import BlindspotError

PATH: dict[str, tuple[str, ...]] = {
    "Start": ("demo", "check", "new", "import", "open", "status", "download"),
    "Look": ("retrieve", "index", "encoder", "report", "compare", "misses", "why", "map", "find", "tags", "oracle", "experiment"),
    "Judge": ("batch", "people", "labels", "judge"),
    "Clean": ("training-set",),
    "Train": ("train", "read"),
    "Share": ("export", "hub", "serve", "mcp", "consent"),
    "Keep": ("settings", "jobs", "copy", "rename", "describe", "delete"),
}  # fmt: skip
"""The commands as the work goes, and in each step the most used first."""


class _AlongThePath(TyperGroup):
    """Lists the commands in the order of the work, step by step."""

    def list_commands(self, context: object) -> list[str]:
        order = [name for names in PATH.values() for name in names]
        return sorted(self.commands, key=lambda name: order.index(name) if name in order else len(order))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for step, names in PATH.items():
            with formatter.section(step):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(limit=1000)) for name in names])


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


COMMANDS: dict[str, Callable[..., Any]] = {
    "demo": opening.demo, "check": check, "new": imports.new, "copy": imports.copy, "status": runs.status, "retrieve": runs.retrieve, "report": runs.report,
    "compare": compare, "oracle": oracle, "find": find, "misses": misses, "why": why, "read": read, "open": opening.open_app, "rename": parts.rename, "describe": parts.describe, "settings": settings, "delete": parts.delete, "serve": serve.serve, "mcp": agents.mcp, "download": opening.download,
}  # fmt: skip
LATE = {"retrieve": runs.RetrieveCommand}
GROUPS = {
    "import": imports.import_app, "index": indexes.index_app, "encoder": indexes.encoder_app, "map": maps.map_app,
    "batch": batches.batch_app, "people": people.people_app, "labels": labels.labels_app,
    "training-set": sets.training_set_app, "train": train.train_app, "experiment": experiments.experiment_app,
    "export": exports.export_app, "hub": hub.hub_app, "jobs": jobs.jobs_app, "tags": tags.tags_app, "judge": judge.judge_app, "consent": consent.consent_app,
}  # fmt: skip
train.train_app.command("rocketqa")(recipe.rocketqa)
train.train_app.command("reader")(train_reader)
experiments.add_experiments()
for name, command in COMMANDS.items():
    app.command(name, cls=LATE.get(name))(command)
for name, commands in GROUPS.items():
    app.add_typer(commands, name=name)


def main() -> None:
    """Run the command. An error that a person can fix prints one line and gives exit code 1."""
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
