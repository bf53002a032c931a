"""Describe the facts and the precision of a log in words, for the terminal and the app."""

from __future__ import annotations

from blindspot.backend.checking.golden_sets import LogFacts, LogPrecision
from blindspot.backend.core.result_table import stated_interval
from blindspot.backend.text.number_words import quantity


def fact_lines(facts: LogFacts) -> list[str]:
    lines = [
        f"{quantity(facts.events, 'question')} asked, {facts.questions:,} of them distinct; "
        f"{quantity(facts.chunks, 'distinct chunk')}, {facts.depth} for a question at the median"
    ]
    if facts.without_chunks:
        lines.append(
            f"nothing came back for {quantity(facts.without_chunks, 'question')} ({facts.without_chunks / facts.events:.1%})"
        )
    if facts.identical:
        lines.append(f"{quantity(facts.identical, 'chunk')} with the same text as another one, under another id")
    if facts.near_identical > facts.identical:
        lines.append(
            f"{quantity(facts.near_identical, 'chunk')} nearly identical to another one (90% of the 5-word sequences)"
        )
    if facts.fields:
        lines.append(f"fields for slices and filters: {', '.join(facts.fields)}")
    return lines


def precision_words(precision: LogPrecision | None) -> str:
    """Return a sentence or two about the precision of the log and its interval."""
    if precision is None or precision.precision is None or precision.precision.value is None:
        return "No question of the sample is judged completely yet."
    share, unanswered = precision.precision, precision.unanswered
    between = (
        "" if share.low is None or share.high is None else f" {stated_interval(100 * share.low, 100 * share.high)}"
    )
    words = (
        f"{share.value:.0%} of the first {precision.k} chunks answer{between}, from {quantity(precision.judged, 'question')} drawn at "
        f"random and {quantity(share.passages, 'judged chunk')}."
    )
    if unanswered is not None:
        words += (
            f" Nothing that came back answers {unanswered.mean:.0%} of the questions "
            f"{stated_interval(100 * unanswered.low, 100 * unanswered.high)}."
        )
    return words
