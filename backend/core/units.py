"""The unit of observation: which questions count together as one observation in significance tests, intervals and every
n.

Retrieval tends to succeed or fail together on two wordings of a fact, on the questions about one subject, or on those
of one template. If such questions are treated as independent, intervals become too narrow and p values too small. A
study's setting `unit` determines which questions form one unit. All statistics use the units from this module.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.backend.core.require_right import require
from blindspot.backend.core.settings import Unit, change_settings
from blindspot.backend.core.study import Study
from blindspot.backend.text.number_words import quantity
from blindspot.db.question_table import folded_field_of, gold_of, take
from blindspot.db.records import Question

PREPOSITIONS: dict[Unit, str] = {"fact": "about", "subject": "about", "template": "of", "relation": "of"}
GENERALISES: dict[Unit, str] = {
    "fact": "to other facts of these relations, not to other relations",
    "question": "to other questions of these relations if no two questions ask the same fact, not to other relations",
    "subject": "to other subjects of these relations, not to other relations",
    "template": "to templates like these",
    "relation": "to relations like these",
}


@dataclass(frozen=True)
class Units:
    """The unit of each of q questions. codes: (q,) int64; questions with the same code are one observation."""

    name: Unit
    codes: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)

    def units_of_rows(self, rows: np.ndarray | slice) -> Units:
        """Return the units of a subset of the questions, given by indices or a boolean mask."""
        return Units(self.name, self.codes[rows])

    @property
    def count(self) -> int:
        return len(np.unique(self.codes))

    def count_words(self) -> str:
        """Return the numbers of questions and units in words, such as "452 questions about 226 facts"."""
        return count_with_units(len(self), self.count, self.name)


def count_with_units(question_count: int, unit_count: int | None, unit: Unit | None = None) -> str:
    """Return "452 questions about 226 facts", or "226 questions" if every question is its own unit.

    Args:
        unit_count: their number; None if each question is one. unit: None where a result does
            not say what it counts by: "452 questions of 226 units".
    """
    if unit_count is None or unit_count == question_count:
        return quantity(question_count, "question")
    preposition = "of" if unit is None else PREPOSITIONS[unit]
    return f"{quantity(question_count, 'question')} {preposition} {quantity(unit_count, unit or 'unit')}"


def n_cell(question_count: int, unit_count: int | None, unit: Unit | None = None) -> str:
    """Return the n of a table row: "452 (226 facts)", or "226" if every question is its own unit."""
    return (
        f"{question_count:,}"
        if unit_count is None or unit_count == question_count
        else f"{question_count:,} ({quantity(unit_count, unit or 'unit')})"
    )


def n_value(question_count: int, unit_count: int | None, unit: Unit | None = None) -> int | str:
    """Return the n of a result table: the number of questions, or the text of `n_cell` if a unit can hold several
    questions.
    """
    return (
        question_count
        if unit_count is None or unit_count == question_count
        else n_cell(question_count, unit_count, unit)
    )


def generalisation(unit: Unit) -> str:
    """Return a sentence that states to which population the p values and intervals generalise."""
    offer = "" if unit in ("relation", "template") else "; with the unit 'relation' they are about relations like these"
    return f"P values and intervals generalise {GENERALISES[unit]}{offer}."


def units_of(questions: Sequence[Question], unit: Unit) -> Units:
    """Return the unit of each question.

    Some questions lack the relation, subject or template that defines the unit. They are grouped with questions that
    have the same text (ignoring case and spaces), or else the same gold passages.
    """
    if unit == "question":
        return Units(unit, np.arange(len(questions)))
    keys = _unit_keys(questions, unit)
    codes = _number_values(keys)
    unknown = np.flatnonzero([key is None for key in keys])
    if len(unknown):
        codes[unknown] = len(questions) + _by_text_or_gold(take(questions, unknown))
    return Units(unit, codes)


def set_unit(study: Study, unit: Unit, actor: str | None = None) -> None:
    """Set the study's unit of observation. Raises Refused if the person lacks the right, and BadInput for an unknown
    unit.
    """
    require(study, actor, "set the unit")
    change_settings(study.settings_path, {"unit": unit})


def units_by_id(study: Study, ids: Sequence[str]) -> np.ndarray:
    """Return the unit of each question id, (n,) int64. ids: question ids, which may repeat, as in a list of pairs."""
    distinct = list(dict.fromkeys(ids))
    if not distinct:
        return np.zeros(0, np.int64)
    codes = units_of(study.questions.with_ids(distinct), study.settings.unit).codes
    place = {id: row for row, id in enumerate(distinct)}
    codes_of_ids: np.ndarray = codes[[place[id] for id in ids]]
    return codes_of_ids


def _unit_keys(questions: Sequence[Question], unit: Unit) -> list[Hashable | None]:
    if unit == "template":
        return [_with_single_spaces(value) for value in folded_field_of(questions, "template")]
    relations = folded_field_of(questions, "relation")
    if unit == "relation":
        return list(relations)
    subjects = map(_with_single_spaces, folded_field_of(questions, "subject"))
    if unit == "subject":
        return list(subjects)
    pairs = zip(relations, subjects, strict=True)
    return [None if relation is None or subject is None else (relation, subject) for relation, subject in pairs]


def _by_text_or_gold(questions: Sequence[Question]) -> np.ndarray:
    """Return a code for each question. Questions with the same text or the same gold passages have the same code."""
    texts = _number_values([_with_single_spaces(text) for text in folded_field_of(questions, "text")])
    group = dict[Hashable, int]()
    joined = list(range(int(texts.max()) + 1))
    for text, gold in zip(texts.tolist(), gold_of(questions), strict=True):
        if gold:
            first = _root_code(joined, group.setdefault(frozenset(gold), text))
            joined[_root_code(joined, text)] = first
    roots = np.array([_root_code(joined, text) for text in range(len(joined))], np.int64)
    of_question: np.ndarray = roots[texts]
    return of_question


def _root_code(parents: list[int], code: int) -> int:
    while parents[code] != code:
        parents[code] = parents[parents[code]]
        code = parents[code]
    return code


def _number_values(keys: Sequence[Hashable | None]) -> np.ndarray:
    code_by_value: dict[Hashable | None, int] = {}
    return np.fromiter((code_by_value.setdefault(key, len(code_by_value)) for key in keys), np.int64, len(keys))


def _with_single_spaces(text: str | None) -> str | None:
    return None if text is None else " ".join(text.split())
