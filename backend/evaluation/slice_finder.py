"""Find slices of questions in which the difference between two runs is larger or smaller than in the other
questions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blindspot.analysis.accuracy import success_from_ranks
from blindspot.analysis.expressions import MAX_LENGTH, And, Condition, parse
from blindspot.analysis.slices import MIN_QUESTIONS, find_departing_slices
from blindspot.backend.core.units import Units
from blindspot.backend.evaluation.comparison import PairedFigures, figures_at
from blindspot.backend.evaluation.slices import Facts

LENGTHS = ((None, 5), (6, 7), (8, 10), (11, None))
ANSWER_LENGTHS = ((1, 1), (2, 2), (3, None))


@dataclass(frozen=True, slots=True)
class FoundSlice:
    """A slice in which the difference between the runs is not the same as in the other questions.

    Attributes:
        expression: the slice as a person would type it.
        figures: both runs within the slice.
        explained, outside, p, p_adjusted: as in `blindspot.analysis.slices.Finding`.
    """

    expression: str
    figures: PairedFigures
    explained: float
    outside: float
    p: float
    p_adjusted: float


@dataclass(frozen=True, slots=True)
class FoundSlices:
    """The found slices, largest effect first, the number of tested slices, and the mean difference over all n
    questions. min_questions: the minimum number of units in a tested slice. units: the number of units of all
    questions.
    """

    slices: list[FoundSlice]
    tried: int
    n: int
    mean: float
    min_questions: int
    units: Units


def find_slices(
    facts: Facts,
    rows: np.ndarray | None = None,
    limit: int = 20,
    min_questions: int = MIN_QUESTIONS,
) -> FoundSlices:
    """Return the slices of a comparison (or of some of its questions) in which the difference between the runs is not
    the same as in the other questions.

    The candidates are conditions on properties that are known before the search: relation, set, question word,
    frequency, lengths, imported fields, and the words that the question shares with its gold passages. Pairs of these
    conditions are tested too. Ranks and tags are not candidates. They are results of the runs, so they would explain
    the difference by itself.
    """
    compared, k = facts.comparison, facts.k
    members = np.arange(len(compared)) if rows is None else np.arange(len(compared))[rows]
    differences = success_from_ranks(compared.first_ranks_a[members], k).astype(np.int8) - success_from_ranks(
        compared.first_ranks_b[members], k
    )
    expressions, families, masks = [], [], []
    for family, expression in candidates(facts):
        mask = facts.mask(expression)[members]
        if min_questions <= mask.sum() < len(members):
            expressions.append(expression)
            families.append(family)
            masks.append(mask)
    predicates = np.array(masks, dtype=bool).reshape(len(masks), len(members))
    units = compared.units.units_of_rows(members)
    search = find_departing_slices(
        differences,
        predicates,
        families,
        limit,
        min_questions=min_questions,
        units=units.codes,
    )
    slices = [
        FoundSlice(
            join_expressions([expressions[member] for member in finding.members]),
            figures_at(compared, k, members[predicates[list(finding.members)].all(axis=0)]),
            finding.explained,
            finding.outside,
            finding.p,
            finding.p_adjusted,
        )
        for finding in search.findings
    ]
    return FoundSlices(slices, search.tried, search.n, search.mean, min_questions, units)


def join_expressions(expressions: list[str]) -> str:
    """Return one expression that is the conjunction of the given expressions."""
    read = [parse(expression) for expression in expressions if expression.strip()]
    parts = tuple(part for each in read for part in (each.operands if isinstance(each, And) else (each,)))
    return str(parts[0]) if len(parts) == 1 else str(And(parts)) if parts else ""


def candidates(facts: Facts) -> list[tuple[str, str]]:
    """Return (family, expression) of every condition to test. Conditions of one family share few questions or none."""
    compared = facts.comparison
    conditions = [
        ("relation", write_condition("relation", each)) for each in np.unique(compared.relations).tolist() if each
    ]
    conditions += [("set", write_condition("set", each)) for each in np.unique(compared.sets).tolist()]
    conditions += [
        ("word", write_condition("word", each)) for each in np.unique(facts.questions.question_words).tolist()
    ]
    conditions += [("group", write_condition("group", each)) for each in np.unique(compared.buckets).tolist()]
    conditions += [("length", _range_condition("length", *each)) for each in LENGTHS]
    conditions += [("answer_length", _range_condition("answer_length", *each)) for each in ANSWER_LENGTHS]
    conditions += [("overlap", each) for each in ("overlap<0.5", "overlap>=0.5 and overlap<1", "overlap=1")]
    conditions += [("title", "answer_in_title"), ("title", "not answer_in_title")]
    # A pair of conditions becomes one expression, which must fit into an address, so longer names are skipped.
    longest = (MAX_LENGTH - len(" and ")) // 2
    return [(family, expression) for family, expression in conditions if len(expression) <= longest]


def write_condition(name: str, value: str, argument: str | None = None) -> str:
    """Return the text of a condition, `name:value` or `name(argument):value`, with quotes where they are needed."""
    return str(Condition(name, argument, ":", value))


def _range_condition(name: str, low: int | None, high: int | None) -> str:
    if low == high:
        return f"{name}={low}"
    return " and ".join(part for part in (f"{name}>={low}" if low else "", f"{name}<={high}" if high else "") if part)
