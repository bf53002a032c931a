"""The settings of judges. They are in a separate module so that the command line can show them without loading
NumPy.
"""

from __future__ import annotations

from typing import Literal

from backend.core.declared import Field, settings_class

BOOSTING_QUESTIONS = 100  # labelled questions from which boosting beats logistic regression

ModelKind = Literal["auto", "logistic", "boosting"]


@settings_class
class FeatureJudgeSettings:
    """What the feature judge learns with."""

    depth: int = Field(
        default=20, title="Depth", description="Ranks of each list that the judge learns from and judges", ge=2, le=1000
    )
    model: ModelKind = Field(
        default="auto",
        title="Model",
        description=f"Model; auto: logistic regression below {BOOSTING_QUESTIONS} labelled questions, else boosting",
    )
    folds: int = Field(default=5, title="Folds", description="Folds of questions for scores out of fold", ge=2, le=20)
    false_negatives: float = Field(
        default=0.01,
        title="False negatives kept",
        description="Maximum share of false negatives among the kept negatives",
        gt=0,
        lt=0.5,
    )
    precision: float = Field(
        default=0.95,
        title="Precision of positives",
        description="Lowest precision of the positives that are added",
        gt=0.5,
        lt=1,
    )
    seed: int = Field(default=0, title="Seed", description="Seed of the folds and of boosting", ge=0, le=2**32 - 1)
