"""`blindspot train`: train dual encoders, adapters and cross-encoders, score passages with them, and RocketQA's recipe."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from blindspot.app.commands.common import AsJson, StudyOption, Trust, do, group, open_study, print_json, trust_models
from blindspot.app.commands.options import takes_settings
from blindspot.backend.recipes.settings import DUAL, RecipeSettings
from blindspot.backend.text.number_words import quantity
from blindspot.backend.training.training_settings import (
    AdapterSettings,
    CrossEncoderSettings,
    DualEncoderSettings,
    TrainingOptions,
)
from blindspot.backend.training_sets.denoising import CROSS_ENCODER_THRESHOLDS, Thresholds

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name for the model.")]
TrainingSet = Annotated[str, typer.Option("--on", metavar="SET", help="Training set.")]
OnSet = Annotated[
    str | None, typer.Option("--on", metavar="SET", help="Training set; without one, a judge teaches (--distil).")
]
OfRun = Annotated[
    str | None,
    typer.Option(
        "--run",
        help="Run whose training questions the judge of --distil teaches; gold is not needed. Default: the one that the "
        "judge learned from.",
    ),
]
Device = Annotated[str | None, typer.Option(help="Device: cpu or cuda (default: a GPU if there is one).")]
Replace = Annotated[bool, typer.Option("--replace", help="Replace the model of this name if it exists.")]
TrainRun = Annotated[str, typer.Option(help="Run over the training questions to mine negatives from.")]
Start = Annotated[
    str,
    typer.Option("--start", "--from", help="Initial model: an encoder of study.toml, a folder or a Hugging Face name."),
]
train_app = group("Train retrievers, and the cross-encoders that clean their training sets.")


@train_app.command("dual-encoder")
@takes_settings(DualEncoderSettings)
@takes_settings(TrainingOptions, "options")
def dual_encoder(
    name: Name,
    on: OnSet = None,
    run: OfRun = None,
    *,
    settings: dict[str, Any],
    options: dict[str, Any],
    trust: Trust = False,
    study: StudyOption = None,
) -> None:
    """Train a dual encoder and add it to study.toml. Under torchrun, all processes train one model."""
    from blindspot.backend.training.dual_encoder import train_dual_encoder

    result = run_training(
        train_dual_encoder, study, trust, name=name, training_set=on, run=run, settings=settings, **options
    )
    if result is not None:
        rank = "" if result.average_rank is None else f", average rank {result.average_rank:.1f} of held-out positives"
        print(
            f"Trained {name}: {quantity(result.steps, 'step')} in {result.seconds:,.0f} s, kept step "
            f"{result.best_step:,}{rank}."
        )
        if result.passages_from_index:
            print(
                f"The passage vectors are unchanged. Next: blindspot retrieve --with dense --encoder {name} --split dev"
            )
        else:
            print(f"Next: blindspot index dense --encoder {name}")


@train_app.command("adapter")
@takes_settings(AdapterSettings)
def adapter(
    name: Name,
    on: OnSet = None,
    run: OfRun = None,
    encoder: Annotated[str, typer.Option(help="Encoder of study.toml with a dense index.")] = "minilm",
    *,
    settings: dict[str, Any],
    replace: Replace = False,
    study: StudyOption = None,
) -> None:
    """Train an adapter of question vectors over an encoder's existing index. Takes seconds on a CPU; nothing is indexed
    again.
    """
    from blindspot.backend.training.adapter import train_adapter

    result = do(
        train_adapter, open_study(study), name, on, encoder=encoder, settings=settings, replace=replace, run=run
    )
    print(f"Trained {name} from {quantity(result.questions, 'question')} in {result.seconds:,.0f} s.")
    if result.before is not None and result.after is not None:
        print(
            f"Success@20 on {quantity(result.held_out, 'held-out training question')}: {result.before:.1%} before, "
            f"{result.after:.1%} after (the same questions chose scale {result.scale:g}, weight decay "
            f"{result.weight_decay:g} and {result.steps:,} steps)."
        )
    print(f"Next: blindspot retrieve --with dense --encoder {name} --split dev")


@train_app.command("cross-encoder")
@takes_settings(CrossEncoderSettings)
@takes_settings(TrainingOptions, "options")
def cross_encoder(
    name: Name,
    on: TrainingSet,
    *,
    settings: dict[str, Any],
    options: dict[str, Any],
    trust: Trust = False,
    study: StudyOption = None,
) -> None:
    """Train a cross-encoder on the negatives of a training set, and calibrate it on held-out questions."""
    from blindspot.backend.training.cross_encoder import train_cross_encoder

    result = run_training(train_cross_encoder, study, trust, name=name, training_set=on, settings=settings, **options)
    if result is not None:
        print(
            f"Trained {name}: {quantity(result.steps, 'step')} in {result.seconds:,.0f} s, kept step "
            f"{result.best_step:,}."
        )
        _print_calibration(result.folder)
        print(f"Next: blindspot train score {name} --run RUN")


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
    run: TrainRun,
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


@train_app.command("score")
def score(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Cross-encoder to score with.")],
    run: Annotated[str, typer.Option(help="Run whose passages are scored.")],
    depth: Annotated[int, typer.Option(min=1, help="Number of top passages of each question.")] = 100,
    device: Device = None,
    study: StudyOption = None,
) -> None:
    """Score a run's passages with a cross-encoder. Denoising policies of training sets use these scores."""
    from blindspot.backend.training.scoring import score_run

    result = do(score_run, open_study(study), model=name, run=run, depth=depth, device=device)
    print(f"Scored {quantity(result['scored'], 'pair')}; {result['kept']:,} are stored in total.")


@train_app.command("log")
def log(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Model, trained or in training.")],
    as_json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """Print the loss, validation and speed of a training so far."""
    from blindspot.backend.training.training_log import read_log

    lines = read_log(open_study(study), name)
    if as_json:
        print_json(lines)
        return
    if not lines:
        print(f"No training log of model {name!r}.")
    for line in lines:
        step = f"step {line['step']:,} (epoch {line['epoch']:.2f})"
        if "loss" in line:
            print(f"{step}: loss {line['loss']:.4f}, {line['examples_per_second']:,.1f} questions/s")
        else:
            print(
                f"{step}: "
                + ", ".join(
                    f"{key.replace('_', ' ')} {value:,.3f}"
                    for key, value in line.items()
                    if isinstance(value, float) and key != "epoch"
                )
            )


def run_training(function: Callable[..., Any], folder: str | None, /, trust: bool, **arguments: Any) -> Any:
    """Run a training job. Only the main process records the job; the other processes take part in the training and
    return None.
    """
    from blindspot.backend.training.distributed import is_main_process

    study = open_study(folder)
    if trust:
        trust_models(study, arguments.get("start"))
    if is_main_process():
        return do(function, study, **arguments)
    function(study, **arguments)
    return None


def _print_calibration(folder: str) -> None:
    from pathlib import Path

    from blindspot.backend.core.manifest import read_json
    from blindspot.backend.training_sets.denoising import KEEP_BELOW, PROPOSE_ABOVE

    path = Path(folder) / "calibration.json"
    if not path.is_file():
        print("Not calibrated: the held-out pairs are all positive or all negative.")
        return
    report = read_json(path)
    print(
        f"Calibrated ({report['method']}) on {quantity(report['pairs'], 'pair')}, {report['positives']:,} of them "
        f"positive: {report['of']}."
    )
    for row in report["thresholds"]:
        if row["threshold"] in (KEEP_BELOW, PROPOSE_ABOVE):
            parts = (
                f"{key} {100 * share['value']:.0f}% ({100 * share['low']:.0f} to {100 * share['high']:.0f}, n = "
                f"{share['n']:,})"
                for key, share in row.items()
                if key != "threshold" and share["n"]
            )
            print(f"At {row['threshold']}: {'; '.join(parts)}")


def _print_report(study: Study, runs: list[str]) -> None:
    if not runs:
        return
    from blindspot.app.console import Terminal
    from blindspot.backend.recipes.rocketqa import dev_report

    Terminal().print(dev_report(study, runs).as_rich())
