"""The unit of observation: what counts as one observation in tests, intervals and every n.

Two wordings of a fact, the questions about a subject, the questions of a template succeed and fail together. Treated as
independent, they make intervals too narrow and p values too small. A study's setting `unit` says which questions belong
together, and everything that counts questions takes the units from here.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.backend.core.rights import require
from blindspot.backend.core.settings import Unit, change_settings
from blindspot.backend.core.study import Study
from blindspot.backend.text.counting import counted
from blindspot.db.question_table import folded_of, gold_of, take
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
    """The unit of each of q questions. codes: (q,) int64; equal codes are one observation."""

    name: Unit
    codes: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)

    def units_of_rows(self, rows: np.ndarray | slice) -> Units:
        """Return the units of some questions (indices or bool)."""
        return Units(self.name, self.codes[rows])

    @property
    def count(self) -> int:
        return len(np.unique(self.codes))

    def count_words(self) -> str:
        """Return the number of questions and of units: "452 questions about 226 facts"."""
        return counted_by(len(self), self.count, self.name)


def counted_by(questions: int, units: int | None, unit: Unit | None = None) -> str:
    """Return "452 questions about 226 facts", or "226 questions" where each is a unit of its own.

    Args:
        units: their number; None if each question is one, as in results of older versions. unit: None where a result does
            not say what it counts by: "452 questions of 226 units".
    """
    if units is None or units == questions:
        return counted(questions, "question")
    preposition = "of" if unit is None else PREPOSITIONS[unit]
    return f"{counted(questions, 'question')} {preposition} {counted(units, unit or 'unit')}"


def n_cell(questions: int, units: int | None, unit: Unit | None = None) -> str:
    """Return the n of a table's line: "452 (226 facts)", or "226" where each question is a unit of its own."""
    return (
        f"{questions:,}" if units is None or units == questions else f"{questions:,} ({counted(units, unit or 'unit')})"
    )


def n_value(questions: int, units: int | None, unit: Unit | None = None) -> int | str:
    """Return the n of a table of results: the number of questions, or `n_cell` where they are not the units."""
    return questions if units is None or units == questions else n_cell(questions, units, unit)


def generalisation(unit: Unit) -> str:
    """Return one sentence that says to what p values and intervals generalise."""
    offer = "" if unit in ("relation", "template") else "; with the unit 'relation' they are about relations like these"
    return f"P values and intervals generalise {GENERALISES[unit]}{offer}."


def units_of(questions: Sequence[Question], unit: Unit) -> Units:
    """Return the unit of each question.

    A question without the relation, subject or template that the unit needs belongs together with those that have the
    same text, case and spaces apart, else with those that have the same gold passages.
    """
    if unit == "question":
        return Units(unit, np.arange(len(questions)))
    keys = _keys(questions, unit)
    codes = _codes(keys)
    unknown = np.flatnonzero([key is None for key in keys])
    if len(unknown):
        codes[unknown] = len(questions) + _by_text_or_gold(take(questions, unknown))
    return Units(unit, codes)


def set_unit(study: Study, unit: Unit, actor: str | None = None) -> None:
    """Make this the study's unit of observation. Raises Refused for a person who may not, BadInput for another word."""
    require(study, actor, "set the unit")
    change_settings(study.settings_path, {"unit": unit})


def units_by_id(study: Study, ids: Sequence[str]) -> np.ndarray:
    """Return the unit of the question of each pair, (n,) int64. ids: of questions, which may occur several times."""
    distinct = list(dict.fromkeys(ids))
    if not distinct:
        return np.zeros(0, np.int64)
    codes = units_of(study.questions.some(distinct), study.settings.unit).codes
    place = {id: row for row, id in enumerate(distinct)}
    codes_of_ids: np.ndarray = codes[[place[id] for id in ids]]
    return codes_of_ids


def _keys(questions: Sequence[Question], unit: Unit) -> list[Hashable | None]:
    if unit == "template":
        return [_spaced(value) for value in folded_of(questions, "template")]
    relations = folded_of(questions, "relation")
    if unit == "relation":
        return list(relations)
    subjects = map(_spaced, folded_of(questions, "subject"))
    if unit == "subject":
        return list(subjects)
    pairs = zip(relations, subjects, strict=True)
    return [None if relation is None or subject is None else (relation, subject) for relation, subject in pairs]


def _by_text_or_gold(questions: Sequence[Question]) -> np.ndarray:
    """Return a code for each question: the same for the same text, and for texts with the same gold passages."""
    texts = _codes([_spaced(text) for text in folded_of(questions, "text")])
    group = dict[Hashable, int]()
    joined = list(range(int(texts.max()) + 1))
    for text, gold in zip(texts.tolist(), gold_of(questions), strict=True):
        if gold:
            first = _root(joined, group.setdefault(frozenset(gold), text))
            joined[_root(joined, text)] = first
    roots = np.array([_root(joined, text) for text in range(len(joined))], np.int64)
    of_question: np.ndarray = roots[texts]
    return of_question


def _root(parents: list[int], code: int) -> int:
    while parents[code] != code:
        parents[code] = parents[parents[code]]
        code = parents[code]
    return code


def _codes(keys: Sequence[Hashable | None]) -> np.ndarray:
    code_by_value: dict[Hashable | None, int] = {}
    return np.fromiter((code_by_value.setdefault(key, len(code_by_value)) for key in keys), np.int64, len(keys))


def _spaced(text: str | None) -> str | None:
    return None if text is None else " ".join(text.split())
