"""`blindspot experiment NAME`: repeat an experiment of the papers on this study, with the paper's figures beside the
measured ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blindspot.app.commands.common import AsJson, Device, StudyOption, do, group, open_study, whole_numbers
from blindspot.backend.text.counting import duration

if TYPE_CHECKING:
    from blindspot.backend.experiments.cost import ExperimentCost

experiment_app = group(
    "Repeat the papers' experiments on your own data. --plan estimates the cost, --small is a trial run. A killed "
    "experiment resumes when the command is repeated."
)


def _run(
    context: typer.Context,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Print what would be trained and encoded, and about how long it takes; do nothing else."
        ),
    ] = False,
    small: Annotated[
        bool,
        typer.Option(
            "--small",
            help="Use a tiny model and few questions. It shows that the experiment runs; its figures mean nothing.",
        ),
    ] = False,
    start: Annotated[
        str | None, typer.Option("--from", help="Encoder that every training starts from (default: minilm).")
    ] = None,
    train: Annotated[
        list[str] | None, typer.Option(help="Questions to train on: train or SET/train (repeatable).")
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="Questions to measure on: dev, test, a question set, or SET/SPLIT.")
    ] = None,
    k: Annotated[
        str | None,
        typer.Option("--k", metavar="N,N,...", help="Ranks at which success is measured (default: 5,20,100)."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Seeds to train with; use at least 3 to get an interval.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of training questions.")] = None,
    questions: Annotated[int | None, typer.Option(min=1, help="Maximum number of questions to measure on.")] = None,
    relation: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Relation to use, in experiments that compare relations (repeatable)."),
    ] = None,
    question_set: Annotated[
        list[str] | None,
        typer.Option("--set", help="Question set to use, in experiments that compare question sets (repeatable)."),
    ] = None,
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            "--encoder",
            "--passage-encoder",
            help="Encoder to use, in experiments that compare encoders (repeatable).",
        ),
    ] = None,
    depth: Annotated[
        int | None, typer.Option(min=1, help="Number of top ranks to mine negatives from (default: 100).")
    ] = None,
    batches: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...", help="Batch sizes to compare, in questions, in experiments that vary the batch size."
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,...",
            help="Numbers of training questions to compare, in experiments that vary the training data.",
        ),
    ] = None,
    layers: Annotated[
        int | None, typer.Option(help="Number of encoder layers to keep, counted from the first.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="Batch size in questions, in experiments that do not vary the batch size.")
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Number of training epochs.")] = None,
    steps: Annotated[int | None, typer.Option(help="Number of training steps; replaces --epochs.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    passage_tokens: Annotated[
        int | None, typer.Option(help="Maximum tokens of a passage; longer passages are truncated.")
    ] = None,
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
    csv: Annotated[bool, typer.Option("--csv", help="Print the table as CSV.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print the table as LaTeX.")] = False,
    json: AsJson = False,
    study: StudyOption = None,
) -> None:
    training = (_values(more, "--training") or {}) | _given_settings(
        layers=layers,
        batch=batch,
        epochs=epochs,
        steps=steps,
        learning_rate=learning_rate,
        passage_tokens=passage_tokens,
    )
    given = _given_settings(
        start=start,
        train=train or None,
        on=on,
        ks=_numbers(k, "--k"),
        seeds=_numbers(seeds, "--seeds"),
        limit=limit,
        measured=questions,
        relations=relation or None,
        sets=question_set or None,
        encoders=encoder or None,
        depth=depth,
        batches=_numbers(batches, "--batches"),
        sizes=_numbers(sizes, "--sizes"),
        training=training or None,
        cross=_values(cross, "--cross"),
        reader=_values(reader, "--reader"),
        small=small or None,
    )
    opened, name = open_study(study), context.command.name or ""
    if plan:
        from blindspot.backend.experiments.cost import cost, planned_parts

        waiting, parts = planned_parts(opened, name, given, device).as_words()
        print(f"To do: {waiting}.\nAlready done: {parts}.", flush=True)
        print("\n".join(_as_lines(cost(opened, name, given, device))))
        return
    from blindspot.backend.experiments.running import run_experiment

    _print(do(run_experiment, opened, experiment=name, given=given, device=device), csv, latex, json)


def add_experiments() -> None:
    """Add one command for each experiment of the papers."""
    from blindspot.backend.experiments.papers import experiments

    for name, about in experiments().items():
        experiment_app.command(name, help=f"{about.asks} ({about.paper}, {about.source})")(_run)


def _print(result: dict[str, Any], csv: bool, latex: bool, json: bool) -> None:
    from blindspot.app.tables import console, print_json
    from blindspot.backend.experiments import tables

    if json:
        print_json(result)
    elif csv or latex:
        print(tables.as_csv(result) if csv else tables.as_latex(result), end="")
    else:
        console.print(tables.as_rich(result))
        for line in tables.as_lines(result):
            console.print(line, markup=False)


def _as_lines(cost_estimate: ExperimentCost) -> list[str]:
    lines = [
        f"About {duration(cost_estimate.seconds)} of training and encoding on this machine, from a trial of each model."
    ]
    if cost_estimate.not_reckoned:
        lines.append(f"Not included in that time: {', '.join(cost_estimate.not_reckoned)}.")
    return lines


def _given_settings(**settings: Any) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value is not None}


def _values(texts: list[str] | None, option: str) -> dict[str, Any] | None:
    """Parse NAME=VALUE options. Numbers, true, false and none become Python values."""
    if not texts:
        return None
    values: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise typer.BadParameter(f"{option} needs NAME=VALUE, as in steps=200, not {text!r}")
        number = re.fullmatch(r"\d+(\.\d+)?(e-?\d+)?", value)
        words = {"true": True, "false": False, "none": None}
        values[name] = words.get(value, value) if number is None else int(value) if value.isdecimal() else float(value)
    return values


def _numbers(text: str | None, option: str) -> list[int] | None:
    return None if text is None else whole_numbers(text, option, "5,20,100")
