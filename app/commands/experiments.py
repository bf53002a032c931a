"""`blindspot experiment`: repeat an experiment of the papers on this study, and show the papers' figures beside the
measured ones.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from blindspot.app.commands.common import Device, OutputForm, StudyOption, check_form, do, open_study, print_json
from blindspot.app.commands.options import takes_settings
from blindspot.backend.core.declared import declared_settings
from blindspot.backend.experiments.settings import ExperimentSettings
from blindspot.backend.training.training_settings import DualEncoderSettings

TRAINING = ("layers", "batch", "epochs", "steps", "learning_rate", "passage_tokens")
"""The settings of dual encoders that have options of their own; `--training` takes all other settings."""
_NAMED = ("training", "cross", "reader")


@takes_settings(
    ExperimentSettings, "given", [name for name in declared_settings(ExperimentSettings) if name not in _NAMED]
)
@takes_settings(DualEncoderSettings, "trained", TRAINING, dict.fromkeys(TRAINING))
@takes_settings(OutputForm, "form")
def experiment(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Experiment to run (default: list the experiments).")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments; do nothing else.")] = False,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Print what would be trained and encoded; do nothing else."),
    ] = False,
    *,
    given: dict[str, Any],
    trained: dict[str, Any],
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--training",
            metavar="NAME=VALUE",
            help="Setting of the dual encoders, as in temperature=0.05 (repeatable).",
        ),
    ] = None,
    cross: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Setting of the cross-encoders, as in steps=200 (repeatable)."),
    ] = None,
    reader: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Setting of the readers, as in epochs=5 (repeatable)."),
    ] = None,
    device: Device = None,
    form: dict[str, bool],
    study: StudyOption = None,
) -> None:
    """Repeat the papers' experiments on your own data.

    --plan says what would be made, --small is a trial run. A killed experiment resumes when the command is repeated.
    """
    if listed or name is None:
        _print_list()
        return
    check_form(form)
    named = {"training": _values(more, "--training") | trained, "cross": _values(cross, "--cross")}
    named["reader"] = _values(reader, "--reader")
    given |= {name: values for name, values in named.items() if values}
    opened = open_study(study)
    if plan:
        from blindspot.backend.experiments.planned import planned_parts

        waiting, parts = planned_parts(opened, name, given, device).as_words()
        print(f"To do: {waiting}.\nAlready done: {parts}.")
        return
    from blindspot.backend.experiments.running import run_experiment

    _print(do(run_experiment, opened, experiment=name, given=given, device=device), form)


def _print_list() -> None:
    from blindspot.backend.experiments.papers import experiments

    for name, about in experiments().items():
        print(f"{name:<21} {about.paper}, {about.source}: {about.asks} ({about.needs})")


def _print(result: dict[str, Any], form: dict[str, bool]) -> None:
    from blindspot.app.terminal_tables import console
    from blindspot.backend.experiments import tables

    if "json" in form:
        print_json(result)
    elif form:
        print(tables.as_csv(result) if "csv" in form else tables.as_latex(result), end="")
    else:
        console.print(tables.result_table(result).as_rich())


def _values(texts: list[str] | None, option: str) -> dict[str, Any]:
    """Parse NAME=VALUE options. Convert numbers, true, false and none to Python values."""
    values: dict[str, Any] = {}
    for text in texts or ():
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise typer.BadParameter(f"{option} needs NAME=VALUE, as in steps=200, not {text!r}")
        number = re.fullmatch(r"\d+(\.\d+)?(e-?\d+)?", value)
        words = {"true": True, "false": False, "none": None}
        values[name] = words.get(value, value) if number is None else int(value) if value.isdecimal() else float(value)
    return values
