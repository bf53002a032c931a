"""The settings of experiments, declared once for the commands, the jobs and the records."""

from __future__ import annotations

from typing import Any

from blindspot.backend.core.declared import Field, settings_class


@settings_class
class ExperimentSettings:
    """The settings of the papers' experiments. Each experiment lists the settings that it uses.

    Attributes:
        relations: of EntityQuestions.
        sets: question sets.
        batches, sizes: values that an experiment varies.
        training, cross, reader: settings that differ from the defaults of `DualEncoderSettings`, from RocketQA's
            `CrossEncoderSettings`, and from `ReaderSettings`.
    """

    start: str = Field(
        default="minilm",
        description="Encoder that every training starts from",
        json_schema_extra={"option": "--from"},
    )
    train: tuple[str, ...] = Field(default=("train",), description="Questions to train on: train or SET/train")
    on: str = Field(default="dev", description="Questions to measure on: dev, test, a question set, or SET/SPLIT")
    ks: tuple[int, ...] = Field(
        default=(5, 20, 100),
        description="Ranks at which success is measured",
        json_schema_extra={"option": "--k"},
    )
    seeds: tuple[int, ...] = Field(
        default=(0, 1, 2), description="Seeds to train with; use at least 3 to get an interval"
    )
    limit: int | None = Field(default=None, description="Maximum number of training questions, drawn", ge=1)
    measured: int | None = Field(
        default=None,
        description="Maximum number of questions to measure on, drawn",
        ge=1,
        json_schema_extra={"option": "--questions"},
    )
    relations: tuple[str, ...] = Field(
        default=(),
        description="Relation to use, in experiments that compare relations",
        json_schema_extra={"option": "--relation", "metavar": "ID"},
    )
    sets: tuple[str, ...] = Field(
        default=(),
        description="Question set to use, in experiments that compare question sets",
        json_schema_extra={"option": "--set"},
    )
    encoders: tuple[str, ...] = Field(
        default=(),
        description="Encoder of study.toml to use, in experiments that compare encoders",
        json_schema_extra={"option": "--encoder", "aliases": ["--passage-encoder"]},
    )
    depth: int = Field(default=100, description="Number of top ranks to mine negatives from", ge=1)
    batches: tuple[int, ...] = Field(
        default=(), description="Batch sizes to compare, in questions, in experiments that vary the batch size"
    )
    sizes: tuple[int, ...] = Field(
        default=(),
        description="Numbers of training questions to compare, in experiments that vary the training data",
    )
    training: tuple[tuple[str, Any], ...] = ()
    cross: tuple[tuple[str, Any], ...] = ()
    reader: tuple[tuple[str, Any], ...] = ()
    small: bool = Field(
        default=False,
        description="Use a tiny model and few questions. It shows that the experiment runs; its figures mean nothing",
    )
