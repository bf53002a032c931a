"""Describe slices in words: phrases for expressions, and sentences about found slices. Nested slices are merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.expressions import And, Condition, Expression, Not, NotAnExpression, parse
from blindspot.analysis.relations import RELATIONS
from blindspot.backend.core.result_table import signed_number, stated_interval
from blindspot.backend.evaluation.causes import CAUSES, Cause
from blindspot.backend.evaluation.comparison_words import lead_words, where_words
from blindspot.backend.evaluation.findings import bucket_words
from blindspot.backend.evaluation.miss_table import NONE
from blindspot.backend.evaluation.slice_finder import FoundSlice, FoundSlices
from blindspot.backend.evaluation.slices import Facts
from blindspot.backend.text.number_words import quantity

PARTS = (
    "lead established, at most half of the questions",
    "lead established, more than half of the questions",
    "lead not established",
)
"""The parts of the list of slices, in order. Slices of the last two say little about where the runs differ."""
CONTAINED = 0.9
"""A slice counts as nested in another slice if at least this share of its questions is in the other one."""
NUMBERS = {
    "length": "of {} words",
    "answer_length": "whose answer has {} words",
    "frequency": "whose subject is mentioned {} times",
    "bucket": "in frequency group {}",
}
SHARED = {
    ("<", 0.5): "with less than half of their words in the gold passage",
    (">=", 0.5): "with at least half of their words in the gold passage",
    ("<", 1): "with some words missing in the gold passage",
    ("=", 1): "with all their words in the gold passage",
}


def in_words(expression: str, k: int | None = None) -> str:
    """Return a slice's expression as a phrase about questions, such as "whose subject is mentioned once at most and of
    6 to 7 words". k: the cut-off of the causes of misses, where it should be said.

    A condition without a phrase, or an expression with "or", is returned unchanged.
    """
    try:
        parsed = parse(expression)
    except NotAnExpression:
        return f"in {expression}"
    parts = parsed.operands if isinstance(parsed, And) else (parsed,)
    ranges: dict[str, list[Condition]] = {}
    words = []
    for part in parts:
        if isinstance(part, Condition) and part.name in NUMBERS and part.operator not in (":", "!="):
            if part.name not in ranges:
                words.append(part.name)
            ranges.setdefault(part.name, []).append(part)
        elif (said := _condition_words(part, k)) not in words:
            words.append(said)
    said_parts = [NUMBERS[word].format(_range(ranges[word])) if word in ranges else word for word in words]
    shared = {SHARED[">=", 0.5], SHARED["<", 1]}
    if shared <= set(said_parts):
        said_parts = [each for each in said_parts if each not in shared]
        said_parts.append("with half or more, but not all, of their words in the gold passage")
    return " and ".join(said_parts).replace("1 words", "1 word")


def _condition_words(part: Expression, k: int | None = None) -> str:
    if isinstance(part, Not) and isinstance(part.operand, Condition) and part.operand.name == "answer_in_title":
        return "without the answer in a gold passage's title"
    if not isinstance(part, Condition):
        return f"with {part}"
    value = str(part.value)
    if part.name == "overlap" and (part.operator, part.value) in SHARED:
        return SHARED[str(part.operator), float(part.value)]  # type: ignore[arg-type]
    if part.name == "relation" and part.operator == ":":
        return f"that ask for {RELATIONS[value].label} ({value})" if value in RELATIONS else f"of relation {value}"
    if part.name == "first" and part.argument and part.operator in ("<=", ">"):
        return f"that {part.argument} {'finds' if part.operator == '<=' else 'misses'} in the top {part.value:g}"
    if part.name == "cause" and part.argument and value in (*CAUSES, NONE):
        top = "" if k is None else f" in the top {k}"
        cause = "without a measured cause" if value == NONE else f"with the cause “{CAUSES[Cause(value)].title}”"
        return f"that {part.argument} misses{top}, {cause}"
    if part.name == "group":
        return bucket_words(value) if "mentions" in value or value.startswith("bucket ") else f"with {value}"
    plain = {"set": f"of the set {value}", "word": f"with the question word “{value}”"}
    if part.name == "answer_in_title":
        return "with the answer in a gold passage's title"
    return plain.get(part.name, f"with {part}")


def _range(conditions: Sequence[Condition]) -> str:
    low = next((f"{each.value:g}" for each in conditions if each.operator in (">=", "=")), None)
    high = next((f"{each.value:g}" for each in conditions if each.operator in ("<=", "=")), None)
    if low == high and low is not None:
        return low
    if low is not None and high is not None:
        return f"{low} to {high}"
    if low is None and high is None:
        return " and ".join(f"{each.operator}{each.value:g}" for each in conditions)
    return f"{low} or more" if high is None else f"{high} or fewer"


def slice_sentence(found_slice: FoundSlice, names: tuple[str, str]) -> str:
    """Return which run is ahead in a slice and by how much, with the interval, as a sentence without its full stop.

    Args:
        names: of A and B.
    """
    figures = found_slice.figures
    on = f" on {quantity(figures.n, 'question')} {in_words(found_slice.expression)}"
    value, low, high = figures.difference.estimate.percent
    if round(value, 1):
        return lead_words(figures, *names, on)
    low, high = (low, high) if value > 0 else (-high, -low)
    where = where_words(figures.k, figures.measure)
    return f"{names[0]} and {names[1]} are level {where}{on} {stated_interval(low, high)}"


def leads_sentence(leads: Mapping[str, Estimate], k: int) -> str:
    """Return the differences beside a slice, A - B, each with its interval, in one sentence.

    Args:
        leads: by where the questions lie, such as "Elsewhere".
    """
    said = []
    for where, estimate in leads.items():
        value, low, high = estimate.percent
        said.append(f"{where} {signed_number(value)} {stated_interval(low, high, '+')}")
    return f"{', '.join(said)}: A \N{MINUS SIGN} B in points of Success@{k}."


def merge_nested(slices: FoundSlices, facts: Facts) -> list[tuple[FoundSlice, list[FoundSlice]]]:
    """Merge nested slices that differ in the same direction. Return each remaining slice with the slices merged into
    it.

    Of nested slices, the one with the largest effect remains. They are in the order of their parts (`part_of`), in each
    by contribution.
    """
    groups: list[tuple[FoundSlice, np.ndarray, list[FoundSlice]]] = []
    for each in slices.slices:
        mask, rises = facts.mask(each.expression), (each.figures.difference.estimate.value or 0.0) > each.outside
        for head, members, nested in groups:
            smaller = min(int(mask.sum()), int(members.sum())) or 1
            same = ((head.figures.difference.estimate.value or 0.0) > head.outside) == rises
            if same and (mask & members).sum() / smaller >= CONTAINED:
                nested.append(each)
                break
        else:
            groups.append((each, mask, []))
    groups.sort(key=lambda group: (part_of(group[0], slices.n), -abs(group[0].explained)))
    return [(head, nested) for head, _, nested in groups]


def part_of(found_slice: FoundSlice, question_count: int) -> int:
    """Return the place in PARTS of a slice of so many questions: by its size, but last if the interval of the difference
    in it contains 0.
    """
    estimate = found_slice.figures.difference.estimate
    if not estimate.value or (estimate.low or 0.0) <= 0 <= (estimate.high or 0.0):
        return 2
    return int(2 * found_slice.figures.n > question_count)
