"""The audit's estimated rates of false negatives, in words and as tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from blindspot.analysis.audit import Rate
from blindspot.backend.core.result_table import ResultTable, rich_tables
from blindspot.backend.judges.powered_success import RunSuccess
from blindspot.backend.judging.audits import Audit
from blindspot.backend.training_sets.training_set import cleaned_for

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study


def success_lines(study: Study, success: RunSuccess) -> Iterator[str]:
    """Yield the estimated Success@k, and whether one of the judges behind it also cleaned the data that the run was
    trained on.
    """
    yield from success.sentences()
    cleaning = cleaned_for(study, success.run)
    if cleaning is not None and cleaning in [each.judge for each in success.judges]:
        yield (
            f"Judge {cleaning} also cleaned the training set of {success.run}: before and after training its scores are no "
            "independent witness; the labels are."
        )


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
