"""RocketQA's steps as parts (Qu et al. 2021, section 3.4), for experiments that compare, leave out or vary them.

Cross-batch negatives are the passages of the batches on all devices. On one device they are those of one large batch,
which gradient
caching fits into its memory: the same negatives, the same gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from backend.experiments.hits import DenseHits
from backend.experiments.parts import Part, QuestionSelection
from backend.experiments.plan import Setting
from backend.experiments.trainings import CrossEncoder, DualEncoder, ScoresPart, TrainingData, found_by
from backend.experiments.workbench import Workbench
from db.errors import BadInput

DEVICES = 8
"""The number of devices whose passages the paper gathers."""


@dataclass(frozen=True)
class Steps:
    """The models of one seed. batch: questions on one device."""

    setting: Setting
    seed: int
    batch: int
    devices: int = DEVICES
    start: Part | None = None

    @cached_property
    def in_batch(self) -> DualEncoder:
        """A dual encoder with the batch of one device."""
        return self.trained(self.labelled(), self.batch, 0)

    @cached_property
    def cross_batch(self) -> DualEncoder:
        """Step 1: with the batches of all devices."""
        return self.trained(self.labelled(), self.batch * self.devices, 0)

    @cached_property
    def found(self) -> DenseHits:
        """What step 1's retriever finds for the training questions.

        All of it is judged, so only of those that train.
        """
        asked = QuestionSelection(self.setting.train[0], limit=self.setting.data().limit, trains=True)
        return found_by(self.cross_batch, asked, self.setting.depth)

    @cached_property
    def judge(self) -> CrossEncoder:
        """Step 2: a cross-encoder trained on step 1's run."""
        return CrossEncoder(
            self.labelled(mined=(self.found,)), self.setting.cross_settings(self.seed), self.start or self.setting.first
        )

    @cached_property
    def scores(self) -> ScoresPart:
        return ScoresPart(self.judge, self.found, self.setting.depth)

    @cached_property
    def raw(self) -> DualEncoder:
        """With hard negatives that are not denoised."""
        return self.trained(self.labelled(mined=(self.found,)), self.batch * self.devices, 1)

    @cached_property
    def cleaned(self) -> TrainingData:
        return self.labelled(mined=(self.found,), policy="cross_encoder", judge=(self.scores,))

    @cached_property
    def denoised(self) -> DualEncoder:
        """Step 3: with hard negatives that the cross-encoder is sure about."""
        return self.trained(self.cleaned, self.batch * self.devices, 1)

    def augmented(self, limit: int | None = None) -> DualEncoder:
        """Step 4: also with unlabelled questions, at most `limit`, whose passages the cross-encoder is sure about."""
        found = found_by(self.denoised, QuestionSelection("unlabelled"), self.setting.depth)
        free = TrainingData(
            questions=("unlabelled",),
            limit=limit,
            mined=(found,),
            last=self.setting.depth,
            policy="cross_encoder",
            judge=(ScoresPart(self.judge, found, self.setting.depth),),
            positives=("cross_encoder",),
            may_be_empty=True,
        )
        return self.trained((self.cleaned, free), self.batch * self.devices, 1)

    def labelled(self, **more: Any) -> TrainingData:
        """The questions with positives. Their easy negatives are in-batch negatives."""
        return self.setting.data(**{"mined": self.setting.mined(), "positives": ("gold", "distant"), **more})

    def trained(self, data: TrainingData | tuple[TrainingData, ...], batch: int, hard_negatives: int) -> DualEncoder:
        settings = self.setting.settings(
            self.seed, batch=batch, hard_negatives=hard_negatives, mini_batch=self.mini_batch
        )
        return DualEncoder(data if isinstance(data, tuple) else (data,), settings, self.start or self.setting.first)

    @property
    def mini_batch(self) -> int | None:
        """None if a batch is small enough to be encoded at once."""
        return 128 if self.batch * self.devices > 128 else None


def steps_of(setting: Setting, start: Part | None = None) -> list[Steps]:
    """The steps for each seed. `--batches B` is the batch of one device; small runs use 2 questions on 2 devices."""
    batch, devices = (2, 2) if setting.small else (setting.batches[0], DEVICES)
    return [Steps(setting, seed, batch, devices, start) for seed in setting.seeds]


def unlabelled(bench: Workbench) -> int:
    """The number of unlabelled questions."""
    return sum(count["questions"] for count in bench.questions.counts() if count["split"] == "unlabelled")


def need_one_train(setting: Setting) -> None:
    """Raises BadInput if there are several sets to train on."""
    if len(setting.train) != 1:
        raise BadInput("this experiment trains on one set of questions; name one with --train")
