"""The settings of a recipe: its run, its initial model, and the settings of its four steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.declared import Field, build_settings, settings_class
from blindspot.backend.core.settings import check_name
from blindspot.backend.training.training_settings import (
    LARGEST_SEED,
    CrossEncoderSettings,
    DualEncoderSettings,
    check_settings,
)
from blindspot.backend.training_sets.denoising import KEEP_BELOW, PROPOSE_ABOVE, Thresholds
from blindspot.db.errors import BadInput, Refused

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

DUAL = {
    "question_tokens": 32,
    "passage_tokens": 128,
    "batch": 512,
    "mini_batch": 128,
    "epochs": 30.0,
    "learning_rate": 3e-5,
}
CROSS = {"tokens": 160, "negatives": 1, "batch": 32, "epochs": 2.0, "learning_rate": 1e-5}
DEPTH = 100
"""RocketQA's settings for Natural Questions (section 4.1.3 and appendix): 512 questions on each device, their texts
encoded 128 at a time; a cross-encoder's 64 pairs are 32 questions with one negative each; negatives from the first 100.
"""
SMALL_DUAL = {
    "layers": 2,
    "question_tokens": 24,
    "passage_tokens": 64,
    "batch": 16,
    "steps": 60,
    "learning_rate": 1e-4,
    "held_out": 50,
    "pool": 200,
    "evaluate_every": 30,
}
SMALL_CROSS = {
    "tokens": 160,
    "negatives": 1,
    "batch": 8,
    "steps": 120,
    "learning_rate": 1e-4,
    "held_out": 50,
    "pairs": 250,
    "evaluate_every": 40,
}
SMALL_DEPTH = 20
"""Settings for a CPU, with minutes for each training.

The cross-encoder keeps all its layers, because it reads [CLS], which is the same for every text in MiniLM's first
layers. It reads whole passages, because a positive with a truncated answer is a wrong example. It also learns from
random passages: the paper's top 100 include easy negatives, the top 20 do not, and from hard negatives alone the
cross-encoder did not start to learn.
"""
JUDGED_POLICY = "answer_match"
"""The policy of step 2's training set.

A passage that contains an answer but is not gold is not used as a negative. Otherwise the cross-encoder would learn
which passages are labelled, instead of which ones answer, and would be calibrated on that.
"""


DENOISED_BY = (KEEP_BELOW, PROPOSE_ABOVE)


@settings_class
class RecipeSettings:
    """The settings of a recipe.

    `dual` and `cross` override the training settings that are derived from the other settings.
    """

    small: bool = Field(
        default=False, title="Small", description="Use small retrievers, short texts and few steps, for a CPU"
    )
    depth: int | None = Field(
        default=None,
        title="Depth",
        description="Number of top ranks to judge and to mine (default: 100; with --small: 20)",
        ge=1,
    )
    hard_negatives: int = Field(
        default=1,
        title="Hard negatives",
        description="Number of hard negatives for each question in steps 3 and 4 (step 1 has none)",
        ge=0,
    )
    seed: int = Field(default=0, title="Seed", description="Seed of all random choices", ge=0, le=LARGEST_SEED)
    thresholds: tuple[float, float] = Field(
        default=DENOISED_BY,
        title="Thresholds",
        description="Probability thresholds: a passage below the first is a negative, above the second a "
        "pseudo-positive",
    )
    distil: float = Field(
        default=0.0,
        title="Distillation",
        description="Weight of the cross-encoder as a teacher in steps 3 and 4; 0: no teacher",
        ge=0,
    )
    dual: Mapping[str, Any] = Field(default_factory=dict, description="Settings of the dual encoders")
    cross: Mapping[str, Any] = Field(default_factory=dict, description="Settings of the cross-encoder")

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> RecipeSettings:
        """Build the settings from plain values, as a job stores them.

        Raises BadInput or Refused for invalid values.
        """
        thresholds = values.get("thresholds", DENOISED_BY)
        result = build_settings(
            cls, {**values, "thresholds": tuple(thresholds) if isinstance(thresholds, list) else thresholds}
        )
        check_settings(build_settings(DualEncoderSettings, result.dual_settings(3), "dual"))
        build_settings(CrossEncoderSettings, result.cross_settings(), "cross")
        Thresholds(*result.thresholds).check()
        return result

    @property
    def ranks(self) -> int:
        return self.depth if self.depth is not None else SMALL_DEPTH if self.small else DEPTH

    @property
    def random_negatives(self) -> int:
        """Return the number of random passages per question for training the cross-encoder. Together with the mined
        passages there are as many as in the paper.
        """
        return max(0, DEPTH - self.ranks) if self.small else 0

    def dual_settings(self, step: int, judge: str | None = None) -> dict[str, Any]:
        """Return the settings of the dual encoder of step 1, 3 or 4. judge: the cross-encoder that can be its teacher
        in distillation.
        """
        taught = {"distil": judge, "distil_weight": self.distil} if step > 1 and self.distil and judge else {}
        return {
            **(SMALL_DUAL if self.small else DUAL),
            "seed": self.seed,
            "hard_negatives": 0 if step == 1 else self.hard_negatives,
            **taught,
            **self.dual,
        }

    def cross_settings(self) -> dict[str, Any]:
        return {**(SMALL_CROSS if self.small else CROSS), "seed": self.seed, **self.cross}

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as a dict of JSON types."""
        return asdict(self) | {"thresholds": list(self.thresholds), "dual": dict(self.dual), "cross": dict(self.cross)}


def check_recipe_name(name: str) -> str:
    """Check a recipe's name and return it. The names of its sets, models and runs begin with it, so its maximum length
    is shorter than theirs.
    """
    check_name(name, "recipe")
    if len(name) > 48:
        raise BadInput(
            f"the recipe's name has {len(name)} characters; use at most 48, because the names of its sets, models "
            "and runs are longer"
        )
    return name


def model_of(study: Study, start: str) -> str:
    """Return the model of an encoder of study.toml. Any other name is returned unchanged.

    Raises Refused for an encoder that consists of two separate models.
    """
    known = study.settings.encoders.get(start)
    if known is not None and known.model is None:
        raise Refused(
            f"the encoder {start!r} consists of two models, but a recipe starts its cross-encoder from one; choose "
            "an encoder with a single model"
        )
    return start if known is None or known.model is None else known.model


def weights_of(model: Path) -> str | None:
    """Return a hash of the weights; None for a model that is not a local folder."""
    from blindspot.backend.training.scoring import weights_hash

    return weights_hash(model) if model.is_dir() else None
