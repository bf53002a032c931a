"""The settings of gold checks, declared once for the commands, the pages and the batches."""

from __future__ import annotations

from typing import Literal

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.evaluation.settings import HEADLINE_K, RelevantBy, Rule
from blindspot.backend.text.default_rule import DEFAULT_RULE

Population = Literal["misses", "hits", "training"]


@settings_class
class GoldCheck:
    """The settings of a gold check. of: the run or the training set to check ("" for all training questions). Equal
    checks have the same claims and the same draws.
    """

    population: Population = Field(
        default="misses",
        description="Gold of the questions that the run misses, relevant hits of those it finds, or gold that trains",
        json_schema_extra={"option": "--of"},
    )
    of: str = ""
    k: int = Field(default=HEADLINE_K, description="Cut-off of a miss or a find", ge=1)
    relevance: RelevantBy = "answers"
    rule: Rule = DEFAULT_RULE
    judge: str = Field(
        default="",
        description="Judge whose scores steer the draws; default the one with most scores",
        json_schema_extra={"metavar": "NAME"},
    )
    seed: int = Field(default=0, description="Seed of the random draw", ge=0)

    @property
    def about(self) -> tuple[object, ...]:
        """Return the population whose share of doubtful claims is estimated, regardless of how claims are drawn."""
        return (self.population, self.of) if self.population == "training" else (self.population, self.of, self.k)
