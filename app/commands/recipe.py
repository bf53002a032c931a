"""`blindspot train rocketqa` and `blindspot experiment label-budget`: long work of several stages, each of which is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands.common import AsJson, StudyOption, do, open_study
from app.commands.options import takes_settings
from backend.recipes.settings import DUAL, RecipeSettings
from backend.training.training_settings import DualEncoderSettings
from backend.training_sets.denoising import CROSS_ENCODER_THRESHOLDS, Thresholds

if TYPE_CHECKING:
    from backend.core.study import Study

Device = Annotated[str | None, typer.Option(help="cpu or cuda; default a GPU if there is one.")]
Run = Annotated[str, typer.Option(help="A run over the training questions, to mine negatives from.")]
Start = Annotated[
    str,
    typer.Option("--start", "--from", help="An encoder of study.toml, a folder or a Hugging Face name, to start from."),
]


@takes_settings(RecipeSettings, only=("small", "depth", "hard_negatives", "distil", "seed"))
@takes_settings(
    DualEncoderSettings, "dual", ("batch", "mini_batch", "epochs", "steps"), {"batch": None, "steps": None, **DUAL}
)
@takes_settings(Thresholds, "thresholds", ("keep_below", "propose_above"))
def rocketqa(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A name for the recipe; its sets, models and runs begin with it.")
    ],
    run: Run,
    start: Start = "minilm",
    *,
    settings: dict[str, Any],
    dual: dict[str, Any],
    thresholds: dict[str, Any],
    device: Device = None,
    study: StudyOption = None,
) -> None:
    """RocketQA's four steps. Killed, the same command goes on where it was; under torchrun, all processes train."""
    cross = {name: dual[name] for name in ("steps",) if name in dual}
    chosen = Thresholds(**thresholds).filled(CROSS_ENCODER_THRESHOLDS)
    settings |= {"thresholds": [chosen.keep_below, chosen.propose_above], "dual": dual, "cross": cross}
    opened = open_study(study)
    made = _lead_or_follow(opened, name=name, run=run, start=start, settings=settings, device=device)
    if made is not None:
        print(f"Recipe {name}: {made.seconds:,.0f} s in all.")
        for step, why in made.skipped.items():
            print(f"Step {step} was left out: {why}.")
        for note in made.notes:
            print(f"Note: {note}.")
        _print_report(opened, made.runs)


@takes_settings(DualEncoderSettings, only=("batch", "epochs", "steps"))
def label_budget(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for the experiment.")],
    run: Run,
    start: Start = "minilm",
    split: Annotated[str, typer.Option(help="dev, test, a question set, or SET/SPLIT: what is measured on.")] = "dev",
    shares: Annotated[
        str, typer.Option(metavar="N,N,...", help="Percents of the labels to train with.")
    ] = "0,25,50,100",
    seeds: Annotated[
        str, typer.Option(metavar="N,N,...", help="A retriever is trained with each; 3 at least say something.")
    ] = "0,1,2",
    policy: Annotated[
        str, typer.Option(help="A denoising policy with labels, such as answer_match+labels.")
    ] = "labels",
    model: Annotated[
        str | None, typer.Option(help="The cross-encoder whose scores the policy uses, where it uses some.")
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Success at this rank.")] = 20,
    worth: Annotated[
        float, typer.Option(help="Percentage points that a hundred labels must gain to be worth it.")
    ] = 0.1,
    small: Annotated[
        bool, typer.Option("--small", help="Two layers, short texts, few steps: for a CPU, as proof that it runs.")
    ] = False,
    *,
    settings: dict[str, Any],
    device: Device = None,
    json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """What labels buy: retrievers trained with some, half and all of them, and whether the next hundred are worth it."""
    from app.tables import print_json
    from backend.experiments.budget_results import as_lines
    from backend.experiments.label_budget import label_budget as run_label_budget

    made = do(
        run_label_budget,
        open_study(study),
        name=name,
        run=run,
        start=start,
        split=split,
        shares=_numbers(shares, "--shares"),
        seeds=_numbers(seeds, "--seeds"),
        policy=policy,
        model=model,
        k=k,
        worth=worth,
        small=small,
        settings=settings,
        device=device,
    )
    if json:
        print_json(made)
    else:
        print("\n".join(as_lines(made)))


def _numbers(text: str, option: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise typer.BadParameter(f"{option} takes whole numbers with commas between, as in 0,50,100")
    return [int(part) for part in parts]


def _lead_or_follow(study: Study, /, **arguments: Any) -> Any:
    """Do the recipe. Of several processes the main one records the job; the others train with it."""
    from backend.recipes.rocketqa import train_rocketqa
    from backend.training.distributed import is_main_process

    return do(train_rocketqa, study, **arguments) if is_main_process() else train_rocketqa(study, **arguments)


def _print_report(study: Study, runs: list[str]) -> None:
    if not runs:
        return
    from app.console import Terminal
    from backend.recipes.stages import dev_report

    Terminal().print(dev_report(study, runs).as_rich())
