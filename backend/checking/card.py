"""Put together the card of a cleaned training file: the problems, the share of false negatives, who judged, and what was
not checked. Its sentences are in `words.py`.
"""

from __future__ import annotations

from blindspot.backend.checking.facts import FileFacts
from blindspot.backend.checking.rules import RuleCurve
from blindspot.backend.checking.sample import RateEstimate
from blindspot.backend.checking.words import (
    batch_words,
    change_lines,
    finding_words,
    paste_words,
    rate_words,
    rule_words,
    size_lines,
)
from blindspot.backend.checking.writing import Changes

NOT_CHECKED = (
    "Positives were assumed to be correct.",
    "Pairs that nobody judged are as in the original file. An answer is what these judges call an answer; their own mistakes are part of the estimate.",
    "In-batch negatives were compared by their texts alone: identical questions, identical and near-identical positives.",
)


def cleaning_card(
    name: str, form: str, facts: FileFacts, rate: RateEstimate | None, curve: RuleCurve, changes: Changes
) -> str:
    """Return the card as Markdown."""
    rule = [] if curve.chosen is None else [rule_words(curve), "", f"Why: {curve.why}.", "", paste_words(curve)]
    sections = {
        "The file": [f"- {form}", *(f"- {line}" for line in size_lines(facts))],
        "Seen at once": [f"- {finding_words(finding)}" for finding in facts.findings] or ["- nothing"],
        "Inside the batch": [f"- {batch_words(each)}" for each in facts.batches or ()],
        "False negatives": [rate_words(rate)] if rate is not None else ["Nobody judged any pair."],
        "Rule": rule,
        "Changed": [f"- {line}" for line in change_lines(changes)],
        "Not checked": [f"- {line}" for line in NOT_CHECKED],
    }
    parts = [f"# Checked training data: {name}", ""]
    for heading, lines in sections.items():
        if lines:
            parts += [f"## {heading}", "", *lines, ""]
    return "\n".join([*parts, "Made with Blindspot (`blindspot check`)."]) + "\n"
