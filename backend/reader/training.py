"""Train the extractive reader (Karpukhin et al. 2020, section 6.1) on the passages that a run retrieves for training
questions.

`train` works on folders without a study; `train_reader` is the job. The model is an ordinary folder that transformers'
`DPRReader.from_pretrained` loads anywhere, with training.json and log.jsonl beside the weights. In several processes:
`torchrun --nproc-per-node 4 --no-python blindspot train reader ...`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.extras import require
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import whole_folder
from blindspot.backend.progress import Progress
from blindspot.backend.reader.examples import ReaderExample, ReaderExamples, RunExamples, run_hash
from blindspot.backend.reader.model import KIND, ReaderModel, start_folder, start_reader
from blindspot.backend.reader.settings import ReaderSettings
from blindspot.backend.training.checkpoints import (
    best_checkpoint,
    building_model,
    copy_model,
    load_checkpoint,
    new_model_folder,
    readable_training_errors,
    set_schedule,
    training_arguments,
    training_device,
    training_facts,
    training_request,
    write_training_json,
)
from blindspot.backend.training.distributed import is_main_process, wait_for_all
from blindspot.backend.training.examples import BatchSampler, NegativeSampler, Subset, batch_sampler, hold_out
from blindspot.backend.training.scoring import weights_hash
from blindspot.backend.training.training_log import working_folder, write_line

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study


@dataclass(frozen=True)
class TrainedReader:
    """A trained reader's folder, and its result on held-out questions."""

    name: str
    folder: str
    steps: int
    best_step: int
    exact_match: float | None
    held_out: int
    questions: int
    left_out: dict[str, int]
    seconds: float


@job("train reader", extras=("train",))
def train_reader(
    study: Study,
    name: str,
    run: str,
    start: str = "minilm",
    settings: dict[str, Any] | None = None,
    device: str | None = None,
    replace: bool = False,
    restart: bool = False,
    progress: Progress | None = None,
) -> TrainedReader:
    """Train a reader on a run over training questions (a job).

    Args:
        start: the initial model: a reader of the study (to continue with a small set), an encoder of study.toml, a
            folder or a Hugging Face name.
        settings: settings that differ from the defaults of `ReaderSettings`.

    Raises:
        Refused: a model of this name exists and `replace` is false; the run has no training question with a positive;
            or as in `train`.
        Missing: the run does not exist, or the initial model cannot be loaded.
    """
    target, chosen, opened = new_model_folder(study, name, replace), ReaderSettings(**(settings or {})), study.run(run)
    examples = RunExamples(study, opened, chosen.depth)
    with building_model(study, name, replace):
        return train(
            start_folder(study, start),
            examples,
            target,
            working_folder(study, name),
            chosen,
            device=device,
            restart=restart,
            progress=progress,
            description={"run": run, "run_hash": run_hash(opened)},
            left_out=examples.left_out,
        )


def train(
    start: str,
    examples: ReaderExamples,
    target: Path,
    working_folder: Path,
    settings: ReaderSettings | None = None,
    *,
    device: str | None = None,
    restart: bool = False,
    description: dict | None = None,
    left_out: dict[str, int] | None = None,
    progress: Progress | None = None,
) -> TrainedReader:
    """Train, or resume an interrupted training, and put the best reader into `target`.

    Args:
        start: see `start_reader`.
        working_folder: folder of checkpoints and log during the training; removed at the end.
        restart: discard an unfinished training in `working_folder`.
        description: further entries of training.json; other entries mean another training.

    Raises:
        Refused: invalid settings, too few questions, another unfinished training in `working_folder`, or a full disk.
        Missing: the initial model cannot be loaded, or a package for training is missing.
    """
    from transformers import TrainingArguments

    from blindspot.backend.reader.trainer import FIGURE

    require("train")
    on = training_device(device)
    settings = settings or ReaderSettings()
    settings = replace(settings, passages=settings.passages_on(on))
    arguments = training_arguments(TrainingArguments, working_folder, settings, on, FIGURE)
    arguments.greater_is_better = True
    chosen, aside = hold_out(examples, settings.held_out, settings.seed)
    training, held_out = Subset(examples, chosen), [examples[number] for number in aside]
    began = time.monotonic()
    with readable_training_errors(settings.batch):
        model = start_reader(start, settings.layers, settings.tokens, settings.seed)
        sampler = batch_sampler(len(training), settings)
        request = training_request(start, settings, examples.digest, description)
        checkpoint = load_checkpoint(working_folder, request, restart)
        dataset = NegativeSampler(training, settings.passages_on(on) - 1, settings.seed)
        shown = progress if is_main_process() else None
        _run_trainer(model, arguments, settings, dataset, sampler, held_out, checkpoint, shown)
        facts = training_facts(KIND, target.name, sampler, on, began)
        sizes: dict[str, Any] = {"held_out": len(held_out), "questions": len(training), "left_out": left_out or {}}
        result = TrainedReader(
            target.name, str(target), sampler.steps, sampler.steps, None, **sizes, seconds=facts["seconds"]
        )
        if is_main_process():
            result = save_best(working_folder, target, result, {**request, **facts, **sizes})
        wait_for_all()
    return result


def _run_trainer(
    model: ReaderModel,
    arguments: Any,
    settings: ReaderSettings,
    dataset: NegativeSampler[ReaderExample],
    sampler: BatchSampler,
    held_out: list[ReaderExample],
    checkpoint: Path | None,
    progress: Progress | None,
) -> None:
    from blindspot.backend.reader.trainer import FIGURE, SECOND, ReaderCollator, ReaderTrainer, measure, reader_of
    from blindspot.backend.training.trainer import CheckpointCallback, is_finished, run

    working, sizes = Path(arguments.output_dir), {"questions": len(held_out), "passages": settings.read}
    texts = sampler.batch * settings.passages_on(arguments.device.type), len(held_out) * settings.read
    set_schedule(arguments, settings, sampler.steps, sampler.batch, 10 if held_out else 0, *texts)
    if checkpoint is not None and is_finished(checkpoint, arguments, settings.patience):
        return
    if held_out and checkpoint is None and is_main_process():
        write_line(
            working, {"step": 0, "epoch": 0, **measure(reader_of(model, arguments), held_out, settings.read), **sizes}
        )
    trainer = ReaderTrainer(
        model=model.network,
        args=arguments,
        sampler=sampler,
        dataset=dataset,
        data_collator=ReaderCollator(model.inputs),
        held_out=held_out,
        passages_read=settings.read,
        inputs=model.inputs,
        callbacks=[CheckpointCallback(working, sampler, (FIGURE, SECOND), settings.patience, sizes, progress)],
    )
    run(trainer, checkpoint)


def save_best(
    working_folder: Path,
    target: Path,
    reader: TrainedReader,
    description: dict,
    write: Callable[[Path, Path], object] = copy_model,
) -> TrainedReader:
    """Put the best checkpoint, or the last one if none was evaluated, into `target`, and remove the working folder.

    Args:
        write: writes the model of the first folder, a checkpoint, into the second.
    """
    from blindspot.backend.reader.trainer import FIGURE

    checkpoint = best_checkpoint(working_folder, FIGURE)
    with whole_folder(target) as building:
        write(checkpoint.folder, building)
        write_training_json(building, description | checkpoint.facts(FIGURE) | {"model_hash": weights_hash(building)})
    shutil.rmtree(working_folder)
    return replace(reader, steps=checkpoint.last_step, best_step=checkpoint.step, exact_match=checkpoint.value)
