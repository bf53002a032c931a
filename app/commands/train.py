"""`blindspot train`: dual encoders, cross-encoders, question encoders by relation, and what they are used for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from app.commands.common import AsJson, StudyOption, Trust, do, group, open_study, trust_models
from app.commands.options import takes_settings
from backend.text.counting import counted
from backend.training.training_settings import AdapterSettings, CrossEncoderSettings, DualEncoderSettings

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name for the model.")]
TrainingSet = Annotated[str, typer.Option("--on", metavar="SET", help="The training set.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; default a GPU if there is one.")]
Replace = Annotated[bool, typer.Option("--replace", help="Train a model of that name again.")]
Restart = Annotated[
    bool, typer.Option("--restart", help="Begin again, although an unfinished training of that name stands.")
]
train_app = group("Train retrievers, and the cross-encoders that clean their training sets.")


@train_app.command("dual-encoder")
@takes_settings(DualEncoderSettings)
def dual_encoder(
    name: Name,
    on: TrainingSet,
    start: Annotated[
        str, typer.Option("--from", help="An encoder of study.toml, a folder or a Hugging Face name.")
    ] = "minilm",
    *,
    settings: dict[str, Any],
    device: Device = None,
    replace: Replace = False,
    restart: Restart = False,
    trust: Trust = False,
    study: StudyOption = None,
) -> None:
    """Train a dual encoder; it becomes an encoder of study.toml. Under torchrun, all processes train one model."""
    from backend.training.dual_encoder import train_dual_encoder

    made = _train(
        train_dual_encoder,
        study,
        name=name,
        training_set=on,
        start=start,
        trust=trust,
        settings=settings,
        device=device,
        replace=replace,
        restart=restart,
    )
    if made is not None:
        rank = "" if made.average_rank is None else f", average rank {made.average_rank:.1f} of held-out positives"
        print(
            f"Trained {name}: {counted(made.steps, 'step')} in {made.seconds:,.0f} s, step {made.best_step:,} is kept{rank}."
        )
        print(f"Next: blindspot index dense --encoder {name}")


@train_app.command("adapter")
@takes_settings(AdapterSettings)
def adapter(
    name: Name,
    on: TrainingSet,
    encoder: Annotated[str, typer.Option(help="An encoder of study.toml with a dense index.")] = "minilm",
    *,
    settings: dict[str, Any],
    replace: Replace = False,
    study: StudyOption = None,
) -> None:
    """Train a map of question vectors over an encoder's index as it stands: seconds on a CPU, and nothing to index again."""
    from backend.training.adapter import train_adapter

    made = do(train_adapter, open_study(study), name, on, encoder=encoder, settings=settings, replace=replace)
    print(f"Trained {name} from {counted(made.questions, 'question')} in {made.seconds:,.0f} s.")
    if made.before is not None and made.after is not None:
        print(
            f"Success@20 on {counted(made.held_out, 'held-out training question')}: {made.before:.1%} before, {made.after:.1%} "
            f"after (scale {made.scale:g} and weight decay {made.weight_decay:g} were chosen on them)."
        )
    print(f"Next: blindspot retrieve --with dense --encoder {name} --split dev")


@train_app.command("cross-encoder")
@takes_settings(CrossEncoderSettings)
def cross_encoder(
    name: Name,
    on: TrainingSet,
    start: Annotated[str, typer.Option("--from", help="A folder or a Hugging Face name, or minilm.")] = "minilm",
    *,
    settings: dict[str, Any],
    device: Device = None,
    replace: Replace = False,
    restart: Restart = False,
    trust: Trust = False,
    study: StudyOption = None,
) -> None:
    """Train a cross-encoder on the negatives that a training set was mined for, and calibrate it on held-out questions."""
    from backend.training.cross_encoder import train_cross_encoder

    made = _train(
        train_cross_encoder,
        study,
        name=name,
        training_set=on,
        start=start,
        trust=trust,
        settings=settings,
        device=device,
        replace=replace,
        restart=restart,
    )
    if made is not None:
        print(
            f"Trained {name}: {counted(made.steps, 'step')} in {made.seconds:,.0f} s, step {made.best_step:,} is kept."
        )
        _print_calibration(made.folder)
        print(f"Next: blindspot train score {name} --run RUN")


@train_app.command("score")
def score(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A cross-encoder.")],
    run: Annotated[str, typer.Option(help="The run whose passages it judges.")],
    depth: Annotated[int, typer.Option(min=1, help="The first so many of each question.")] = 100,
    device: Device = None,
    study: StudyOption = None,
) -> None:
    """Judge a run's passages with a cross-encoder; training sets are cleaned by what it says."""
    from backend.training.scoring import score_run

    made = do(score_run, open_study(study), model=name, run=run, depth=depth, device=device)
    print(f"Scored {counted(made['scored'], 'pair')}; {made['kept']:,} are kept in all.")


@train_app.command("per-relation")
@takes_settings(DualEncoderSettings, only=("batch", "epochs", "steps", "learning_rate", "held_out", "seed"))
def per_relation(
    name: Name,
    on: TrainingSet,
    encoder: Annotated[
        str, typer.Option(help="A dual encoder with two towers and a dense index; its passages stay as they are.")
    ],
    *,
    settings: dict[str, Any],
    device: Device = None,
    replace: Replace = False,
    study: StudyOption = None,
) -> None:
    """Train a question encoder of its own for each relation, over one passage index (EntityQuestions, Table 4)."""
    from backend.training.per_relation import train_per_relation

    made = _train(
        train_per_relation,
        study,
        name=name,
        encoder=encoder,
        training_set=on,
        settings=settings,
        device=device,
        replace_old=replace,
    )
    if made is not None:
        print(f"Trained {name}: question encoders for {made['relations']} relations over the index of {encoder}.")
        print(f"Next: blindspot train route {name} --split dev")


@train_app.command("route")
def route(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Question encoders by relation.")],
    split: Annotated[
        str | None, typer.Option(help="train, dev, test, a question set, or SET/SPLIT; default all.")
    ] = None,
    k: Annotated[int, typer.Option("--k", min=1, help="Passages kept of each question.")] = 100,
    run: Annotated[str | None, typer.Option(help="The run's name; default the encoders' and the split's.")] = None,
    device: Device = None,
    study: StudyOption = None,
) -> None:
    """Make a run in which each question is encoded by its relation's encoder."""
    from backend.training.per_relation import retrieve_per_relation

    made = do(retrieve_per_relation, open_study(study), name=name, split=split, k=k, run=run, device=device)
    print(
        f"Run {made.name}: {made.manifest['routed']:,} of {counted(len(made.question_ids), 'question')} went to an encoder of their relation."
    )


@train_app.command("log")
def log(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A model, trained or in training.")],
    as_json: AsJson = False,
    study: StudyOption = None,
) -> None:
    """The loss, comparisons and speed of a training, as far as it has come."""
    from app.tables import print_json
    from backend.training.training_log import read_log

    lines = read_log(open_study(study), name)
    if as_json:
        print_json(lines)
        return
    if not lines:
        print(f"There is no log of a model {name!r}.")
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


def _train(function: Callable[..., Any], folder: str | None, /, trust: bool = False, **arguments: Any) -> Any:
    """Do a training job. Of several processes the main one records the job; the others train with it and return None."""
    from backend.training.distributed import is_main_process

    study = open_study(folder)
    if trust:
        trust_models(study, arguments["start"])
    if is_main_process():
        return do(function, study, **arguments)
    function(study, **arguments)
    return None


def _print_calibration(folder: str) -> None:
    from pathlib import Path

    from backend.core.manifest import read_json
    from backend.training_sets.denoising import KEEP_BELOW, PROPOSE_ABOVE

    path = Path(folder) / "calibration.json"
    if not path.is_file():
        print("It could not be calibrated: the held-out pairs are of one kind.")
        return
    report = read_json(path)
    print(
        f"Calibrated ({report['method']}) on {counted(report['pairs'], 'pair')}, {report['positives']:,} of them positive: {report['of']}."
    )
    for row in report["thresholds"]:
        if row["threshold"] in (KEEP_BELOW, PROPOSE_ABOVE):
            parts = (
                f"{key} {100 * share['value']:.0f}% ({100 * share['low']:.0f} to {100 * share['high']:.0f}, n = {share['n']:,})"
                for key, share in row.items()
                if key != "threshold" and share["n"]
            )
            print(f"At {row['threshold']}: {'; '.join(parts)}")
