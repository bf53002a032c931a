"""The sentences about a check: the size of the file, its problems, the share of false negatives, what more labels change,
the rule, and what was changed. The command and the page *Check* print them, and the card of a cleaned file.
"""

from __future__ import annotations

from collections.abc import Sequence

from blindspot.backend.checking.cleaned_file import Changes, Outcome
from blindspot.backend.checking.facts import BatchSize, FileFacts, FileFinding
from blindspot.backend.checking.rules import MiningRule, RuleCurve, RuleRow
from blindspot.backend.checking.sample import ASSUMED, RateEstimate, WidthForecast
from blindspot.backend.core.result_table import stated_interval
from blindspot.backend.text.number_words import noun_form, quantity

NO_FAULTS = "No doubled rows, empty or cut texts, questions without positives or negatives, or negatives that the file calls positive."
WEIGHTED = "The rate is not the share of the judged pairs that are false: suspicious pairs are drawn up to twice as often and weigh less."
NOT_CHECKED = (
    "Positives were assumed to be correct.",
    "Pairs that nobody judged are as in the original file, except those that a rule dropped. An answer is what these judges call an answer; their own mistakes are part of the estimate.",
    "In-batch negatives were compared by their texts alone: identical questions, identical and near-identical positives.",
)


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
    later = f" {later_words(rate)}" if rate.later else ""
    if rate.estimate is None or rate.low is None or rate.high is None:
        return f"{quantity(rate.pairs, 'negative pair')}; none is judged yet.{known}{later}"
    unsettled = f", {rate.unsettled:,} unsettled" if rate.unsettled else ""
    return (
        f"{rate.estimate:.1%} of {quantity(rate.pairs, 'negative pair')} are false, {rate.low:.1%} to {rate.high:.1%} "
        f"({rate.level:.0%} interval, valid whenever one stops).{known} Judged by {rate.by}: "
        f"{quantity(rate.judged, 'pair')}, {rate.false:,} false{unsettled}. {WEIGHTED}{later}"
    )


def later_words(rate: RateEstimate) -> str:
    """Return what becomes of the labels that do not count yet, in a sentence."""
    them = noun_form(rate.later, "it", "them")
    return (
        f"{quantity(rate.later, 'further label')} {noun_form(rate.later, 'is', 'are')} of pairs that were drawn later. The rate "
        f"counts {them} when the pairs before {them} are judged; a cleaned file uses {them} at once."
    )


def forecast_words(rate: RateEstimate, forecasts: Sequence[WidthForecast]) -> str:
    """Return what the next labels are expected to change, in a sentence; "" where nothing can be said."""
    if rate.half_width is None or not forecasts:
        return ""
    first, *others = forecasts
    more = "".join(
        f"; {each.labels} to {200 * each.half_width:.1f} ({200 * each.low:.1f} to {200 * each.high:.1f})"
        for each in others
    )
    return (
        f"What more labels change: the interval is {200 * rate.half_width:.1f} points wide. The next {first.labels} labels are "
        f"expected to bring it to {200 * first.half_width:.1f} (in 90% of simulated samples {200 * first.low:.1f} to "
        f"{200 * first.high:.1f}){more}."
    )


def planned_words(widths: Sequence[tuple[int, float, float]]) -> str:
    """Return how wide the interval will be after the first labels, in a sentence; "" where nothing can be said."""
    if not widths:
        return ""
    least, most = ASSUMED
    after = ", ".join(f"{200 * low:.0f} to {200 * high:.0f} points wide after {labels}" for labels, low, high in widths)
    return f"The rate's interval will be about {after} labels (simulated for rates of {least:.0%} and {most:.0%})."


def rule_words(curve: RuleCurve) -> str:
    """Return a sentence about the chosen rule: the mining argument to paste, and the guaranteed maximum share of false
    negatives.
    """
    row = curve.best
    assert row is not None
    paste = f"paste `{row.rule.argument}`" if row.rule.argument else f"apply it with `--rule {row.rule.as_text()}`"
    return (
        f"The rule that keeps a negative if {row.rule.condition} leaves {_kept_words(row, curve)}, and "
        f"{quantity(row.questions_emptied, 'question')} without a negative; {paste}"
    )


def paste_words(curve: RuleCurve) -> str:
    """Return a sentence about the best rule that `mine_hard_negatives` accepts if the chosen rule is the judge; else
    "".
    """
    if curve.to_paste is None or curve.to_paste == curve.chosen:
        return ""
    row = curve.rows[curve.to_paste]
    scale = " (on the scale of this file's scores)" if row.rule.is_on_scale else ""
    return f"The best rule to mine with: `{row.rule.argument}`{scale} keeps {_kept_words(row, curve)}"


def bounds_words(curve: RuleCurve) -> str:
    """Return the bounds of the chosen row, and whether they show that it tells false from true."""
    row = curve.best
    assert row is not None
    bounds = curve.bounds(row)
    approximate = (
        " These bounds are approximate: the rule is a model of these labels." if row.rule.name == "judge" else ""
    )
    established = curve.is_established(row)
    verdict = "The labels show" if established else "The labels do not show yet"
    advice = (
        ""
        if established
        else " It is the best guess so far, and judging on makes sure. Without a rule, only judged negatives change."
    )
    return (
        f"{verdict} that it tells false from true: allowing for the choice among {len(curve.rows)} rows by the same labels, and for "
        f"stopping when one likes, at least {bounds.drops_at_least:.1%} of what it drops are false, and at most {bounds.most:.1%} of "
        f"what it keeps.{approximate}{advice}"
    )


def _kept_words(row: RuleRow, curve: RuleCurve) -> str:
    return (
        f"{quantity(row.kept, 'negative pair')}, of which {row.false_share:.1%} are false ({row.low:.1%} to {row.high:.1%}, "
        f"at most {curve.bounds(row).most:.1%} allowing for the choice of the rule)"
    )


def change_lines(changes: Changes) -> Sequence[str]:
    lines = [
        f"{quantity(changes.count(what), 'negative')} {words}"
        for what, words in {"relabelled": "relabelled as positives", "dropped": "dropped"}.items()
        if changes.count(what)
    ]
    if changes.unfilled:
        lines.append(
            f"{quantity(changes.unfilled, 'row')} went with a false negative: the question has no other negative to put "
            "in its place"
        )
    return lines or ["nothing"]


def left_words(result: Outcome, rate: RateEstimate | None = None) -> str:
    """Return how many negatives a cleaned file has left, and how many of them are false, in a sentence; with `rate`, also
    how many are false in the file as it is.
    """
    interval = stated_interval(100 * result.low, 100 * result.high)
    if result.is_of_rule:
        interval = interval.replace("95%:", "95%, allowing for the choice of the rule:", 1)
    before = ""
    if rate is not None and rate.estimate is not None and rate.low is not None and rate.high is not None:
        before = f"; of the file as it is, {rate.estimate:.1%} {stated_interval(100 * rate.low, 100 * rate.high)}"
    emptied = (
        f"{quantity(result.questions_emptied, 'question')} {noun_form(result.questions_emptied, 'has', 'have')} none left"
        if result.questions_emptied
        else "Every question keeps a negative"
    )
    return (
        f"Of the {quantity(result.left, 'negative')} left, each counted once, about {result.false_share:.1%} are false "
        f"{interval}{before}. {emptied}."
    )


def overruled_words(row: RuleRow, result: Outcome) -> str:
    """Return what becomes of the negatives that a rule drops, since labels overrule it, in a sentence."""
    judged_false = row.dropped - result.by_rule - result.overruled
    return (
        f"Of the {row.dropped:,} that the rule drops, {judged_false:,} {noun_form(judged_false, 'was', 'were')} judged false; "
        f"{result.overruled:,} {noun_form(result.overruled, 'stays', 'stay')}, judged true; {result.by_rule:,} that nobody judged "
        f"{noun_form(result.by_rule, 'goes', 'go')}."
    )


def cleaning_card(
    name: str,
    form: str,
    facts: FileFacts,
    rate: RateEstimate | None,
    curve: RuleCurve,
    changes: Changes,
    rule: MiningRule | None,
    result: Outcome | None,
) -> str:
    """Return the card as Markdown. rule: the one that was applied. result: what the file has now."""
    applied = "No rule was applied." if rule is None else f"Applied: a negative is kept only if {rule.condition}."
    row = curve.row_of(rule)
    if row is not None:
        applied += f" It keeps {_kept_words(row, curve)}."
    left = [] if result is None else [f"- {left_words(result)}"]
    if row is not None and result is not None:
        left.insert(0, f"- {overruled_words(row, result)}")
    chosen = curve.best
    best = []
    if chosen is not None and chosen.rule != rule:
        best += [f"By the labels another rule is best. {rule_words(curve)}", ""]
    if chosen is not None:
        best += [f"Why it is the best: {curve.why}.", "", bounds_words(curve), "", paste_words(curve)]
    sections = {
        "The file": [f"- {form}", *(f"- {line}" for line in size_lines(facts))],
        "Seen at once": [f"- {finding_words(finding)}" for finding in facts.findings] or [f"- {NO_FAULTS}"],
        "Inside the batch": [f"- {batch_words(each)}" for each in facts.batches or ()],
        "False negatives": [rate_words(rate)] if rate is not None else ["Nobody judged any pair."],
        "Rule": [applied, *([""] if best else []), *best],
        "Changed": [*(f"- {line}" for line in change_lines(changes)), *left],
        "Not checked": [f"- {line}" for line in NOT_CHECKED],
    }
    parts = [f"# Checked training data: {name}", ""]
    for heading, lines in sections.items():
        if lines:
            parts += [f"## {heading}", "", *lines, ""]
    return "\n".join([*parts, "Made with Blindspot (`blindspot check`)."]) + "\n"
