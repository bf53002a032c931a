"""Tables of `blindspot judge measure`: judges beside each other, and one judge in detail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Column, Table

from blindspot.analysis.judge_quality import CUT, MISSED_POSITIVES, RIGHT_POSITIVES
from blindspot.app.console import Terminal
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
    table = Table("people say", *(Column(f"score {grade}", justify="right") for grade in figures.grades))
    for label, counts in figures.confusion.items():
        table.add_row(label, *(f"{count:,}" for count in counts))
    console.print(table)
    table = Table(*(Column(name, justify="right") for name in ("from score", "precision %", "recall %", "missed %")))
    for each in figures.thresholds:
        table.add_row(f"{each.threshold:g}", rate_text(each.precision), rate_text(each.recall), rate_text(each.missed))
    console.print(table)
    table = Table(*(Column(name, justify="right") for name in ("scores", "mean score", "positive %", "pairs")))
    for each_bin in figures.calibration:
        span = f"{each_bin.low:.1f}–{each_bin.high:.1f}"
        table.add_row(span, f"{each_bin.mean:.2f}", rate_text(each_bin.positive), f"{each_bin.positive.passages:,}")
    console.print(table)
    table = Table(
        "group", Column("precision %", justify="right"), "positives", Column("missed %", justify="right"), "negatives"
    )
    for by, groups in figures.trust.items():
        for group in groups:
            name = "all" if by == "all" else f"{by} {group.group}"
            table.add_row(
                escape(name), rate_text(group.precision), group.positives, rate_text(group.missed), group.negatives
            )
    console.print(table)
    print(
        f"Trust its positives: at least {RIGHT_POSITIVES:.0%} are right. Trust its negatives: at most "
        f"{MISSED_POSITIVES:.0%} answer. yes and no are what the whole interval says."
    )


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
