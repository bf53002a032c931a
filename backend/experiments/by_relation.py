"""Helpers for EntityQuestions' experiments: choose relations with enough questions, and make tables in which every
relation has the same weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from blindspot.analysis.relations import relation_name, relation_order
from blindspot.backend.data.leaks import eligible_questions
from blindspot.backend.experiments.hits import RunPart
from blindspot.backend.experiments.parts import Part, QuestionSelection
from blindspot.backend.experiments.plan import Cell, Measure, Setting, Success, macro_values
from blindspot.backend.experiments.question_sets import MEASURED, datasets
from blindspot.db.errors import Refused

if TYPE_CHECKING:
    from blindspot.backend.experiments.workbench import Workbench
    from blindspot.db.records import Question

AVERAGE = "Average (macro)"
K = 20  # the k of every table in the paper
LEAST, SMALL_MINIMUM = 10, 2  # minimum questions of a relation to measure or to train on; the second is for --small

Measured = Callable[[int, tuple[str, ...], bool], tuple[Measure, ...]]
"""A function from (k, relations, macro) to the measure of each seed."""


def restrict_to_trained_set(setting: Setting, bench: Workbench) -> Setting:
    """Restrict the measured split to the question set that is trained on, because other sets may repeat its
    questions.
    """
    named = {train.rpartition("/")[0] for train in setting.train}
    sets = [*named] if all(named) else datasets(bench, "train")
    if setting.on in MEASURED and len(sets) == 1 and sets[0] and sets[0] in datasets(bench, setting.on):
        return replace(setting, on=f"{sets[0]}/{setting.on}")
    return setting


def count_by_relation(bench: Workbench, selection: QuestionSelection) -> dict[str, int]:
    """Count these questions by relation, in the order of the relations."""
    counts = Counter(question.relation for question in selection.questions_of(bench) if question.relation)
    return dict(sorted(counts.items(), key=lambda item: relation_order(item[0])))


def eligible_by_relation(bench: Workbench, setting: Setting) -> Counter[str]:
    """Count the questions that may be trained on by relation."""
    questions = bench.questions.with_ids(eligible_questions(bench, setting.train).ids)
    return Counter(question.relation for question in questions if question.relation)


def choose_relations(
    setting: Setting,
    counts: Mapping[str, int],
    noun: str,
    maximum: int | None = None,
    preferred_relations: Iterable[str] = (),
) -> tuple[tuple[str, ...], list[str]]:
    """Choose relations with enough questions. Returns them, and notes about relations that are left out.

    The choice is the relations named with --relation; or else `preferred_relations`, if they have enough questions; or
    else the `maximum` largest relations.

    Args:
        counts: questions by relation. noun: the kind of questions, as in "training questions".

    Raises:
        Refused: a named relation, or every relation, has too few.
    """
    minimum = SMALL_MINIMUM if setting.small else LEAST
    for relation in setting.relations:
        if counts.get(relation, 0) < minimum:
            raise Refused(
                f"{relation_name(relation)} has {counts.get(relation, 0):,} {noun}, but at least {minimum} are "
                "needed; name another relation, or import more"
            )
    enough = [relation for relation, count in counts.items() if count >= minimum]
    if not enough:
        largest = max(counts.items(), key=lambda item: item[1], default=None)
        raise Refused(
            f"no relation has {minimum} {noun}"
            + (f"; the largest, {relation_name(largest[0])}, has {largest[1]:,}" if largest else "")
            + "; import more questions, or questions with relations"
        )
    if setting.relations:
        return tuple(dict.fromkeys(setting.relations)), []
    if relations := [relation for relation in preferred_relations if relation in enough]:
        return tuple(relations), []
    if maximum is not None and len(enough) > maximum:
        return tuple(sorted(sorted(enough, key=lambda each: -counts[each])[:maximum], key=relation_order)), []
    few = [f"{relation} ({count:,})" for relation, count in counts.items() if count < minimum]
    return tuple(enough), [f"Left out, with fewer than {minimum} {noun}: {', '.join(few)}."] if few else []


def success_of_each_seed(hits: Sequence[RunPart]) -> Measured:
    """Return Success@k of one run for each seed."""
    return lambda k, relations, macro: tuple(Success(hit, k, macro, relations) for hit in hits)


def relation_cells(
    systems: Mapping[str, Measured],
    relations: Sequence[str],
    ks: Sequence[int],
    published: Callable[[str, str], float | None],
) -> list[Cell]:
    """Return a row for each relation and their average, with a column for each system and k. published: the paper's
    figures by relation (and "Average") and system.
    """
    rows = {
        **{relation_name(relation): ((relation,), relation) for relation in relations},
        AVERAGE: (tuple(relations), "Average"),
    }
    return [
        Cell(row, column(system, k, ks), measured(k, some, row == AVERAGE), published(key, system) if k == K else None)
        for row, (some, key) in rows.items()
        for system, measured in systems.items()
        for k in ks
    ]


def column(system: str, k: int, ks: Sequence[int]) -> str:
    """Return the name of a column."""
    return system if len(ks) == 1 else f"{system} @{k}"


def claim_cutoff(ks: Sequence[int]) -> int:
    """Return the k to which the paper's claims refer: 20, or the largest k if 20 is not measured."""
    return K if K in ks else ks[-1]


@dataclass(frozen=True)
class RelationAverage:
    """Combines measures of several relations into one measure, in which each relation has the same weight."""

    share: ClassVar[bool] = True
    measures: tuple[Success, ...]

    def needs(self) -> Sequence[Part]:
        return [part for measure in self.measures for part in measure.needs()]

    def values(self, bench: Workbench) -> np.ndarray:
        """Return the values of all questions, (q,) float64."""
        values = [measure.values(bench) for measure in self.measures]
        return macro_values(np.concatenate(values), np.repeat(np.arange(len(values)), [len(value) for value in values]))

    def questions(self, bench: Workbench) -> list[Question]:
        return [question for measure in self.measures for question in measure.questions(bench)]
