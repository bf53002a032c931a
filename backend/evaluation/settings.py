"""The options of a report, of a comparison and of a count of causes, declared once for commands and pages.

They are in a separate module because a command's help reads them and should not import numpy.
"""

from __future__ import annotations

from typing import Annotated, Literal

from blindspot.backend.core.declared import Field, settings_class
from blindspot.backend.text.default_rule import DEFAULT_RULE

Kind = Literal["answers", "gold", "labels"]
By = Literal["relation", "bucket", "slice"]
MEASURES = "success, mrr, ndcg, map, recall or r-precision (see docs/compare.md)"
HEADLINE_K = 5
"""The default k of Success@k: on every page, and in every command that counts misses."""

RelevantBy = Annotated[
    Kind,
    Field(
        description="Passages that count as relevant: those with an answer, the gold passages, or gold corrected by labels"
    ),
]
Rule = Annotated[str, Field(description="Answer matching rule")]


@settings_class
class OracleOptions:
    """The measure and relevance by which an oracle chooses between runs."""

    k: int | None = Field(default=None, description="Cut-off; default 5; 10 for measures other than success", ge=1)
    relevance: RelevantBy = "answers"
    rule: Rule = DEFAULT_RULE
    measure: str = Field(
        default="success", description=f"Measure: {MEASURES}", json_schema_extra={"metavar": "MEASURE"}
    )


@settings_class
class ReportOptions:
    """The options of a report on runs."""

    runs: tuple[str, ...] | None = Field(
        default=None, description="Run to report; default all", json_schema_extra={"option": "--run", "metavar": "RUN"}
    )
    by: Literal["relation", "bucket", "split", "slice"] | None = Field(
        default=None,
        description="Add a table by this grouping",
        json_schema_extra={"metavar": "relation|frequency|split|slice"},
    )
    relevance: RelevantBy = "answers"
    rule: Rule = DEFAULT_RULE
    ks: tuple[int, ...] = Field(default=(1, 5, 20, 100), description="Cut-offs", json_schema_extra={"option": "--k"})
    measures: tuple[str, ...] = Field(
        default=(),
        description=f"Measure to report instead: {MEASURES}",
        json_schema_extra={"option": "--measure", "metavar": "MEASURE"},
    )


@settings_class
class MissOptions:
    """The options for counting causes of misses. The default k is smaller if a run has fewer hits per question."""

    k: int | None = Field(default=None, description="Cut-off of a miss; default 5", ge=1)
    relevance: RelevantBy = "answers"
    rule: Rule = DEFAULT_RULE
    slice: str = Field(
        default="",
        description="Count only these questions, as in 'first(bm25-dev)<=20'",
        json_schema_extra={"metavar": "EXPRESSION"},
    )


@settings_class
class ComparisonOptions:
    """The options for comparing two runs.

    If a measure needs all relevant passages of a question, relevance by gold is used instead of relevance by answers,
    and a note states this. The default k is smaller if a run has fewer hits per question.
    """

    k: int | None = Field(
        default=None,
        description="Cut-off of the groups and of the conclusion; default 5; 10 for measures other than success",
        ge=1,
    )
    by: By | None = Field(
        default=None,
        description="Add a table by this grouping",
        json_schema_extra={"metavar": "relation|frequency|slice"},
    )
    relevance: RelevantBy = "answers"
    rule: Rule = DEFAULT_RULE
    slice: str = Field(
        default="",
        description="Compare only these questions, as in 'relation:P19 and not bucket:0'",
        json_schema_extra={"metavar": "EXPRESSION"},
    )
    measure: str = Field(
        default="success", description=f"Measure to compare: {MEASURES}", json_schema_extra={"metavar": "MEASURE"}
    )
