"""The settings of imports of questions and runs, declared once for the commands and the jobs."""

from __future__ import annotations

from typing import Literal

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.text.default_rule import DEFAULT_RULE


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
