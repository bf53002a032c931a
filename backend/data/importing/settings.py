"""The settings of imports of questions, triples and runs, declared once for the commands and the jobs."""

from __future__ import annotations

from typing import Literal

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.text.default_rule import DEFAULT_RULE


@settings_class
class QuestionSampling:
    """Which facts become questions. A larger `most` keeps all facts that a smaller one draws and adds more."""

    split: Literal["train", "dev", "test"] | None = Field(
        default=None, description="Split of all questions: train, dev or test; default 80% train, 10% dev, 10% test"
    )
    least: int = Field(
        default=2000, description="Minimum number of facts of a relation; relations with fewer are left out", ge=1
    )
    least_answers: int = Field(
        default=20,
        description="Minimum number of different answers of a relation; relations with fewer are left out",
        ge=1,
    )
    most: int = Field(
        default=1000,
        description="Maximum number of questions of a relation in dev and in test; train gets eight times as many",
        ge=1,
    )
    gold: bool = Field(default=True, description="Make passages that name the subject and contain an answer gold")
    seed: int = Field(default=0, description="Seed of the random draw")


@settings_class
class QuestionImport:
    """Selects the questions of a file that are imported: those with the given split and data set. Questions for which
    the file states neither are imported too, and get this split and data set.
    """

    split: str | None = Field(
        default=None,
        description="Split of the questions if the file names none: train, dev, test or unlabelled",
    )
    dataset: str | None = Field(default=None, description="Name of the question set if the file names none")
    gold: str = Field(
        default="all",
        description="Gold passages to keep: all of them, or one for each question (the others then count as unlabelled)",
    )


@settings_class
class RunImport:
    """Which questions and hits of a run file are imported."""

    split: str | None = Field(
        default=None, description="Questions that the run covers; those missing from the file count as not found"
    )
    rule: str = Field(
        default=DEFAULT_RULE,
        description="Answer matching rule of the hits: dpr, regex, entityquestions or rocketqa_mining; flags in the file "
        "are compared with it and not used",
    )
    ties: Literal["id", "row", "file"] = Field(
        default="file",
        description="Order of passages with equal scores: by passage id (as Pyserini does), by row of the collection, or "
        "in the order of the file",
    )
    replace: bool = Field(default=False, description="Replace the run of this name if it exists")
    skip_bad: bool = Field(
        default=False,
        description="Skip invalid rows and write them to a file. Without this option an invalid row stops the import",
    )
    without_own_passage: bool = Field(
        default=False,
        description="Leave the passage with a question's own id out of its list, as BEIR does (ArguAna, Quora)",
    )
