"""The audit's estimated rates of false negatives, in words and as tables: from labels alone, and with each judge's
scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from blindspot.analysis.audit import Rate
from blindspot.analysis.prediction_powered import PoweredRate
from blindspot.backend.core.result_table import ResultTable, rich_tables
from blindspot.backend.judges.powered_audit import JudgeAssistedAudit
from blindspot.backend.judges.powered_success import RunSuccess
from blindspot.backend.judging.audits import Audit
from blindspot.backend.training_sets.training_set import cleaned_for

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study


def powered_words(audit: JudgeAssistedAudit) -> str:
    """Return a judge's rate of false negatives in words, or why there is none."""
    if audit.overall is None:
        return f"{audit.judge}: {audit.reason}." if audit.reason else f"{audit.judge}: no rate."
    rate = audit.overall
    if rate.value is None or rate.low is None or rate.high is None:
        return f"{audit.judge}: too few questions are judged ({rate.questions:,})."
    return (
        f"{100 * rate.value:.1f}% ({100 * rate.low:.1f} to {100 * rate.high:.1f}), {rate.labelled:,} labelled passages of "
        f"{rate.questions:,} questions and {rate.scored:,} scored ones, judge {audit.judge}, lambda {rate.weight:.2f} "
        f"(its scores alone say {100 * rate.predicted:.1f}%)"
    )


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


def print_audit(audit: Audit, powered: Sequence[JudgeAssistedAudit]) -> None:
    """Print the rates of false negatives: first from labels alone, then with each judge's scores."""
    from blindspot.app.console import Terminal

    assert audit.overall is not None
    print(
        f"False negatives among the unlabelled passages that the audit was drawn from: {_rate_words(audit.overall.positive)}"
    )
    for each in powered:
        print(f"  with a judge: {powered_words(each)}")
    helping = [each for each in powered if each.overall is not None]
    tables = []
    for kind, groups in audit.by.items():
        rows = []
        for group, rates in groups.items():
            rate = rates.positive
            cells = [_interval_words(each.by.get(kind, {}).get(group)) for each in helping]
            rows.append([group, rate.questions, rate.passages, _interval_words(rate), *cells])
        heads = [kind, "questions", "passages", "labels alone, %", *(f"with {each.judge}, %" for each in helping)]
        tables += [ResultTable("", heads, rows)] if rows else []
    Terminal().print(rich_tables(tables, []))


def _rate_words(rate: Rate) -> str:
    shown = _interval_words(rate)
    return f"{shown}, n = {rate.passages:,} passages of {rate.questions:,} questions, labels alone"


def _interval_words(rate: Rate | PoweredRate | None) -> str:
    if rate is None or rate.value is None:
        return "-"
    if rate.low is None or rate.high is None:
        return f"{100 * rate.value:.1f}"
    return f"{100 * rate.value:.1f} ({100 * rate.low:.1f} to {100 * rate.high:.1f})"
