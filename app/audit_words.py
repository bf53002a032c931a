"""The audit's estimated rates of false negatives, in words and as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blindspot.analysis.audit import Rate
from blindspot.backend.core.result_table import ResultTable, rich_tables
from blindspot.backend.judging.audits import Audit

if TYPE_CHECKING:
    pass


def print_audit(audit: Audit) -> None:
    """Print the rates of false negatives."""
    from blindspot.app.console import Terminal

    assert audit.overall is not None
    print(
        f"False negatives among the unlabelled passages that the audit was drawn from: {_rate_words(audit.overall.positive)}"
    )
    tables = []
    for kind, groups in audit.by.items():
        rows = [
            [group, rates.positive.questions, rates.positive.passages, _interval_words(rates.positive)]
            for group, rates in groups.items()
        ]
        heads = [kind, "questions", "passages", "false negatives, %"]
        tables += [ResultTable("", heads, rows)] if rows else []
    Terminal().print(rich_tables(tables, []))


def _rate_words(rate: Rate) -> str:
    shown = _interval_words(rate)
    return f"{shown}, n = {rate.passages:,} passages of {rate.questions:,} questions"


def _interval_words(rate: Rate) -> str:
    if rate.value is None:
        return "-"
    if rate.low is None or rate.high is None:
        return f"{100 * rate.value:.1f}"
    return f"{100 * rate.value:.1f} ({100 * rate.low:.1f} to {100 * rate.high:.1f})"
