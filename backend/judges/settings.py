"""The settings of judges. They are in a separate module so that the command line can show them without loading
NumPy.
"""

from __future__ import annotations

from typing import Literal

from blindspot.backend.core.declared import Field, settings_class

RERANK_DEPTH = 100  # ranks that a reranker orders, and that the feature judge learns to order

ModelKind = Literal["auto", "logistic", "boosting"]


@settings_class
class FeatureJudgeSettings:
    """The settings for training the feature judge."""

    depth: int = Field(
        default=20,
        title="Depth",
        description="Ranks of each list whose probabilities are calibrated and stored",
        ge=2,
        le=1000,
    )
    model: ModelKind = Field(
        default="auto",
        title="Model",
        description="Model; auto: the mean of logistic regression, which starts from a prior, and boosting",
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


@settings_class
class LLMSettings:
    """Settings of requests to a language model."""

    temperature: float = Field(default=0.0, title="Temperature", description="Temperature of the answers", ge=0, le=2)
    scale: str = Field(
        default="0-1",
        title="Scale",
        description="Grades of a prompt of your own, as in 0-1 or 0-3; umbrella and rocketqa have theirs",
    )
    positive_from: int | None = Field(
        default=None,
        title="Positive from",
        description="Lowest grade that counts as positive; default the prompt's",
        ge=1,
    )
    concurrency: int = Field(default=8, title="Concurrency", description="Requests at the same time", ge=1, le=256)
    timeout: float = Field(default=60.0, title="Timeout", description="Seconds to wait for an answer", gt=0, le=3600)
    retries: int = Field(
        default=5,
        title="Retries",
        description="Repetitions of a failed request, each after a longer pause",
        ge=0,
        le=20,
    )
    tokens: int = Field(
        default=400,
        title="Answer tokens",
        description="Maximum tokens of an answer, reasoning included",
        ge=8,
        le=100_000,
    )
    price_in: float | None = Field(
        default=None, title="Price of input", description="Price of a million input tokens, for estimates", ge=0
    )
    price_out: float | None = Field(
        default=None, title="Price of output", description="Price of a million output tokens, for estimates", ge=0
    )
