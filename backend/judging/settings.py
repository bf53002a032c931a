"""The settings of a batch to judge, declared once for the command, the form, the job and HTTP."""

from __future__ import annotations

from typing import Literal

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.text.default_rule import DEFAULT_RULE

CANDIDATES = 8
Order = Literal["priority", "random"]
ORDERS: tuple[Order, ...] = ("priority", "random")


@settings_class
class ArmShares:
    """The shares of the arms, from 0 to 1. The priority arm gets the remaining share, and also the places that other
    arms cannot fill.
    """

    audit: float = 0.10
    second: float = 0.10
    repeat: float = 0.05


@settings_class
class BatchSettings:
    """The questions of a batch, and how their passages are chosen."""

    size: int = Field(default=100, title="Questions", description="Number of questions", ge=1)
    depth: int = Field(default=20, title="Depth", description="Number of top ranks pooled from each run", ge=1)
    candidates: int = Field(
        default=CANDIDATES,
        title="Passages per question",
        description="Maximum number of passages shown for a question",
        ge=1,
    )
    splits: tuple[Literal["train", "dev", "test", "unlabelled"], ...] | None = Field(
        default=None,
        description="Split of the questions: train, dev, test or unlabelled; default all",
        json_schema_extra={"option": "--split"},
    )
    slice: tuple[str, ...] | None = Field(
        default=None, description="Ids of the questions; default all that the runs searched"
    )
    people_needed: int = Field(
        default=1,
        title="People per question",
        description="Number of people who judge each question of the priority and audit arms",
        ge=1,
        json_schema_extra={"option": "--people"},
    )
    mix: ArmShares = Field(default=ArmShares(), description="Shares of the arms")
    seed: int = Field(default=0, title="Seed", description="Seed of the random draw", ge=0, le=2**31 - 1)
    rule: str = Field(default=DEFAULT_RULE, description="Rule by which a passage contains an answer")
    order: Order = Field(
        default="priority",
        title="Order",
        description="Order of the priority arm: whole questions by priority (false negatives that do most harm), or "
        "pairs at random",
    )
    pairs: int | None = Field(
        default=None,
        title="Passages in all",
        description="With the order random: maximum number of passages in the priority arm",
        ge=1,
    )
