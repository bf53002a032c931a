"""The experiment parts for training: training sets, dual encoders, cross-encoders and their scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.experiments.hits import Bm25Index, DenseHits, Index, RunPart
from blindspot.backend.experiments.parts import Part, QuestionSelection, StudyEncoder
from blindspot.backend.progress import Progress
from blindspot.backend.training.examples import Example, TrainingExamples
from blindspot.backend.training.training_settings import CrossEncoderSettings, DualEncoderSettings
from blindspot.backend.training_sets.denoising import Thresholds, policy_named

if TYPE_CHECKING:
    from blindspot.backend.experiments.relation_training import AdaptedTrainingData
    from blindspot.backend.experiments.workbench import Workbench


@dataclass(frozen=True)
class TrainingData(Part):
    """A training set, with the fields of `TrainingSetSpec`.

    Attributes:
        mined: runs over its questions.
        judge: a cross-encoder's scores of the mined passages.
        limit: the number of its questions, drawn with `seed`.
        may_be_empty: allowed for a set that only adds to another set; it may have no question with a positive.
    """

    folder, plural = "training_sets", "training sets"
    questions: tuple[str, ...] = ("train",)
    relations: tuple[str, ...] = ()
    limit: int | None = None
    positives: tuple[str, ...] = ("gold",)
    mined: tuple[RunPart, ...] = ()
    first: int = 1
    last: int = 100
    policy: str = "none"
    judge: tuple[ScoresPart, ...] = ()
    thresholds: Thresholds = Thresholds()
    random: int = 0
    other_gold: int = 0
    until: int | None = None
    seed: int = 0
    may_be_empty: bool = False

    def title(self) -> str:
        return "making a training set"

    def recipe(self, bench: Workbench) -> dict[str, Any]:
        thresholds = self.thresholds.filled(policy_named(self.policy).definition.own)
        return super().recipe(bench) | {"thresholds": thresholds.as_dict()}

    def finished(self, bench: Workbench) -> bool:
        return super().finished(bench) or self.empty(bench)

    def empty(self, bench: Workbench) -> bool:
        return self.may_be_empty and bench.record(self).is_file() and not super().finished(bench)

    def note(self, bench: Workbench) -> str | None:
        return (
            f"No question of {', '.join(self.questions)} has a positive, so these questions add nothing."
            if self.empty(bench)
            else None
        )

    def needs(self) -> Iterator[Part]:
        if "distant" in self.positives:
            yield Bm25Index()
        yield from super().needs()

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from blindspot.backend.training_sets.builder import NoTrainableQuestion, make_training_set
        from blindspot.backend.training_sets.spec import TrainingSetSpec

        request = TrainingSetSpec(
            name,
            tuple(bench.name(each) for each in self.mined),
            self.policy,
            self.questions,
            self.positives,
            self.first,
            self.last,
            bench.name(self.judge[0].judge) if self.judge else None,
            self.thresholds,
            self.random,
            self.other_gold,
            seed=self.seed,
            until=self.until,
            relations=self.relations,
            limit=self.limit,
        )
        try:
            make_training_set(bench, request, progress)
        except NoTrainableQuestion:
            if not self.may_be_empty:
                raise

    def examples(self, bench: Workbench) -> TrainingExamples:
        """Return the examples of the training set, including easy negatives."""
        from blindspot.backend.training.examples import TrainingSetExamples
        from blindspot.backend.training_sets.training_set import TrainingSet

        return (
            []
            if self.empty(bench)
            else TrainingSetExamples(bench, TrainingSet.open(bench, bench.name(self)), hard=False)
        )


class ConcatenatedExamples:
    """The concatenated examples of several training sets."""

    def __init__(self, sets: Sequence[TrainingExamples]):
        self._sets, self._ends = sets, np.cumsum([len(each) for each in sets])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: int) -> Example:
        index = range(len(self))[index]
        place = int(np.searchsorted(self._ends, index, side="right"))
        return self._sets[place][index - (int(self._ends[place - 1]) if place else 0)]


class Model(Part):
    """A trained model. Its `settings` include the seed. what: the kind of model, as in "a reader"."""

    folder, plural, what = "models", "models", "a model"

    settings: Any

    def title(self) -> str:
        return f"training {self.what} (seed {self.settings.seed})"

    def finished(self, bench: Workbench) -> bool:
        return (bench.path("models", bench.name(self)) / "training.json").is_file()


@dataclass(frozen=True)
class DualEncoder(Model):
    """A dual encoder trained on one or several training sets together, from an initial model. settings: include the
    seed.
    """

    plural, what = "dual encoders", "a dual encoder"
    data: tuple[TrainingData | AdaptedTrainingData, ...]
    settings: DualEncoderSettings
    start: Part = StudyEncoder("minilm")

    def left_out(self, bench: Workbench) -> bool:
        """Return whether one of several training sets is empty. Training on the remaining sets would only repeat the
        training of another model.
        """
        return any(isinstance(each, TrainingData) and each.empty(bench) for each in self.data)

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from blindspot.backend.training.checkpoints import TrainingFolders
        from blindspot.backend.training.dual_encoder import train
        from blindspot.backend.training.training_log import working_folder

        train(
            self._start(bench),
            examples_of(bench, self.data),
            TrainingFolders(
                bench.path("models", name), working_folder(bench, name), device=bench.device, progress=progress
            ),
            self.settings,
        )

    def _start(self, bench: Workbench) -> EncoderSettings:
        return bench.settings.encoders[bench.name(self.start)]


def run_of_model(model: DualEncoder, selection: QuestionSelection, k: int) -> DenseHits:
    """Return a run of a trained dual encoder.

    If only the question tower was trained, the passage vectors are those of the initial model.
    """
    settings = model.settings
    changed = settings.layers, settings.pooling, settings.normalise
    same = settings.only == "question" and settings.similarity == "dot" and set(changed) == {None}
    return DenseHits(selection, k, Index(model.start), model) if same else DenseHits(selection, k, Index(model))


def examples_of(bench: Workbench, data: Sequence[TrainingData | AdaptedTrainingData]) -> ConcatenatedExamples:
    """Return the joined examples of finished training sets, with easy negatives."""
    return ConcatenatedExamples([each.examples(bench) for each in data])


@dataclass(frozen=True)
class CrossEncoder(Model):
    """A cross-encoder trained on the mined passages of a training set, and calibrated on held-out questions."""

    plural, what = "cross-encoders", "a cross-encoder"
    data: TrainingData
    settings: CrossEncoderSettings
    start: Part = StudyEncoder("minilm")

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from blindspot.backend.recipes.settings import model_of
        from blindspot.backend.training.cross_encoder import train_cross_encoder

        train_cross_encoder(
            bench,
            name,
            bench.name(self.data),
            asdict(self.settings),
            start=model_of(bench, bench.name(self.start)),
            device=bench.device,
            progress=progress,
        )


@dataclass(frozen=True)
class ScoresPart(Part):
    """A cross-encoder's scores of the top `depth` passages of a run."""

    folder, plural = "scores", "judged runs"
    judge: CrossEncoder
    hits: RunPart
    depth: int

    def title(self) -> str:
        return "judging passages with the cross-encoder"

    def finished(self, bench: Workbench) -> bool:
        return bench.record(self).is_file()

    def make(self, bench: Workbench, name: str, progress: Progress | None) -> None:
        from blindspot.backend.training.scoring import score_run

        score_run(bench, bench.name(self.judge), bench.name(self.hits), self.depth, bench.device, progress)
