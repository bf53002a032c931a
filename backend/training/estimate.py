"""Estimate how long a training takes from a few timed steps, and how many steps fit into a given time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.training.checkpoints import steps_between_checkpoints, training_device
from blindspot.backend.training.cross_encoder import cross_encoder_parts
from blindspot.backend.training.distillation import PassageTeacher, ScoringCost
from blindspot.backend.training.dual_parts import (
    dual_encoder_collator,
    dual_encoder_loss,
    dual_encoder_sampler,
    encoded_text_counts,
    initial_dual_encoder,
    split_examples,
)
from blindspot.backend.training.examples import BatchSampler, NegativeSampler, TrainingExamples, with_positives
from blindspot.backend.training.initial_model import normalises
from blindspot.backend.training.scoring import TEMPLATE
from blindspot.backend.training.stored_vectors import StoredVectors
from blindspot.backend.training.training_settings import (
    CrossEncoderSettings,
    DualEncoderSettings,
    check_settings,
    training_scale,
)

TIMED = 2  # steps; the last one counts, because the first one also loads what it uses


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """The estimated duration of a training: the number of steps, seconds per step, and seconds for all steps including
    evaluations.

    scoring: cost of scoring pairs with the teacher before the first step; not included in `seconds`.
    """

    steps: int
    seconds_per_step: float
    seconds: float
    scoring: ScoringCost | None = None


def estimate(
    start: EncoderSettings,
    examples: TrainingExamples,
    settings: DualEncoderSettings,
    device: str | None = None,
    time_limit: float | None = None,
    teacher: PassageTeacher | None = None,
    stored_vectors: StoredVectors | None = None,
) -> TrainingEstimate:
    """Estimate the duration of training a dual encoder by timing two steps on a temporary model. Nothing is stored,
    except some scores of a teacher.

    Args:
        time_limit: seconds that the training may take; None: as many steps as the settings say.
        stored_vectors: as for `train`.

    Raises the same errors as `train` for settings that cannot learn.
    """
    from blindspot.backend.training.trainer import features_of

    check_settings(settings)
    on = training_device(device)
    chosen, pool = split_examples(with_positives(examples), settings, None)
    model = initial_dual_encoder(start, settings, on).train()
    sampler = dual_encoder_sampler(len(chosen), settings)
    loss = dual_encoder_loss(model, settings, training_scale(settings, normalises(model)))
    collator = dual_encoder_collator(model, settings, start.passage_template, None, stored_vectors)
    dataset = NegativeSampler(chosen, settings.hard_negatives, settings.seed)

    def step(keys: list[tuple[int, int]]) -> None:
        columns, labels = features_of(collator([dataset[key] for key in keys]), model.device)
        loss(columns, labels).backward()

    took = _time_steps(step, sampler)
    trained, compared = encoded_text_counts(sampler, settings, pool)

    def seconds(steps: int) -> float:
        every = steps_between_checkpoints(settings, steps, 10 if pool else 0, trained, compared)
        comparisons = 1 + -(-steps // every) if pool else 0
        return took * (steps + comparisons * compared / (3 * trained))

    steps = _steps_in_time(sampler.steps, seconds, time_limit)
    return TrainingEstimate(steps, took, seconds(steps), teacher.cost(dataset, sampler) if teacher else None)


def estimate_cross_encoder(
    start: str,
    examples: TrainingExamples,
    settings: CrossEncoderSettings,
    device: str | None = None,
    time_limit: float | None = None,
) -> TrainingEstimate:
    """Estimate the duration of training a cross-encoder by timing two steps on a temporary model; see `estimate`."""
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

    from blindspot.backend.training.trainer import PairCollator

    model, dataset, sampler = cross_encoder_parts(start, examples, settings, training_device(device))
    model.train()
    loss, collator = BinaryCrossEntropyLoss(model), PairCollator(TEMPLATE)

    def step(keys: list[tuple[int, int]]) -> None:
        batch = collator([dataset[key] for key in keys])
        loss([batch["question"], batch["passage"]], batch["label"].to(model.device)).backward()

    took = _time_steps(step, sampler)
    trained = sampler.batch * (1 + settings.negatives)

    def seconds(steps: int) -> float:
        every = steps_between_checkpoints(settings, steps, 3, trained, settings.pairs)
        pairs = -(-steps // every) * settings.pairs + settings.calibration_pairs
        return took * (steps + pairs / (3 * trained))

    steps = _steps_in_time(sampler.steps, seconds, time_limit)
    return TrainingEstimate(steps, took, seconds(steps))


def _time_steps(step: Callable[[list[tuple[int, int]]], None], sampler: BatchSampler) -> float:
    took = 0.0
    for _, keys in zip(range(TIMED), sampler, strict=False):
        began = time.monotonic()
        step(keys)
        took = time.monotonic() - began
    return took


def _steps_in_time(maximum: int, seconds: Callable[[int], float], time_limit: float | None) -> int:
    """Return the highest number of steps up to `maximum` that takes at most `time_limit` seconds; at least 1."""
    if time_limit is None:
        return maximum
    return next((steps for steps in range(maximum, 1, -1) if seconds(steps) <= time_limit), 1)
