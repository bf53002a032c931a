"""What a report, a comparison and a count of causes measure, declared once: for commands, pages, HTTP and agents.

(The modules that measure import numpy, which a command's help should not.)
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
    """By what an oracle chooses."""

    k: int | None = Field(default=None, description="Cut-off; default 5; 10 for measures other than success", ge=1)
    relevance: RelevantBy = "answers"
    rule: Rule = DEFAULT_RULE
    measure: str = Field(
        default="success", description=f"Measure: {MEASURES}", json_schema_extra={"metavar": "MEASURE"}
    )


@settings_class
class ReportOptions:
    """What a report measures."""

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
    """What to count causes by. The default k is less in runs that are less deep."""

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
    """What to compare two runs by.

    A measure that needs all relevant passages of a question makes relevance by answers gold, and a note says so. The
    default k is less in runs that are less deep.

    hidden: questions to leave out, because the reader still has to judge them.
    evidence: whether causes of misses in slices may use people's labels; see `Comparison`.
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
    hidden: frozenset[str] = frozenset()
    evidence: bool = True


COMPARED = ("k", "by", "slice", "measure", "relevance", "rule")
"""The options of comparisons that people choose."""
