"""The hyper-parameters of dual encoders and cross-encoders, each declared once, and checks for combinations that cannot
learn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from blindspot.backend.core.declared import Field, one_of, settings_class
from blindspot.backend.training.distributed import is_distributed
from blindspot.backend.training.loss_kinds import LOSSES, loss_choices
from blindspot.backend.training.tracking import Tracker
from blindspot.db.errors import BadInput, Refused

if TYPE_CHECKING:
    from blindspot.backend.training.initial_model import ModelShape

UNIT_SCALE = 20.0  # for scores between -1 and 1, the library's own choice
MIN_SCALE = 5.0  # below it, such scores leave almost no gradient
LARGEST_SEED = 2**32 - 1  # NumPy's limit

Precision = Literal["auto", "float32", "bfloat16"]


@settings_class
class TrainingSettings:
    """The settings that all kinds of training share. The defaults are DPR's."""

    layers: int | None = Field(
        default=None, description="Keep only this many layers of the start model; default all", ge=1
    )
    batch: int = Field(default=32, description="Questions in a batch, in each process", ge=1)
    epochs: float = Field(default=10.0, description="Passes over the questions", gt=0)
    steps: int | None = Field(default=None, description="Number of batches, instead of epochs", ge=1)
    learning_rate: float = Field(
        default=2e-5, description="Highest learning rate; the rate rises to it and falls", gt=0
    )
    warmup: float = Field(
        default=0.1, title="Warm-up", description="Share of the steps in which the learning rate rises", ge=0, lt=1
    )
    decay: bool = Field(default=True, description="Let the learning rate fall linearly to 0 after the warm-up")
    weight_decay: float = Field(default=0.0, description="Weight decay of AdamW", ge=0)
    clip: float = Field(default=2.0, title="Gradient clip", description="Maximum norm of the gradient", gt=0)
    held_out: int = Field(
        default=200, description="Questions held out to compare checkpoints, at most a fifth of all", ge=0
    )
    evaluate_every: int | None = Field(
        default=None,
        description="Steps between evaluations, each a checkpoint; default ten in all, or fewer if they take long",
        ge=1,
    )
    patience: int = Field(default=0, description="Stop after this many evaluations without improvement; 0: never", ge=0)
    seed: int = Field(default=0, description="Seed of the order, of sampling and of dropout", ge=0, le=LARGEST_SEED)
    precision: Precision = Field(
        default="auto", description="Arithmetic; auto: bfloat16 on a processor that multiplies it, else float32"
    )
    report_to: Tracker = Field(
        default="none", description="Tracker that gets the loss and the evaluations (docs/train.md)"
    )


@settings_class
class DualEncoderSettings(TrainingSettings):
    """Every setting of a dual encoder's training.

    The default batch size and text lengths are smaller than DPR's, for smaller machines.
    """

    towers: Literal["two", "shared"] = Field(
        default="two", description="two: an encoder for questions and one for passages (DPR); shared: one for both"
    )
    pooling: Literal["cls", "mean"] | None = Field(
        default=None, description="How token vectors become one vector (DPR: cls); default as the start model"
    )
    normalise: bool | None = Field(default=None, description="Scale vectors to unit length; default as the start model")
    similarity: Literal["dot", "cosine", "l2"] = Field(
        default="dot", description="How a question and a passage are compared (DPR: dot)"
    )
    question_tokens: int = Field(default=64, description="Maximum tokens of a question; longer questions are cut", ge=1)
    passage_tokens: int = Field(default=256, description="Maximum tokens of a passage; longer passages are cut", ge=1)

    loss: Annotated[str, one_of(LOSSES)] = Field(
        default="softmax",
        description=f"Training loss. {loss_choices()}",
        json_schema_extra={"choices": [*LOSSES.names()]},
    )
    scale: float | None = Field(
        default=None,
        description="Factor of the scores in the softmax; default 1, or 20 for scores between -1 and 1",
        gt=0,
    )
    margin: float = Field(default=1.0, description="Margin of the triplet loss", ge=0)
    masked: bool = Field(default=True, title="Mask positives", description="Never use a known positive as a negative")
    in_batch: bool = Field(
        default=True,
        title="In-batch negatives",
        description="Use the passages of a batch's other questions as negatives; without them: DPR's 1-of-N",
    )
    hard_negatives: int = Field(
        default=1, description="Hard negatives of each question, besides in-batch negatives", ge=0
    )
    distil: str | None = Field(
        default=None,
        title="Learn from judge",
        description="Cross-encoder whose scores the dual encoder learns from as well; without a training set, the judge "
        "of a run's lists (--run)",
        json_schema_extra={"metavar": "MODEL"},
    )
    distil_weight: float = Field(
        default=1.0, title="Teacher weight", description="Weight of the cross-encoder's scores beside the loss", gt=0
    )
    distil_loss: Literal["kl", "margin_mse"] = Field(
        default="kl",
        title="Teacher loss",
        description="kl: divergence of the softmax over a question's passages; margin_mse: squared error of the "
        "margins of its "
        "positive over its hard negatives",
    )
    matryoshka: str | None = Field(
        default=None,
        title="Matryoshka dimensions",
        description="Smaller dimensions at which the vectors are trained as well, such as 64,128",
        json_schema_extra={"metavar": "DIMENSIONS"},
    )
    question_prompt: str | None = Field(
        default=None,
        description="Text put before each question; default the start model's",
        json_schema_extra={"metavar": "TEXT"},
    )
    passage_prompt: str | None = Field(
        default=None,
        description="Text put before each passage; default the start model's",
        json_schema_extra={"metavar": "TEXT"},
    )
    mini_batch: int | None = Field(
        default=None,
        title="Mini-batch",
        description=(
            "Texts encoded at a time (gradient caching), for batches larger than the memory; default no caching"
        ),
        ge=1,
    )
    only: Literal["question", "passage"] | None = Field(
        default=None, description="Train this tower alone (EntityQuestions, Table 2)"
    )
    lora: int = Field(
        default=0,
        title="LoRA rank",
        description="Train low-rank updates of this rank instead of all weights, with the package peft; 0: all weights",
        ge=0,
    )
    pool: int = Field(
        default=1000, description="Passages among which the positives of held-out questions are ranked", ge=1
    )

    @property
    def shape(self) -> ModelShape:
        from blindspot.backend.training.initial_model import ModelShape

        return ModelShape(
            self.towers,
            self.pooling,
            self.layers,
            self.normalise,
            self.similarity,
            self.question_tokens,
            self.passage_tokens,
            self.question_prompt,
            self.passage_prompt,
        )

    @property
    def smaller_dimensions(self) -> tuple[int, ...]:
        """Return the Matryoshka dimensions in ascending order. Raises BadInput for an invalid value."""
        words = [word.strip() for word in (self.matryoshka or "").split(",") if word.strip()]
        if not all(word.isdigit() and int(word) > 0 for word in words):
            raise BadInput(
                f"matryoshka must be dimensions with commas between them, such as 64,128, not {self.matryoshka!r}"
            )
        return tuple(sorted({int(word) for word in words}))


@settings_class
class CrossEncoderSettings(TrainingSettings):
    """Every setting of a cross-encoder's training. The defaults are RocketQA's, with a smaller batch."""

    tokens: int = Field(default=160, description="Maximum tokens of question + passage", ge=1)
    negatives: int = Field(
        default=4, description="Mined negatives of each positive (RocketQA: 4 on MS MARCO, 1 on NQ)", ge=0
    )
    batch: int = Field(
        default=16, description="Questions in a batch, in each process; each adds a positive and its negatives", ge=1
    )
    epochs: float = Field(default=2.0, description="Passes over the questions", gt=0)
    learning_rate: float = Field(
        default=1e-5, description="Highest learning rate; the rate rises to it and falls", gt=0
    )
    pairs: int = Field(default=1000, description="Held-out pairs, about, that compare checkpoints", ge=1)
    calibration_pairs: int = Field(
        default=4000, description="Maximum held-out pairs that calibrate: whole lists of questions", ge=1
    )
    evaluate_every: int | None = Field(
        default=None, description="Steps between evaluations, each a checkpoint; default three in all", ge=1
    )
    calibration: Literal["auto", "platt", "isotonic"] = Field(
        default="auto", description="Calibration of the scores; auto: isotonic from 1,000 pairs, else platt"
    )


def check_settings(settings: DualEncoderSettings) -> None:
    """Raise Refused for settings with which no model can learn, and Missing if LoRA is requested without
    its package.
    """
    if settings.lora:
        from blindspot.backend.core.extras import require

        require("lora")
    if settings.only and settings.towers == "shared":
        raise Refused(f"one tower cannot be trained for {settings.only}s alone; take two towers")
    if not settings.in_batch and not settings.hard_negatives:
        raise Refused(
            "without its own negatives and without in-batch negatives, a question has no negatives at all; take some"
        )
    if settings.batch == 1 and not settings.hard_negatives and not is_distributed():
        raise Refused("a batch of one question without hard negatives has nothing to compare with; take a larger batch")
    _ = settings.smaller_dimensions  # raises for what is no list of them
    if settings.distil is not None and (not settings.hard_negatives or not LOSSES.get(settings.loss).takes_teacher):
        raise Refused(
            "the cross-encoder teaches how a positive compares with the question's own hard negatives; take one "
            "hard negative or more and the softmax loss, or train without distillation"
        )


def training_scale(settings: DualEncoderSettings, unit_length: bool) -> float:
    """Return the scale used in training.

    Raises Refused if scores between -1 and 1 would enter a softmax almost unscaled.
    """
    bounded = LOSSES.get(settings.loss).scales and (unit_length or settings.similarity == "cosine")
    if settings.scale is None:
        return UNIT_SCALE if bounded else 1.0
    if bounded and settings.scale < MIN_SCALE:
        why = "compares by cosine" if settings.similarity == "cosine" else "gives vectors of unit length"
        raise Refused(
            f"this encoder {why}, so its scores differ by 2 at most, and a softmax over scores times "
            f"{settings.scale:g} has almost no gradient; take a scale of {UNIT_SCALE:g}, or do not normalise"
        )
    return settings.scale


@settings_class
class TrainingOptions:
    """Settings of training that dual encoders, cross-encoders and readers share."""

    start: str = Field(
        default="minilm",
        description="Initial model: an encoder of study.toml, a folder (for a reader, also a reader's) or a Hugging Face name",
        json_schema_extra={"option": "--from"},
    )
    device: str | None = Field(default=None, description="Device: cpu or cuda; default a GPU if there is one")
    replace: bool = Field(default=False, description="Replace the model of this name if it exists")
    restart: bool = Field(default=False, description="Discard the unfinished training of this name and start again")


@settings_class
class AdapterSettings:
    """The settings for training an adapter."""

    distil: str | None = Field(
        default=None,
        title="Learn from judge",
        description="Judge whose order of a run's lists (--run) teaches, in place of a training set",
        json_schema_extra={"metavar": "JUDGE"},
    )

    steps: int | None = Field(
        default=None, description="Number of batches; default chosen on held-out training questions, else 200", ge=1
    )
    batch: int = Field(default=256, description="Questions in a batch", ge=2)
    hard_negatives: int = Field(default=4, description="Hard negatives of each question in a batch", ge=0)
    random_passages: int = Field(
        default=1024, description="Passages of the index that every batch adds as negatives", ge=0
    )
    learning_rate: float = Field(
        default=1e-3, description="Learning rate of AdamW at the start; it falls linearly to 0", gt=0
    )
    scale: float | None = Field(
        default=None, description="Factor of the similarities; default chosen on held-out training questions", gt=0
    )
    weight_decay: float | None = Field(
        default=None, description="Weight decay of AdamW; default chosen on held-out training questions", ge=0
    )
    held_out: int = Field(
        default=500, description="Training questions held out to choose by, at most a fifth of all", ge=0
    )
    seed: int = Field(default=0, description="Seed of the batches and of the held-out questions", ge=0, le=2**32 - 1)
