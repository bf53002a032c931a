"""Tables of `blindspot judge measure`: a comparison of judges, and one judge in detail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from blindspot.analysis.judge_quality import CUT, MISSED_POSITIVES, RIGHT_POSITIVES
from blindspot.app.terminal_tables import console, print_rows
from blindspot.backend.core.result_table import ResultTable, rich_tables
from blindspot.backend.text.number_words import quantity

if TYPE_CHECKING:
    from blindspot.analysis.audit import Rate
    from blindspot.analysis.judge_quality import JudgeFigures
    from blindspot.backend.judges.measuring import JudgeTable


def print_judges(judge_table: JudgeTable) -> None:
    """Print a row for each judge, and the pairs on which its figures are measured."""
    rows = []
    for judge in judge_table.judges:
        figures = judge.figures
        about = [judge.name, judge.kind, 0 if figures is None else figures.pairs, _cost(judge.cost)]
        if figures is None:
            rows.append([*about, *[None] * 5])
            continue
        cut, agreed = figures.at_decision_threshold, figures.kappa
        bounded = (figures.auc, figures.auc_low, figures.auc_high), (agreed.value, agreed.low, agreed.high)
        rates = (rate_text(rate) for rate in (cut.precision, cut.recall, cut.missed))
        rows.append([*about, *(_value_with_interval(*each) for each in bounded), *rates])
    notes = [
        f"Measured on {quantity(judge_table.pairs, 'pair')} of {quantity(judge_table.questions, 'question')}: {judge_table.sample_words}. "
        "95% intervals over questions.",
        f"Precision, recall and missed (positives among what scores lower) at a score of {CUT:g}. Cost: price of a "
        "label.",
    ]
    heads = ["judge", "kind", "pairs", "cost", "AUC", "kappa", "precision %", "recall %", "missed %"]
    print_rows(heads, rows, notes)


def print_judge(judge_figures: JudgeFigures) -> None:
    """Print the confusion, the thresholds, the calibration and the trusted groups of one judge."""
    confusion = [[label, *counts] for label, counts in judge_figures.confusion.items()]
    thresholds = [
        [f"{each.threshold:g}", *(rate_text(rate) for rate in (each.precision, each.recall, each.missed))]
        for each in judge_figures.thresholds
    ]
    calibration = [
        [f"{each.low:.1f}–{each.high:.1f}", f"{each.mean:.2f}", rate_text(each.positive), each.positive.passages]
        for each in judge_figures.calibration
    ]
    trust = [
        [
            "all" if by == "all" else f"{by} {group.group}",
            rate_text(group.precision),
            group.positives,
            rate_text(group.missed),
            group.negatives,
        ]
        for by, groups in judge_figures.trust.items()
        for group in groups
    ]
    tables = (
        ResultTable("", ["people say", *(f"score {grade}" for grade in judge_figures.grades)], confusion),
        ResultTable("", ["from score", "precision %", "recall %", "missed %"], thresholds),
        ResultTable("", ["scores", "mean score", "positive %", "pairs"], calibration),
        ResultTable("", ["group", "precision %", "positives", "missed %", "negatives"], trust),
    )
    note = (
        f"Trust its positives: at least {RIGHT_POSITIVES:.0%} are right. Trust its negatives: at most "
        f"{MISSED_POSITIVES:.0%} answer. yes and no are what the whole interval says."
    )
    console.print(rich_tables(tables, [note]))


def rate_text(rate: Rate) -> str:
    """A share in per cent with its interval and n."""
    if rate.value is None:
        return "–"
    interval = "" if rate.low is None or rate.high is None else f" [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"
    return f"{100 * rate.value:.1f}{interval} n = {rate.passages:,} passages"


def _value_with_interval(value: float | None, low: float | None, high: float | None) -> str | None:
    if value is None:
        return None
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f} [{low:.2f}, {high:.2f}]"


def _cost(cost: float | None) -> str:
    return "unknown" if cost is None else "0" if cost == 0 else f"{cost:.5f}"
