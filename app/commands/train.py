"""`blindspot train`: dual encoders, cross-encoders, question encoders by relation, and what they are used for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from app.commands.common import AsJson, StudyOption, do, group, open_study

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name for the model.")]
TrainingSet = Annotated[str, typer.Option("--on", metavar="SET", help="The training set.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; default a GPU if there is one.")]
Replace = Annotated[bool, typer.Option("--replace", help="Train a model of that name again.")]
Restart = Annotated[
    bool, typer.Option("--restart", help="Begin again, although an unfinished training of that name stands.")
]
Layers = Annotated[int | None, typer.Option(help="Only the first so many layers of the start model; default all.")]
Batch = Annotated[
    int | None, typer.Option(help="Questions in a batch, in each process; default 32, of a cross-encoder 16.")
]
MiniBatch = Annotated[
    int | None, typer.Option(help="Texts encoded at a time: gradient caching, for batches larger than the memory.")
]
Epochs = Annotated[float | None, typer.Option(help="Passes over the questions; default 10, of a cross-encoder 2.")]
Steps = Annotated[int | None, typer.Option(help="Batches, in the place of epochs.")]
Rate = Annotated[float | None, typer.Option(help="Highest learning rate; default 2e-5, of a cross-encoder 1e-5.")]
Warmup = Annotated[float | None, typer.Option(help="Share of the steps in which the learning rate rises; default 0.1.")]
Decay = Annotated[
    bool | None, typer.Option("--decay/--no-decay", help="Let the learning rate fall to 0 after that; default yes.")
]
HeldOut = Annotated[
    int | None, typer.Option(help="Questions held out to compare checkpoints by; default 200, at most a fifth.")
]
Every = Annotated[
    int | None,
    typer.Option(help="Steps between comparisons, each a checkpoint; at most ten in all, a cross-encoder three."),
]
Patience = Annotated[
    int | None, typer.Option(help="Stop after so many comparisons without a better one; default 0, never.")
]
Seed = Annotated[int | None, typer.Option(help="Of the order, what is drawn and dropout; default 0.")]
Precision = Annotated[
    str | None, typer.Option(metavar="auto|float32|bfloat16", help="Default auto: bfloat16 on a GPU that has it.")
]

train_app = group("Train retrievers, and the cross-encoders that clean their training sets.")


@train_app.command("dual-encoder")
def dual_encoder(
    name: Name,
    on: TrainingSet,
    start: Annotated[str, typer.Option("--from", help="An encoder of study.toml, a folder or a Hugging Face name.")] = "minilm",
    towers: Annotated[str | None, typer.Option(metavar="two|shared", help="Default two: one for questions, one for passages.")] = None,
    pooling: Annotated[str | None, typer.Option(metavar="cls|mean", help="Default the start model's own.")] = None,
    layers: Layers = None,
    normalise: Annotated[bool | None, typer.Option("--normalise/--no-normalise", help="Unit vectors; default as the start model.")] = None,
    similarity: Annotated[str | None, typer.Option(metavar="dot|cosine|l2", help="Default dot.")] = None,
    loss: Annotated[str | None, typer.Option(metavar="softmax|triplet", help="Default softmax.")] = None,
    scale: Annotated[float | None, typer.Option(help="Of scores in the softmax; default 1, or 20 for cosines.")] = None,
    margin: Annotated[float | None, typer.Option(help="Of the triplet loss; default 1.")] = None,
    hard_negatives: Annotated[int | None, typer.Option(help="Of each question in a batch; default 1.")] = None,
    distil: Annotated[str | None, typer.Option(metavar="MODEL", help="Learn from this cross-encoder's scores as well.")] = None,
    distil_weight: Annotated[float | None, typer.Option(help="Of what it teaches, beside the loss; default 1.")] = None,
    only: Annotated[str | None, typer.Option(metavar="question|passage", help="Train this tower alone.")] = None,
    question_tokens: Annotated[int | None, typer.Option(help="Longer questions are cut; default 64.")] = None,
    passage_tokens: Annotated[int | None, typer.Option(help="Longer passages are cut; default 256.")] = None,
    pool: Annotated[int | None, typer.Option(help="Passages that held-out positives are ranked among; default 1000.")] = None,
    batch: Batch = None, mini_batch: MiniBatch = None, epochs: Epochs = None, steps: Steps = None, learning_rate: Rate = None,
    warmup: Warmup = None, decay: Decay = None, held_out: HeldOut = None, evaluate_every: Every = None, patience: Patience = None,
    seed: Seed = None, precision: Precision = None, device: Device = None, replace: Replace = False, restart: Restart = False,
    study: StudyOption = None,
) -> None:  # fmt: skip
    """Train a dual encoder; it becomes an encoder of study.toml. Under torchrun, all processes train one model."""
    settings = _given(
        towers=towers,
        pooling=pooling,
        layers=layers,
        normalise=normalise,
        similarity=similarity,
        loss=loss,
        scale=scale,
        margin=margin,
        hard_negatives=hard_negatives,
        distil=distil,
        distil_weight=distil_weight,
        only=only,
        question_tokens=question_tokens,
        passage_tokens=passage_tokens,
        pool=pool,
        batch=batch,
        mini_batch=mini_batch,
        epochs=epochs,
        steps=steps,
        learning_rate=learning_rate,
        warmup=warmup,
        decay=decay,
        held_out=held_out,
        evaluate_every=evaluate_every,
        patience=patience,
        seed=seed,
        precision=precision,
    )
    from backend.training.dual_encoder import train_dual_encoder

    made = _train(
        train_dual_encoder,
        study,
        name=name,
        training_set=on,
        start=start,
        settings=settings,
        device=device,
        replace=replace,
        restart=restart,
    )
    if made is not None:
        rank = "" if made.average_rank is None else f", average rank {made.average_rank:.1f} of held-out positives"
        print(f"Trained {name}: {made.steps:,} steps in {made.seconds:,.0f} s, step {made.best_step:,} is kept{rank}.")
        print(f"Next: blindspot index dense --encoder {name}")


@train_app.command("cross-encoder")
def cross_encoder(
    name: Name,
    on: TrainingSet,
    start: Annotated[str, typer.Option("--from", help="A folder or a Hugging Face name, or minilm.")] = "minilm",
    layers: Layers = None,
    tokens: Annotated[int | None, typer.Option(help="Of question and passage together; default 160.")] = None,
    negatives: Annotated[int | None, typer.Option(help="For each positive, drawn from the mined ones; default 4.")] = None,
    calibration: Annotated[str | None, typer.Option(metavar="auto|platt|isotonic", help="Default auto: isotonic from 1,000 pairs.")] = None,
    batch: Batch = None, epochs: Epochs = None, steps: Steps = None, learning_rate: Rate = None, warmup: Warmup = None,
    decay: Decay = None, held_out: HeldOut = None, evaluate_every: Every = None, patience: Patience = None, seed: Seed = None,
    precision: Precision = None, device: Device = None, replace: Replace = False, restart: Restart = False, study: StudyOption = None,
) -> None:  # fmt: skip
    """Train a cross-encoder on the negatives that a training set was mined for, and calibrate it on held-out questions."""
    settings = _given(
        layers=layers,
        tokens=tokens,
        negatives=negatives,
        calibration=calibration,
        batch=batch,
        epochs=epochs,
        steps=steps,
        learning_rate=learning_rate,
        warmup=warmup,
        decay=decay,
        held_out=held_out,
        evaluate_every=evaluate_every,
        patience=patience,
        seed=seed,
        precision=precision,
    )
    from backend.training.cross_encoder import train_cross_encoder

    made = _train(
        train_cross_encoder,
        study,
        name=name,
        training_set=on,
        start=start,
        settings=settings,
        device=device,
        replace=replace,
        restart=restart,
    )
    if made is not None:
        print(f"Trained {name}: {made.steps:,} steps in {made.seconds:,.0f} s, step {made.best_step:,} is kept.")
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
    print(f"Scored {made['scored']:,} pairs; {made['kept']:,} are kept in all.")


@train_app.command("per-relation")
def per_relation(
    name: Name,
    on: TrainingSet,
    encoder: Annotated[str, typer.Option(help="A dual encoder with two towers and a dense index; its passages stay as they are.")],
    batch: Batch = None, epochs: Epochs = None, steps: Steps = None, learning_rate: Rate = None, held_out: HeldOut = None,
    seed: Seed = None, device: Device = None, replace: Replace = False, study: StudyOption = None,
) -> None:  # fmt: skip
    """Train a question encoder of its own for each relation, over one passage index (EntityQuestions, Table 4)."""
    settings = _given(
        batch=batch, epochs=epochs, steps=steps, learning_rate=learning_rate, held_out=held_out, seed=seed
    )
    from backend.training.specialised import train_specialised

    made = _train(
        train_specialised,
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
    from backend.training.specialised import retrieve_specialised

    made = do(retrieve_specialised, open_study(study), name=name, split=split, k=k, run=run, device=device)
    print(
        f"Run {made.name}: {made.manifest['routed']:,} of {len(made.question_ids):,} questions went to an encoder of their relation."
    )


@train_app.command("log")
def log(name: Annotated[str, typer.Argument(metavar="NAME", help="A model, trained or in training.")], as_json: AsJson = False,
        study: StudyOption = None) -> None:  # fmt: skip
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


def _given(**settings: Any) -> dict[str, Any]:
    """What was said; the rest keeps its default."""
    return {key: value for key, value in settings.items() if value is not None}


def _train(function: Callable[..., Any], folder: str | None, /, **arguments: Any) -> Any:
    """Do a training job. Of several processes the main one records the job; the others train with it and return None."""
    from backend.training.distributed import leads

    study = open_study(folder)
    if leads():
        return do(function, study, **arguments)
    function(study, **arguments)
    return None


def _print_calibration(folder: str) -> None:
    from pathlib import Path

    from backend.core.manifest import read_json

    path = Path(folder) / "calibration.json"
    if not path.is_file():
        print("It could not be calibrated: the held-out pairs are of one kind.")
        return
    report = read_json(path)
    print(
        f"Calibrated ({report['method']}) on {report['pairs']:,} pairs, {report['positives']:,} of them positive: {report['of']}."
    )
    for row in report["thresholds"]:
        if row["threshold"] in (0.1, 0.9):
            parts = (
                f"{key} {100 * share['value']:.0f}% ({100 * share['low']:.0f} to {100 * share['high']:.0f}, n = {share['n']:,})"
                for key, share in row.items()
                if key != "threshold" and share["n"]
            )
            print(f"At {row['threshold']}: {'; '.join(parts)}")
