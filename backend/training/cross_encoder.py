"""Train a cross-encoder on a retriever's results (RocketQA, Qu et al. 2021, step 2) and calibrate it on held-out
labels.

A cross-encoder reads question and passage together (as what text: `TEMPLATE` in scoring.py). It is used to denoise training sets by dropping mined passages with
high scores. The trained model is an ordinary folder that `CrossEncoder(...)` can load, with the additional files
training.json, log.jsonl and calibration.json.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.core.declared import named_settings
from blindspot.backend.core.extras import require
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import write_json
from blindspot.backend.core.model_files import open_model, readable_model
from blindspot.backend.judges.judge import new_model_folder
from blindspot.backend.progress import Progress
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
from blindspot.backend.training.distributed import is_main_process, wait_for_all, world_size
from blindspot.backend.training.examples import (
    BatchSampler,
    Example,
    NegativeSampler,
    Subset,
    TrainingExamples,
    batch_sampler,
    examples_digest,
    hold_out,
    with_positives,
)
from blindspot.backend.training.scoring import CALIBRATION, TEMPLATE, LabelledPair, calibrate, logits, weights_hash
from blindspot.backend.training.training_settings import CrossEncoderSettings, TrainingOptions
from blindspot.db.errors import Refused
from blindspot.db.events import SETTLED

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

    from blindspot.backend.core.study import Study
    from blindspot.backend.training_sets.training_set import TrainingSet

FIGURE = "mean_average_precision"
FIGURES = (FIGURE, "average_precision", "held_out_loss")
LABELS_ENOUGH = 20  # of each kind; with fewer labels, the held-out pairs of the training set calibrate instead


@dataclass(frozen=True)
class TrainedCrossEncoder:
    """A trained cross-encoder's folder, and its result on held-out pairs."""

    name: str
    folder: str
    steps: int
    best_step: int
    mean_average_precision: float | None
    calibration: str | None
    seconds: float


@job("train cross-encoder", extras=("train",))
@named_settings(TrainingOptions, "options")
def train_cross_encoder(
    study: Study,
    name: str,
    training_set: str,
    settings: dict[str, Any] | None = None,
    *,
    options: TrainingOptions,
    progress: Progress | None = None,
) -> TrainedCrossEncoder:
    """Train a cross-encoder on a training set, including its easy negatives (a job).

    Held-out questions are used to compare checkpoints and to calibrate. Only their retrieved passages are used, because
    the model will score retrieved passages.

    Args:
        settings: the settings that differ from the defaults of `CrossEncoderSettings`.
    """
    from blindspot.backend.training.examples import TrainingSetExamples
    from blindspot.backend.training_sets.training_set import TrainingSet

    new_model_folder(study, name, options.replace)
    opened = TrainingSet.open(study, training_set)
    mined = TrainingSetExamples(study, opened)
    places = {id: number for number, id in enumerate(mined.ids)}

    def labels(held_out: Sequence[Example]) -> list[LabelledPair]:
        """Return people's labels of held-out pairs."""
        passages = {
            (example.id, passage.id): (example, passage)
            for example in held_out
            for passage in (*example.positives, *example.negatives)
        }
        judged = (
            pair
            for _, pairs in opened.groups([example.id for example in held_out])
            for pair in pairs
            if pair.label in SETTLED and (pair.question, pair.passage) in passages
        )
        return [
            LabelledPair(example.id, example.question, passage, pair.label == "positive")
            for pair in judged
            for example, passage in (passages[pair.question, pair.passage],)
        ]

    asked = {"training_set": training_set, "fingerprint": opened.manifest["fingerprint"]}
    with lock_model(study, name, options.replace):
        return train(
            options.start,
            TrainingSetExamples(study, opened, hard=False),
            TrainingFolders.in_study(study, name, options, progress, **asked),
            CrossEncoderSettings(**(settings or {})),
            labels=labels,
            keep_retrieved=lambda one: _example_as_retrieved(mined[places[one.id]], opened),
        )


def train(
    start: str,
    examples: TrainingExamples,
    folders: TrainingFolders,
    settings: CrossEncoderSettings | None = None,
    *,
    labels: Callable[[Sequence[Example]], list[LabelledPair]] | None = None,
    keep_retrieved: Callable[[Example], Example] | None = None,
) -> TrainedCrossEncoder:
    """Train, or resume an interrupted training, and write the best model with its calibration to `place.target`.

    Args:
        labels: returns people's labels of held-out questions; if there are enough, only they calibrate.
        keep_retrieved: returns a held-out example with retrieved passages only; None if it has no others. If no positive of
            any held-out question was retrieved, all their positives count.

    Raises:
        Refused: pairs of one class only, settings that cannot learn, another unfinished training in that place, a
            full disk.
        Missing: the start model cannot be loaded.
    """
    from sentence_transformers.cross_encoder import CrossEncoderTrainingArguments

    require("train")
    settings = settings or CrossEncoderSettings()
    target, working, on = folders.target, folders.working, training_device(folders.device)
    arguments = training_arguments(CrossEncoderTrainingArguments, working, settings, on, FIGURE, greater_is_better=True)
    every = _with_hard_negatives(with_positives(examples))
    chosen, held_out = hold_out(every, settings.held_out, settings.seed)
    training = Subset(every, chosen)
    aside = _retrieved_lists([every[number] for number in held_out], keep_retrieved)
    pairs = held_out_pairs(aside, settings.pairs, settings.seed)
    began = time.monotonic()
    with readable_training_errors(settings.batch):
        model, sampler = _initial_model(start, settings, on), batch_sampler(len(training), settings)
        request = training_request(start, settings, examples_digest(every), folders.about)
        checkpoint = load_checkpoint(working, request, folders.restart)
        dataset = NegativeSampler(training, settings.negatives, settings.seed)
        _run_trainer(model, arguments, settings, dataset, sampler, pairs, checkpoint, folders.main_process_progress)
        facts = training_facts("cross-encoder", target.name, sampler, on, began)
        steps = sampler.steps
        result = TrainedCrossEncoder(target.name, str(target), steps, steps, None, None, facts["seconds"])
        if is_main_process():
            lists = whole_lists(aside, settings.calibration_pairs, settings.seed)
            sizes = {"questions": len(training), "held_out": len(aside)}
            judged = labels(aside) if labels else []
            result = _save_best(working, target, settings, lists, judged, on, {**request, **facts, **sizes})
        wait_for_all()
    return result


def _example_as_retrieved(example: Example, training_set: TrainingSet) -> Example:
    """Keep the mined negatives of a held-out example, and the positives that a run retrieved."""
    ranked = {pair.passage for _, pairs in training_set.groups([example.id]) for pair in pairs if pair.rank is not None}
    return replace(example, positives=tuple(passage for passage in example.positives if passage.id in ranked))


def _retrieved_lists(examples: list[Example], keep_retrieved: Callable[[Example], Example] | None) -> list[Example]:
    """Return the held-out examples restricted to retrieved passages. If no positive of any example was retrieved, all
    positives are kept.
    """
    if keep_retrieved is None:
        return examples
    lists = [keep_retrieved(example) for example in examples]
    if any(example.positives for example in lists):
        return lists
    return [replace(example, positives=own.positives) for example, own in zip(lists, examples, strict=True)]


def whole_lists(examples: Sequence[Example], maximum: int, seed: int = 0) -> list[LabelledPair]:
    """Return all positives and negatives of as many questions as fit into `maximum` pairs, but of at least one
    question.

    These pairs have the same share of positives as the lists that the model will score, so probabilities calibrated on
    them are valid for such lists. Passages of unknown relevance are not in the examples.
    """
    pairs: list[LabelledPair] = []
    for example in random.Random(f"{seed} lists").sample(list(examples), len(examples)):
        own = [
            LabelledPair(example.id, example.question, passage, positive)
            for passages, positive in ((example.positives, True), (example.hard_negatives(), False))
            for passage in passages
        ]
        if pairs and len(pairs) + len(own) > maximum:
            break
        pairs += own
    return pairs


def held_out_pairs(examples: Sequence[Example], maximum: int, seed: int = 0) -> list[LabelledPair]:
    """Return the pairs by which checkpoints are compared: all positives of each question and random negatives, about
    `maximum` pairs in total, but at least one negative per question.
    """
    pairs: list[LabelledPair] = []
    for example in examples:
        negatives = example.hard_negatives()
        n_wanted = min(len(negatives), max(1, maximum // len(examples) - len(example.positives)))
        drawn = random.Random(f"{seed} pairs {example.id}").sample(negatives, n_wanted)
        pairs += [
            LabelledPair(example.id, example.question, passage, passage not in drawn)
            for passage in (*example.positives, *drawn)
        ]
    return pairs


def _with_hard_negatives(examples: Subset) -> Subset:
    """Return the examples that have a hard negative. Raises Refused if there are none."""
    numbers = [number for number in examples.numbers if examples.examples[number].hard_negatives()]
    if len(numbers) < world_size() or not numbers:
        raise Refused(
            f"none of the {len(examples):,} questions has a hard negative: a cross-encoder learns from both kinds; "
            "build the training set with a run to mine from"
        )
    return Subset(examples.examples, numbers)


def _initial_model(start: str, settings: CrossEncoderSettings, device: str) -> CrossEncoder:
    import torch
    from sentence_transformers import CrossEncoder

    from blindspot.backend.training.initial_model import keep_layers

    torch.manual_seed(settings.seed)  # seeds the new scoring layer
    folder = open_model(start)
    with readable_model(folder.path):
        model = CrossEncoder(
            folder.path, num_labels=1, max_length=settings.tokens, device=device, **folder.sentence_transformers
        )
    if settings.layers is not None:
        keep_layers(model.model.base_model, settings.layers)
        model.model.config.num_hidden_layers = settings.layers
    return model.float()


def _run_trainer(
    model: CrossEncoder,
    arguments: Any,
    settings: CrossEncoderSettings,
    dataset: NegativeSampler,
    sampler: BatchSampler,
    pairs: list[LabelledPair],
    checkpoint: Path | None,
    progress: Progress | None,
) -> None:
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

    from blindspot.backend.training.evaluators import PairEvaluator, comparable_questions
    from blindspot.backend.training.trainer import CheckpointCallback, PairCollator, PairTrainer, is_finished, run

    both = bool(comparable_questions(pairs))
    set_schedule(
        arguments,
        settings,
        sampler.steps,
        sampler.batch,
        3 if both else 0,
        sampler.batch * (1 + settings.negatives),
        len(pairs),
    )
    if checkpoint is not None and is_finished(checkpoint, arguments, settings.patience):
        return
    sizes = {"pairs": len(pairs), "positives": sum(pair.positive for pair in pairs)}
    trainer = PairTrainer(
        model=model,
        args=arguments,
        sampler=sampler,
        dataset=dataset,
        loss=BinaryCrossEntropyLoss(model),
        data_collator=PairCollator(TEMPLATE),
        evaluator=PairEvaluator(pairs, logits, settings.batch) if both else None,
        callbacks=[
            CheckpointCallback(Path(arguments.output_dir), sampler, FIGURES, settings.patience, sizes, progress)
        ],
    )
    run(trainer, checkpoint)


def _save_best(
    working_folder: Path,
    target: Path,
    settings: CrossEncoderSettings,
    lists: list[LabelledPair],
    labelled_pairs: list[LabelledPair],
    device: str,
    description: dict,
) -> TrainedCrossEncoder:
    """Write the best checkpoint to `target`, and calibrate it if the held-out lists contain both positives and
    negatives.

    If there are enough labels by people, only these are used for calibration. The pairs that people judge are not a
    random sample, so their share of positives is corrected to that of the lists.
    """
    from sentence_transformers import CrossEncoder

    method = None
    by_people = (
        min(sum(p.positive for p in labelled_pairs), sum(not p.positive for p in labelled_pairs)) >= LABELS_ENOUGH
    )
    with saved_model(working_folder, target, FIGURE) as (best, building):
        with readable_model(building):
            model = CrossEncoder(str(building), device=device)
        if len({pair.positive for pair in lists}) == 2:
            pairs, base_rate = labelled_pairs if by_people else lists, float(np.mean([pair.positive for pair in lists]))
            report = calibrate(model, pairs, settings.calibration, settings.seed, base_rate=base_rate)
            report["of"] = "people's labels of held-out questions" if by_people else "whole lists of held-out questions"
            write_json(building / CALIBRATION, report)
            method = report["method"]
        losses = (line["held_out_loss"] for line in best.curve if line["step"] == best.step)
        more = {"held_out_loss": next(losses, None), "calibration": method, "model_hash": weights_hash(building)}
        write_training_json(building, description | best.facts(FIGURE) | more)
    return TrainedCrossEncoder(
        target.name, str(target), best.last_step, best.step, best.value, method, description["seconds"]
    )
