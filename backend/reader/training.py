"""Train the extractive reader (Karpukhin et al. 2020, section 6.1) on the passages that a run retrieves for training
questions.

`train` works on folders, without a study; `train_reader` is the job. The trained model is a folder that transformers'
`DPRReader.from_pretrained` can load; it also contains training.json and log.jsonl. In several processes: `torchrun
--nproc-per-node 4 --no-python blindspot train reader ...`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from blindspot.backend.core.declared import named_settings
from blindspot.backend.core.extras import require
from blindspot.backend.core.jobs import job
from blindspot.backend.core.study import Study
from blindspot.backend.judges.judge import new_model_folder
from blindspot.backend.progress import Progress
from blindspot.backend.reader.examples import ReaderExample, ReaderExamples, RunExamples, run_hash
from blindspot.backend.reader.model import KIND, ReaderModel, start_folder, start_reader
from blindspot.backend.reader.settings import ReaderSettings
from blindspot.backend.training.checkpoints import (
    TrainingFolders,
    load_checkpoint,
    lock_model,
    readable_training_errors,
    saved_model,
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
from blindspot.backend.training.training_log import write_line
from blindspot.backend.training.training_settings import TrainingOptions


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
@named_settings(TrainingOptions, "options")
def train_reader(
    study: Study,
    name: str,
    run: str,
    settings: dict[str, Any] | None = None,
    *,
    options: TrainingOptions,
    progress: Progress | None = None,
) -> TrainedReader:
    """Train a reader on a run over training questions (a job).

    Args:
        settings: settings that differ from the defaults of `ReaderSettings`.
        options: `start` may also be a reader of the study, to continue with a small set.

    Raises:
        Refused: a model of this name exists and it is not to be replaced; the run has no training question with a positive;
            or as in `train`.
        Missing: the run does not exist, or the initial model cannot be loaded.
    """
    new_model_folder(study, name, options.replace)
    chosen, opened = ReaderSettings(**(settings or {})), study.run(run)
    examples = RunExamples(study, opened, chosen.depth)
    place = TrainingFolders.in_study(study, name, options, progress, run=run, run_hash=run_hash(opened))
    with lock_model(study, name, options.replace):
        return train(start_folder(study, options.start), examples, place, chosen, examples.left_out)


def train(
    start: str,
    examples: ReaderExamples,
    folders: TrainingFolders,
    settings: ReaderSettings | None = None,
    left_out: dict[str, int] | None = None,
) -> TrainedReader:
    """Train, or resume an interrupted training, and write the best reader to `place.target`. start: see `start_reader`.

    Raises:
        Refused: invalid settings, too few questions, another unfinished training in that place, or a full disk.
        Missing: the initial model cannot be loaded, or a package for training is missing.
    """
    from transformers import TrainingArguments

    from blindspot.backend.reader.trainer import FIGURE

    require("train")
    target, working, on = folders.target, folders.working, training_device(folders.device)
    settings = settings or ReaderSettings()
    settings = replace(settings, passages=settings.passages_on(on))
    arguments = training_arguments(TrainingArguments, working, settings, on, FIGURE)
    arguments.greater_is_better = True
    chosen, aside = hold_out(examples, settings.held_out, settings.seed)
    training, held_out = Subset(examples, chosen), [examples[number] for number in aside]
    began = time.monotonic()
    with readable_training_errors(settings.batch):
        model = start_reader(start, settings.layers, settings.tokens, settings.seed)
        sampler = batch_sampler(len(training), settings)
        request = training_request(start, settings, examples.digest, folders.about)
        checkpoint = load_checkpoint(working, request, folders.restart)
        dataset = NegativeSampler(training, settings.passages_on(on) - 1, settings.seed)
        _run_trainer(model, arguments, settings, dataset, sampler, held_out, checkpoint, folders.main_process_progress)
        facts = training_facts(KIND, target.name, sampler, on, began)
        sizes: dict[str, Any] = {"held_out": len(held_out), "questions": len(training), "left_out": left_out or {}}
        result = TrainedReader(
            target.name, str(target), sampler.steps, sampler.steps, None, **sizes, seconds=facts["seconds"]
        )
        if is_main_process():
            result = _save_best(working, target, result, {**request, **facts, **sizes})
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


def _save_best(working_folder: Path, target: Path, reader: TrainedReader, description: dict) -> TrainedReader:
    """Write the best checkpoint to `target` (the last one if none was evaluated), and delete the working folder."""
    from blindspot.backend.reader.trainer import FIGURE

    with saved_model(working_folder, target, FIGURE) as (checkpoint, building):
        write_training_json(building, description | checkpoint.facts(FIGURE) | {"model_hash": weights_hash(building)})
    return replace(reader, steps=checkpoint.last_step, best_step=checkpoint.step, exact_match=checkpoint.value)
