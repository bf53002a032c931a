"""RocketQA's training steps (Qu et al. 2021, section 3.4) as parts for experiments that compare, omit or vary the
steps.

Cross-batch negatives are the passages of the batches on all devices. On one device, a large batch with gradient caching
gives the same negatives and the same gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from blindspot.backend.data.leaks import eligible_questions
from blindspot.backend.experiments.hits import DenseHits
from blindspot.backend.experiments.parts import Part, QuestionSelection
from blindspot.backend.experiments.plan import Setting
from blindspot.backend.experiments.question_sets import datasets
from blindspot.backend.experiments.trainings import CrossEncoder, DualEncoder, ScoresPart, TrainingData, run_of_model
from blindspot.backend.experiments.workbench import Workbench
from blindspot.db.errors import BadInput
from blindspot.db.labels import Labels

STEP_DEFAULTS = {"batches": (64,), "training": {"question_tokens": 32, "passage_tokens": 128, "learning_rate": 3e-5}}
"""The paper's settings, for every experiment that makes its steps."""
DEVICES = 8
"""The number of devices whose passages the paper gathers."""


@dataclass(frozen=True)
class RocketQASteps:
    """The models of one seed. batch: questions on one device."""

    setting: Setting
    seed: int
    batch: int
    devices: int = DEVICES
    start: Part | None = None

    @cached_property
    def in_batch(self) -> DualEncoder:
        """Return a dual encoder trained with the batch of one device."""
        return self.train_dual_encoder(self.labelled_data(), self.batch, 0)

    @cached_property
    def cross_batch(self) -> DualEncoder:
        """Step 1: return a dual encoder trained with the batches of all devices."""
        return self.train_dual_encoder(self.labelled_data(), self.batch * self.devices, 0)

    @cached_property
    def training_hits(self) -> DenseHits:
        """Return the run of step 1's retriever over the training questions.

        Only training questions are searched, because every hit is judged.
        """
        questions = QuestionSelection(self.setting.train[0], limit=self.setting.data().limit, trains=True)
        return run_of_model(self.cross_batch, questions, self.setting.depth)

    @cached_property
    def judge(self) -> CrossEncoder:
        """Step 2: return a cross-encoder trained on step 1's run."""
        return CrossEncoder(
            self.labelled_data(mined=(self.training_hits,)),
            self.setting.cross_settings(self.seed),
            self.start or self.setting.first_encoder,
        )

    @cached_property
    def scores(self) -> ScoresPart:
        return ScoresPart(self.judge, self.training_hits, self.setting.depth)

    @cached_property
    def undenoised(self) -> DualEncoder:
        """Return a dual encoder trained with hard negatives that are not denoised."""
        return self.train_dual_encoder(self.labelled_data(mined=(self.training_hits,)), self.batch * self.devices, 1)

    @cached_property
    def denoised_data(self) -> TrainingData:
        return self.labelled_data(mined=(self.training_hits,), policy="cross_encoder", judge=(self.scores,))

    @cached_property
    def denoised(self) -> DualEncoder:
        """Step 3: return a dual encoder trained with denoised hard negatives, which the cross-encoder rejects with high
        confidence.
        """
        return self.train_dual_encoder(self.denoised_data, self.batch * self.devices, 1)

    def augmented(self, limit: int | None = None) -> DualEncoder:
        """Step 4: return a dual encoder whose training data also includes up to `limit` unlabelled questions. Their
        passages are labelled by the cross-encoder where it is confident.
        """
        candidates = run_of_model(self.denoised, QuestionSelection("unlabelled"), self.setting.depth)
        free = TrainingData(
            questions=("unlabelled",),
            limit=limit,
            mined=(candidates,),
            last=self.setting.depth,
            policy="cross_encoder",
            judge=(ScoresPart(self.judge, candidates, self.setting.depth),),
            positives=("cross_encoder",),
            may_be_empty=True,
        )
        return self.train_dual_encoder((self.denoised_data, free), self.batch * self.devices, 1)

    def labelled_data(self, **more: Any) -> TrainingData:
        """Return training data of the questions with positives: gold passages, or else BM25's passages with
        an answer.
        """
        return self.setting.data(**{"mined": self.setting.mined(), "positives": ("gold", "distant"), **more})

    def train_dual_encoder(
        self, data: TrainingData | tuple[TrainingData, ...], batch: int, hard_negatives: int
    ) -> DualEncoder:
        settings = self.setting.settings(
            self.seed, batch=batch, hard_negatives=hard_negatives, mini_batch=self.mini_batch
        )
        return DualEncoder(
            data if isinstance(data, tuple) else (data,), settings, self.start or self.setting.first_encoder
        )

    @property
    def mini_batch(self) -> int | None:
        """Return the size of the mini-batches for gradient caching; None if the whole batch is encoded at once."""
        return 128 if self.batch * self.devices > 128 else None


def steps_by_seed(setting: Setting, start: Part | None = None) -> list[RocketQASteps]:
    """Return the steps for each seed. `--batches B` is the batch of one device; small runs use 2 questions on 2
    devices.
    """
    batch, devices = (2, 2) if setting.small else (setting.batches[0], DEVICES)
    return [RocketQASteps(setting, seed, batch, devices, start) for seed in setting.seeds]


def unlabelled_question_count(bench: Workbench) -> int:
    """Return the number of unlabelled questions that may be used for training, without bad questions and questions that
    leak from dev or test.
    """
    if not datasets(bench, "unlabelled"):
        return 0
    bad = set(Labels(bench.labels_path, read_only=True).bad_questions())
    return len(eligible_questions(bench, ("unlabelled",), bad).ids)


def require_one_training_set(setting: Setting) -> None:
    """Raise BadInput if more than one training set is given."""
    if len(setting.train) != 1:
        raise BadInput("this experiment trains on one set of questions; name one with --train")
