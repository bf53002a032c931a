"""The experiment part for a question encoder per relation over one fixed index (see
`blindspot.backend.experiments.per_relation`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from blindspot.backend.experiments.hits import Index, RunPart
from blindspot.backend.experiments.parts import required
from blindspot.backend.experiments.per_relation import (
    ABOUT_FILE,
    MIN_QUESTIONS,
    PerRelationRetriever,
    train_per_relation,
)
from blindspot.backend.experiments.trainings import Model, TrainingData
from blindspot.backend.progress import Progress
from blindspot.backend.training.training_settings import DualEncoderSettings

if TYPE_CHECKING:
    from blindspot.backend.experiments.workbench import Workbench


@dataclass(frozen=True)
class QuestionEncoders(Model):
    """One encoder for each relation with at least `least` questions in a training set. Questions of other relations use
    the index's own encoder.
    """

    plural, what = "sets of question encoders", "a question encoder for each relation"
    data: TrainingData
    settings: DualEncoderSettings
    index: Index
    least: int = MIN_QUESTIONS

    def finished(self, bench: Workbench) -> bool:
        return (bench.path("models", bench.name(self)) / ABOUT_FILE).is_file()

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        train_per_relation(
            bench,
            name,
            bench.name(self.index),
            bench.name(self.data),
            self.settings,
            bench.device,
            progress,
            self.least,
        )


@dataclass(frozen=True)
class SpecialisedHits(RunPart):
    """A run in which each question is searched with the encoder of its relation."""

    encoders: QuestionEncoders = required()

    def search(self, bench, questions, k, progress):
        retriever = PerRelationRetriever(bench, bench.name(self.encoders), bench.device)
        return retriever.search(questions, k, progress), retriever.index.settings
