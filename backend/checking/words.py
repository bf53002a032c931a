"""The sentences about a check: the size of the file, its problems, the share of false negatives, what more labels change,
the rule, and what was changed. The card, the command and the page *Check* print them.
"""

from __future__ import annotations

from collections.abc import Sequence

from blindspot.backend.checking.facts import BatchSize, FileFacts, FileFinding
from blindspot.backend.checking.rules import RuleCurve
from blindspot.backend.checking.sample import RateEstimate, WidthForecast
from blindspot.backend.checking.writing import Changes
from blindspot.backend.text.number_words import noun_form, quantity


def size_lines(facts: FileFacts) -> list[str]:
    """Return the lines about the file's size: rows, questions, passages, pairs."""
    return [
        f"{quantity(facts.rows, 'row')}, {quantity(facts.questions, 'question')}, {quantity(facts.passages, 'passage')}",
        f"{quantity(facts.positives, 'positive pair')}, {quantity(facts.negatives, 'negative pair')} (each counted once)",
    ]


def finding_words(finding: FileFinding) -> str:
    lines = (
        f"; {noun_form(len(finding.lines), 'line')} {', '.join(f'{line:,}' for line in finding.lines)}"
        if finding.lines
        else ""
    )
    more = " ..." if finding.count > len(finding.lines) and finding.lines else ""
    return f"{finding.count:,} of {quantity(finding.of, finding.unit)} ({finding.share}): {finding.words}{lines}{more}"


def batch_words(batch: BatchSize) -> str:
    return (
        f"batches of {batch.size:,}: {batch.rows:.1%} of the rows have a false negative among the other rows' positives "
        f"({batch.pairs:,.0f} in an epoch)"
    )


def rate_words(rate: RateEstimate) -> str:
    """Return the share of false negatives and its interval in a sentence or two."""
    known = f" {rate.known_false:,} of them the file itself calls positive." if rate.known_false else ""
    if rate.estimate is None or rate.low is None or rate.high is None:
        return f"{quantity(rate.pairs, 'negative pair')}; none is judged yet.{known}"
    unsettled = f", {rate.unsettled:,} unsettled" if rate.unsettled else ""
    return (
        f"{rate.estimate:.1%} of {quantity(rate.pairs, 'negative pair')} are false, {rate.low:.1%} to {rate.high:.1%} "
        f"({rate.level:.0%} interval, valid whenever one stops).{known} Judged by {rate.by}: "
        f"{quantity(rate.judged, 'pair')}, {rate.false:,} false{unsettled}."
    )


def forecast_words(rate: RateEstimate, forecasts: Sequence[WidthForecast]) -> str:
    """Return what the next labels are expected to change, in a sentence; "" where nothing can be said."""
    if rate.half_width is None or not forecasts:
        return ""
    first, *others = forecasts
    more = "".join(f"; {each.labels} to {100 * each.half_width:.1f}" for each in others)
    return (
        f"What more labels change: the interval is {100 * rate.half_width:.1f} points each way. The next {first.labels} labels are "
        f"expected to bring it to {100 * first.half_width:.1f} (in 90% of simulated samples {100 * first.low:.1f} to "
        f"{100 * first.high:.1f}){more}."
    )


def rule_words(curve: RuleCurve) -> str:
    """Return a sentence about the chosen rule: the mining argument to paste, and the guaranteed maximum share of false
    negatives.
    """
    assert curve.chosen is not None
    row = curve.rows[curve.chosen]
    paste = row.rule.argument or f"blindspot check --out --rule {row.rule.as_text()}"
    promise = "" if curve.promise is None else f", at most {curve.promise:.1%} for all rows together"
    return (
        f"The rule that keeps a negative if {row.rule.condition} leaves {quantity(row.kept, 'negative pair')}, of which "
        f"{row.false_share:.1%} are false ({row.low:.1%} to {row.high:.1%}{promise}), and "
        f"{quantity(row.questions_emptied, 'question')} without a negative; paste `{paste}`"
    )


def paste_words(curve: RuleCurve) -> str:
    """Return a sentence about the best rule that `mine_hard_negatives` accepts if the chosen rule is the judge; else
    "".
    """
    if curve.to_paste is None or curve.to_paste == curve.chosen:
        return ""
    row = curve.rows[curve.to_paste]
    return (
        f"The best rule to mine with: `{row.rule.argument}` keeps {quantity(row.kept, 'negative pair')}, of which "
        f"{row.false_share:.1%} are false ({row.low:.1%} to {row.high:.1%})"
    )


def change_lines(changes: Changes) -> Sequence[str]:
    lines = [
        f"{quantity(changes.count(what), 'negative')} {what}"
        for what in ("relabelled", "dropped")
        if changes.count(what)
    ]
    if changes.unfilled:
        lines.append(
            f"{quantity(changes.unfilled, 'row')} went with a false negative: the question has no other negative to put "
            "in its place"
        )
    return lines or ["nothing"]
