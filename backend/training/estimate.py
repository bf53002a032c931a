"""Estimate how long the training of a dual encoder takes, from a few timed steps."""

from __future__ import annotations

import time
from dataclasses import dataclass

from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.training.checkpoints import every_steps, training_device
from blindspot.backend.training.distillation import ScoringCost, Teacher
from blindspot.backend.training.dual_parts import (
    dual_encoder_collator,
    dual_encoder_loss,
    dual_encoder_sampler,
    initial_dual_encoder,
    split_examples,
    texts_encoded,
)
from blindspot.backend.training.examples import NegativeSampler, TrainingExamples, with_positives
from blindspot.backend.training.initial_model import normalises
from blindspot.backend.training.training_settings import DualEncoderSettings, check, scale_of


@dataclass(frozen=True, slots=True)
class TrainingEstimate:
    """Estimated duration of a training: its steps, seconds for one step, and seconds for all steps with evaluation.

    scoring: the teacher's scoring before the first step; not part of `seconds`.
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
    tries: int = 2,
    teacher: Teacher | None = None,
) -> TrainingEstimate:
    """Time `tries` steps on a temporary model and extrapolate from the last. Only some scores of a teacher are stored.

    Raises what `train` raises for settings that cannot learn.
    """
    from blindspot.backend.training.trainer import features_of

    check(settings)
    on = training_device(device)
    chosen, pool = split_examples(with_positives(examples), settings, None)
    model = initial_dual_encoder(start, settings, on).train()
    sampler = dual_encoder_sampler(len(chosen), settings)
    loss, collator = (
        dual_encoder_loss(model, settings, scale_of(settings, normalises(model))),
        dual_encoder_collator(model, settings, start.passage_template, None),
    )
    dataset, took = NegativeSampler(chosen, settings.hard_negatives, settings.seed), 0.0
    for _, keys in zip(range(tries), sampler, strict=False):
        began = time.monotonic()
        columns, labels = features_of(collator([dataset[key] for key in keys]), model.device)
        loss(columns, labels).backward()
        took = time.monotonic() - began
    trained, compared = texts_encoded(sampler, settings, pool)
    every = every_steps(settings, sampler.steps, 10 if pool else 0, trained, compared)
    comparisons = 1 + -(-sampler.steps // every) if pool else 0
    rounds = 2 if settings.refresh else 1
    seconds = rounds * took * (sampler.steps + comparisons * compared / (3 * trained))
    return TrainingEstimate(sampler.steps, took, seconds, teacher.cost(dataset, sampler) if teacher else None)
