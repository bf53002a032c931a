"""`blindspot train rocketqa`: one long job of several stages. Each finished stage is saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from blindspot.app.commands.common import StudyOption, open_study
from blindspot.app.commands.options import takes_settings
from blindspot.app.commands.train import Device, run_training, train_app
from blindspot.backend.recipes.settings import DUAL, RecipeSettings
from blindspot.backend.training.training_settings import DualEncoderSettings
from blindspot.backend.training_sets.denoising import CROSS_ENCODER_THRESHOLDS, Thresholds

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

Run = Annotated[str, typer.Option(help="Run over the training questions to mine negatives from.")]
Start = Annotated[
    str,
    typer.Option("--start", "--from", help="Initial model: an encoder of study.toml, a folder or a Hugging Face name."),
]


@train_app.command("rocketqa")
@takes_settings(RecipeSettings, names=("small", "depth", "hard_negatives", "distil", "seed"))
@takes_settings(
    DualEncoderSettings, "dual", ("batch", "mini_batch", "epochs", "steps"), {"batch": None, "steps": None, **DUAL}
)
@takes_settings(Thresholds, "thresholds", ("keep_below", "propose_above"))
def rocketqa(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Name for the recipe; its training sets, models and runs get names that begin with it."
        ),
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
    """Run RocketQA's four steps. After an interruption the same command resumes. Under torchrun, all processes
    train.
    """
    from blindspot.backend.recipes.rocketqa import train_rocketqa

    cross = {name: dual[name] for name in ("steps",) if name in dual}
    chosen = Thresholds(**thresholds).filled(CROSS_ENCODER_THRESHOLDS)
    settings |= {"thresholds": [chosen.keep_below, chosen.propose_above], "dual": dual, "cross": cross}
    result = run_training(
        train_rocketqa, study, False, name=name, run=run, start=start, settings=settings, device=device
    )
    if result is not None:
        print(f"Recipe {name}: {result.seconds:,.0f} s in all.")
        for step, why in result.skipped.items():
            print(f"Step {step} was skipped: {why}.")
        for note in result.notes:
            print(f"Note: {note}.")
        _print_report(open_study(study), result.runs)


def _print_report(study: Study, runs: list[str]) -> None:
    if not runs:
        return
    from blindspot.app.console import Terminal
    from blindspot.backend.recipes.rocketqa import dev_report

    Terminal().print(dev_report(study, runs).as_rich())
