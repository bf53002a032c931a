"""`blindspot train rocketqa` and `blindspot experiment label-budget`: long jobs of several stages. Each finished stage
is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from blindspot.app.commands.common import AsJson, StudyOption, do, open_study
from blindspot.app.commands.options import takes_settings
from blindspot.backend.experiments.settings import LabelBudgetSettings
from blindspot.backend.recipes.settings import DUAL, RecipeSettings
from blindspot.backend.training.training_settings import DualEncoderSettings
from blindspot.backend.training_sets.denoising import CROSS_ENCODER_THRESHOLDS, Thresholds

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

Device = Annotated[str | None, typer.Option(help="Device: cpu or cuda (default: a GPU if there is one).")]
Run = Annotated[str, typer.Option(help="Run over the training questions to mine negatives from.")]
Start = Annotated[
    str,
    typer.Option("--start", "--from", help="Initial model: an encoder of study.toml, a folder or a Hugging Face name."),
]


@takes_settings(RecipeSettings, only=("small", "depth", "hard_negatives", "distil", "seed"))
@takes_settings(
    DualEncoderSettings, "dual", ("batch", "mini_batch", "epochs", "steps"), {"batch": None, "steps": None, **DUAL}
)
@takes_settings(Thresholds, "thresholds", ("keep_below", "propose_above"))
def rocketqa(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Name for the recipe; the names of its training sets, models and runs begin with it."
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
    cross = {name: dual[name] for name in ("steps",) if name in dual}
    chosen = Thresholds(**thresholds).filled(CROSS_ENCODER_THRESHOLDS)
    settings |= {"thresholds": [chosen.keep_below, chosen.propose_above], "dual": dual, "cross": cross}
    opened = open_study(study)
    result = _lead_or_follow(opened, name=name, run=run, start=start, settings=settings, device=device)
    if result is not None:
        print(f"Recipe {name}: {result.seconds:,.0f} s in all.")
        for step, why in result.skipped.items():
            print(f"Step {step} was skipped: {why}.")
        for note in result.notes:
            print(f"Note: {note}.")
        _print_report(opened, result.runs)


@takes_settings(LabelBudgetSettings, "asked")
@takes_settings(DualEncoderSettings, only=("batch", "epochs", "steps"))
def label_budget(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name for the experiment.")],
    run: Run,
    *,
    asked: dict[str, Any],
    settings: dict[str, Any],
    device: Device = None,
    json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """Measure what labels gain: train retrievers with increasing shares of the labels, and estimate whether a hundred
    more are worth it.
    """
    from blindspot.app.tables import print_json
    from blindspot.backend.experiments.budget_results import as_lines
    from blindspot.backend.experiments.label_budget import label_budget as run_label_budget

    result = do(run_label_budget, open_study(study), name=name, run=run, **asked, settings=settings, device=device)
    if json:
        print_json(result)
    else:
        print("\n".join(as_lines(result)))


def _lead_or_follow(study: Study, /, **arguments: Any) -> Any:
    """Run the recipe. The main process records the job; the other processes only take part in the training."""
    from blindspot.backend.recipes.rocketqa import train_rocketqa
    from blindspot.backend.training.distributed import is_main_process

    return do(train_rocketqa, study, **arguments) if is_main_process() else train_rocketqa(study, **arguments)


def _print_report(study: Study, runs: list[str]) -> None:
    if not runs:
        return
    from blindspot.app.console import Terminal
    from blindspot.backend.recipes.stages import dev_report

    Terminal().print(dev_report(study, runs).as_rich())
