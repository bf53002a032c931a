"""`blindspot experiment NAME`: what the papers report, asked of this study, with the paper's figures beside ours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands.common import AsJson, Device, StudyOption, do, group, open_study
from backend.text.counting import duration

if TYPE_CHECKING:
    from backend.experiments.cost import ExperimentCost

experiment_app = group(
    "Ask of your own data what the papers report: --plan says what it costs, --small tries it; killed, it goes on."
)


def _run(
    context: typer.Context,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what is to be made and about how long it takes; make nothing.")
    ] = False,
    small: Annotated[
        bool, typer.Option("--small", help="A tiny model and few questions: proof that it runs, no finding.")
    ] = False,
    start: Annotated[
        str | None, typer.Option("--from", help="The encoder that trainings start from; default minilm.")
    ] = None,
    train: Annotated[
        list[str] | None, typer.Option(help="Questions to train on: train, or SET/train; may be repeated.")
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="Questions to measure on: dev, test, a question set, or SET/SPLIT.")
    ] = None,
    k: Annotated[
        str | None, typer.Option("--k", metavar="N,N,...", help="Success at these ranks; default 5,20,100.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="A model is trained with each; under 3 say nothing.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="So many training questions at most.")] = None,
    questions: Annotated[int | None, typer.Option(min=1, help="So many questions to measure on at most.")] = None,
    relation: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="A relation, where the experiment takes some.")
    ] = None,
    question_set: Annotated[
        list[str] | None, typer.Option("--set", help="A question set, where the experiment takes some.")
    ] = None,
    encoder: Annotated[
        list[str] | None, typer.Option("--encoder", "--passage-encoder", help="An encoder where it takes some.")
    ] = None,
    depth: Annotated[int | None, typer.Option(min=1, help="Ranks that negatives are mined from; default 100.")] = None,
    batches: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Questions in a batch, where it varies.")
    ] = None,
    sizes: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Training questions, where their number varies.")
    ] = None,
    layers: Annotated[int | None, typer.Option(help="Of the models: only the first so many.")] = None,
    batch: Annotated[
        int | None, typer.Option(help="Of the models: questions in a batch, where it does not vary.")
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Of the models.")] = None,
    steps: Annotated[int | None, typer.Option(help="Of the models: batches, in the place of epochs.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of the models.")] = None,
    passage_tokens: Annotated[int | None, typer.Option(help="Of the models: longer passages are cut.")] = None,
    more: Annotated[
        list[str] | None, typer.Option("--training", metavar="NAME=VALUE", help="A setting of dual encoders.")
    ] = None,
    cross: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of cross-encoders, as steps=200.")
    ] = None,
    reader: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A setting of readers, as epochs=5.")
    ] = None,
    device: Device = None,
    csv: Annotated[bool, typer.Option("--csv", help="The table as CSV.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="The table as LaTeX.")] = False,
    json: AsJson = False,
    study: StudyOption = None,
) -> None:
    training = (_values(more, "--training") or {}) | _given(
        layers=layers,
        batch=batch,
        epochs=epochs,
        steps=steps,
        learning_rate=learning_rate,
        passage_tokens=passage_tokens,
    )
    given = _given(
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
        from backend.experiments.cost import cost, planned_parts

        waiting, made = planned_parts(opened, name, given, device).as_words()
        print(f"To be made: {waiting}.\nThere already: {made}.", flush=True)
        print("\n".join(_as_lines(cost(opened, name, given, device))))
        return
    from backend.experiments.running import run_experiment

    _print(do(run_experiment, opened, experiment=name, given=given, device=device), csv, latex, json)


def add_experiments() -> None:
    """One command for each experiment of the papers."""
    from backend.experiments.papers import experiments

    for name, about in experiments().items():
        experiment_app.command(name, help=f"{about.asks} ({about.paper}, {about.source})")(_run)


def _print(result: dict[str, Any], csv: bool, latex: bool, json: bool) -> None:
    from app.tables import console, print_json
    from backend.experiments import tables

    if json:
        print_json(result)
    elif csv or latex:
        print(tables.as_csv(result) if csv else tables.as_latex(result), end="")
    else:
        console.print(tables.as_rich(result))
        for line in tables.as_lines(result):
            console.print(line, markup=False)


def _as_lines(found: ExperimentCost) -> list[str]:
    lines = [f"About {duration(found.seconds)} of training and encoding here, from a trial of each model."]
    if found.not_reckoned:
        lines.append(f"Not in that time: {', '.join(found.not_reckoned)}.")
    return lines


def _given(**settings: Any) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value is not None}


def _values(texts: list[str] | None, option: str) -> dict[str, Any] | None:
    """NAME=VALUE; numbers, true, false and none are taken as such."""
    if not texts:
        return None
    values: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.isidentifier():
            raise typer.BadParameter(f"{option} takes NAME=VALUE, as in steps=200, not {text!r}")
        number = re.fullmatch(r"\d+(\.\d+)?(e-?\d+)?", value)
        words = {"true": True, "false": False, "none": None}
        values[name] = words.get(value, value) if number is None else int(value) if value.isdecimal() else float(value)
    return values


def _numbers(text: str | None, option: str) -> list[int] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 0 < len(part) < 10 for part in parts):
        raise typer.BadParameter(f"{option} takes whole numbers with commas between, as in 5,20,100")
    return [int(part) for part in parts]
