"""Tables of `blindspot judge measure`: judges beside each other, and one judge in detail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Column, Table

from blindspot.analysis.judge_quality import CUT, MISSED_POSITIVES, RIGHT_POSITIVES
from blindspot.app.console import Terminal
from blindspot.backend.core.result_table import ResultTable, rich_tables
from blindspot.backend.text.counting import counted

if TYPE_CHECKING:
    from blindspot.analysis.audit import Rate
    from blindspot.analysis.judge_quality import JudgeFigures
    from blindspot.backend.judges.measuring import JudgeTable

console = Terminal(highlight=False)


def print_judges(found: JudgeTable) -> None:
    """Print the judges below each other, with what their figures are measured on."""
    names = ("AUC", "kappa", "precision\n%", "recall\n%", "missed\n%")
    table = Table(Column("judge", overflow="fold"), *(Column(name, justify="right", no_wrap=True) for name in names))
    table.show_lines = True
    for judge in found.judges:
        figures = judge.figures
        n = 0 if figures is None else figures.pairs
        about = f"{judge.name}\n{judge.kind}\n{counted(n, 'pair')}\ncost {_cost(judge.cost)}"
        if figures is None:
            table.add_row(escape(about), *["–"] * len(names))
            continue
        cut, agreed = figures.at_cut, figures.kappa
        table.add_row(
            escape(about),
            _bounded(figures.auc, figures.auc_low, figures.auc_high),
            _bounded(agreed.value, agreed.low, agreed.high),
            *(_stacked(rate) for rate in (cut.precision, cut.recall, cut.missed)),
        )
    console.print(table)
    print(
        f"Measured on {counted(found.pairs, 'pair')} of {counted(found.questions, 'question')}: {found.about}. "
        "95% intervals over questions."
    )
    print(
        f"Precision, recall and missed (positives among what scores lower) at a score of {CUT:g}. Cost: price of a "
        "label."
    )


def print_judge(figures: JudgeFigures) -> None:
    """Print the confusion, thresholds, calibration and trust of one judge."""
    confusion = [[label, *counts] for label, counts in figures.confusion.items()]
    thresholds = [
        [f"{each.threshold:g}", *(rate_text(rate) for rate in (each.precision, each.recall, each.missed))]
        for each in figures.thresholds
    ]
    calibration = [
        [f"{each.low:.1f}–{each.high:.1f}", f"{each.mean:.2f}", rate_text(each.positive), each.positive.passages]
        for each in figures.calibration
    ]
    trust = [
        [
            "all" if by == "all" else f"{by} {group.group}",
            rate_text(group.precision),
            group.positives,
            rate_text(group.missed),
            group.negatives,
        ]
        for by, groups in figures.trust.items()
        for group in groups
    ]
    tables = (
        ResultTable("", ["people say", *(f"score {grade}" for grade in figures.grades)], confusion),
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
    """A share in percent with its interval and n."""
    if rate.value is None:
        return "–"
    interval = "" if rate.low is None or rate.high is None else f" [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"
    return f"{100 * rate.value:.1f}{interval} n={rate.passages:,}"


def _stacked(rate: Rate) -> str:
    """A share, its interval and its n below each other."""
    if rate.value is None:
        return "–"
    interval = "" if rate.low is None or rate.high is None else f"\n{100 * rate.low:.1f}–{100 * rate.high:.1f}"
    return f"{100 * rate.value:.1f}{interval}\nn={rate.passages:,}"


def _bounded(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f}\n{low:.2f}–{high:.2f}"


def _cost(cost: float | None) -> str:
    return "unknown" if cost is None else "0" if cost == 0 else f"{cost:.5f}"
