"""The settings of a training, and which of them cannot learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from backend.training.distributed import is_distributed
from backend.training.initial_model import Shape, Towers
from db.errors import Refused

UNIT_SCALE = 20.0  # for scores between -1 and 1, the library's own choice
LEAST_SCALE = 5.0  # below it, such scores leave almost no gradient
POSITIVE = (
    "question_tokens",
    "passage_tokens",
    "tokens",
    "batch",
    "learning_rate",
    "clip",
    "pool",
    "epochs",
    "mini_batch",
    "steps",
    "evaluate_every",
    "scale",
    "layers",
    "pairs",
    "distil_weight",
)
AT_LEAST_0 = ("hard_negatives", "negatives", "margin", "weight_decay", "held_out", "patience")
CHOICES = {
    "towers": ("two", "shared"), "pooling": (None, "cls", "mean"), "similarity": ("dot", "cosine", "l2"), "loss": ("softmax", "triplet"),
    "only": (None, "question", "passage"), "precision": ("auto", "float32", "bfloat16"), "calibration": ("auto", "platt", "isotonic"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DualEncoderSettings:
    """Every setting of a training. The defaults are DPR's where it names one, with a batch and lengths that smaller machines hold."""

    towers: Towers = "two"  # "two" (DPR) or "shared"
    pooling: str | None = None  # "cls" (DPR), "mean"; None: the start model's
    layers: int | None = None  # only the first so many of the start model; None: all
    normalise: bool | None = None  # vectors of unit length; None: as the start model
    similarity: str = "dot"  # "dot" (DPR), "cosine", "l2"
    question_tokens: int = 64
    passage_tokens: int = 256

    loss: Literal["softmax", "triplet"] = "softmax"
    scale: float | None = None  # of the scores before the softmax; None: 1, or 20 where scores lie between -1 and 1
    margin: float = 1.0  # of the triplet loss
    masked: bool = True  # known positives are nobody's negatives
    in_batch: bool = True  # others' passages are negatives too; False: a question's own alone (DPR's 1-of-N)
    hard_negatives: int = 1  # of each question, besides the passages of the others in its batch
    distil: str | None = None  # a cross-encoder whose scores are learned from as well
    distil_weight: float = 1.0  # of what it teaches, beside the loss

    batch: int = 32  # questions, in each process
    mini_batch: int | None = None  # texts encoded at a time (gradient caching); None: no caching
    epochs: float = 10.0
    steps: int | None = None  # in the place of epochs
    learning_rate: float = 2e-5
    warmup: float = 0.1  # share of the steps
    decay: bool = True  # linearly to 0 after the warm-up
    weight_decay: float = 0.0
    clip: float = 2.0  # of the gradient's norm
    only: Literal["question", "passage"] | None = (
        None  # train this tower alone (EntityQuestions, Table 2: OnlyQ, OnlyP)
    )

    held_out: int = 200  # questions held out to compare checkpoints by, at most a fifth
    pool: int = 1000  # passages that their positives are ranked among
    evaluate_every: int | None = None  # steps; None: ten times in all, or as often as half the time of training allows
    patience: int = 0  # evaluations without a better one before training stops; 0: never

    seed: int = 0
    precision: Literal["auto", "float32", "bfloat16"] = "auto"  # auto: bfloat16 on a GPU that has it

    @property
    def shape(self) -> Shape:
        return Shape(
            self.towers,
            self.pooling,
            self.layers,
            self.normalise,
            self.similarity,
            self.question_tokens,
            self.passage_tokens,
        )


def check_values(settings: Any) -> None:
    """Numbers that are out of range and words that are unknown, of any settings. Raises Refused, which names the first."""
    for name in settings.__dataclass_fields__:
        value = getattr(settings, name)
        too_low = name in POSITIVE and value is not None and not value > 0 or name in AT_LEAST_0 and value < 0
        if too_low or name == "warmup" and not 0 <= value < 1:
            raise Refused(f"{name.replace('_', ' ')} cannot be {value}; nothing would be learned")
        if name in CHOICES and value not in CHOICES[name]:
            raise Refused(f"{name} must be one of {', '.join(one for one in CHOICES[name] if one)}, not {value!r}")


def check(settings: DualEncoderSettings) -> None:
    """Raises Refused for settings that cannot learn, whatever the model and the questions are."""
    check_values(settings)
    if settings.only and settings.towers == "shared":
        raise Refused(f"one tower cannot be trained for {settings.only}s alone; take two towers")
    if not settings.in_batch and not settings.hard_negatives:
        raise Refused(
            "without negatives of its own, and without those of its batch, a question has nothing to compare with; take some"
        )
    if settings.batch == 1 and not settings.hard_negatives and not is_distributed():
        raise Refused("a batch of one question without hard negatives has nothing to compare with; take a larger batch")
    if settings.distil is not None and (not settings.hard_negatives or settings.loss != "softmax"):
        raise Refused(
            "a cross-encoder teaches how a question's positive stands to its own hard negatives, by softmax; take one hard "
            "negative or more and the softmax loss, or train without distillation"
        )


def scale_of(settings: DualEncoderSettings, unit_length: bool) -> float:
    """The scale that is trained with. Raises Refused where scores between -1 and 1 would stand in a softmax almost as they are."""
    bounded = settings.loss == "softmax" and (unit_length or settings.similarity == "cosine")
    if settings.scale is None:
        return UNIT_SCALE if bounded else 1.0
    if bounded and settings.scale < LEAST_SCALE:
        why = "compares by cosine" if settings.similarity == "cosine" else "gives vectors of unit length"
        raise Refused(
            f"this encoder {why}, so its scores differ by 2 at most, and a softmax over scores times {settings.scale:g} has "
            f"almost no gradient; take a scale of {UNIT_SCALE:g}, or do not normalise"
        )
    return settings.scale
