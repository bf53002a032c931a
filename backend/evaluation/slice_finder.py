"""The slice finder: which groups of questions explain the difference between two runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.accuracy import found_by
from analysis.expressions import And, Condition, parse
from analysis.slices import MIN_QUESTIONS, Correction, Search, find
from backend.evaluation.comparison import Both, at
from backend.evaluation.slices import Facts

LENGTHS = ((None, 5), (6, 7), (8, 10), (11, None))
ANSWER_LENGTHS = ((1, 1), (2, 2), (3, None))


@dataclass(frozen=True, slots=True)
class FoundSlice:
    """A slice that explains a part of the difference.

    expression: as typed. figures: of both runs within it. explained, p, p_adjusted: as in `analysis.slices.Finding`.
    """

    expression: str
    figures: Both
    explained: float
    outside: float
    p: float
    p_adjusted: float


@dataclass(frozen=True, slots=True)
class FoundSlices:
    """slices: strongest first. tried: how many slices were tested. mean: the difference over all n questions."""

    slices: list[FoundSlice]
    tried: int
    n: int
    mean: float
    correction: str
    least: int


def find_slices(
    facts: Facts,
    rows: np.ndarray | None = None,
    most: int = 20,
    correction: Correction = "holm",
    least: int = MIN_QUESTIONS,
) -> FoundSlices:
    """Slices of the comparison (or of some of its questions) in which the difference is not what it is elsewhere.

    Tried are what is known of a question before anybody searches: relation, set, question word, frequency, lengths, and what its gold
    shares with it; and pairs of these. Ranks and tags are left out: they would explain the difference by itself.
    """
    compared, k = facts.comparison, facts.k
    kept = np.arange(len(compared)) if rows is None else np.arange(len(compared))[rows]
    difference = found_by(compared.first_a[kept], k).astype(np.int8) - found_by(compared.first_b[kept], k)
    expressions, families, masks = [], [], []
    for family, expression in candidates(facts):
        mask = facts.mask(expression)[kept]
        if least <= mask.sum() < len(kept):
            expressions.append(expression)
            families.append(family)
            masks.append(mask)
    predicates = np.array(masks, dtype=bool).reshape(len(masks), len(kept))
    found: Search = find(difference, predicates, families, most, correction=correction, least=least)
    slices = [
        FoundSlice(
            joined([expressions[member] for member in each.members]),
            at(compared, k, kept[predicates[list(each.members)].all(axis=0)]),
            each.explained, each.outside, each.p, each.p_adjusted,
        )
        for each in found.findings
    ]  # fmt: skip
    return FoundSlices(slices, found.tried, found.n, found.mean, correction, least)


def joined(expressions: list[str]) -> str:
    """Several expressions that must all hold, as one."""
    read = [parse(expression) for expression in expressions if expression.strip()]
    parts = tuple(part for each in read for part in (each.parts if isinstance(each, And) else (each,)))
    return str(parts[0]) if len(parts) == 1 else str(And(parts)) if parts else ""


def candidates(facts: Facts) -> list[tuple[str, str]]:
    """(family, expression) of every predicate worth trying; one family's members share few questions or none."""
    compared = facts.comparison
    made = [("relation", written("relation", each)) for each in np.unique(compared.relations).tolist() if each]
    made += [("set", written("set", each)) for each in np.unique(compared.sets).tolist()]
    made += [("word", written("word", each)) for each in np.unique(facts.questions.word).tolist()]
    made += [("group", written("group", each)) for each in np.unique(compared.buckets).tolist()]
    made += [("length", _between("length", *each)) for each in LENGTHS]
    made += [("answer_length", _between("answer_length", *each)) for each in ANSWER_LENGTHS]
    made += [("overlap", each) for each in ("overlap<0.5", "overlap>=0.5 and overlap<1", "overlap=1")]
    return [*made, ("title", "answer_in_title"), ("title", "not answer_in_title")]


def written(name: str, value: str) -> str:
    """`name:value`, the value quoted where it needs to be."""
    return str(Condition(name, None, ":", value))


def _between(name: str, low: int | None, high: int | None) -> str:
    if low == high:
        return f"{name}={low}"
    return " and ".join(part for part in (f"{name}>={low}" if low else "", f"{name}<={high}" if high else "") if part)
