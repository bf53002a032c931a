"""Group a map's questions, by relation or by question word; measure runs on each group, and how close its questions lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.neighbours import unit_vectors
from blindspot.analysis.relations import short_label
from blindspot.analysis.spread import mean_cosine
from blindspot.backend.evaluation.question_facts import question_word
from blindspot.backend.maps.colours import NO_RELATION
from blindspot.backend.maps.point_values import PointFacts, success_of
from blindspot.backend.maps.spreads import ALL
from blindspot.backend.maps.stored import Map


@dataclass(frozen=True, slots=True)
class QuestionGroup:
    """The questions of a map that have one relation or, where no question has a relation, one question word.

    Attributes:
        id: the relation or the question word.
        name: a short one, such as "located in".
        numbers: of the questions, as places in `PointFacts.questions`, ascending.
        hits: the share of them that each run finds within k, of the questions that the run can be measured on.
    """

    id: str
    name: str
    numbers: tuple[int, ...]
    hits: dict[str, Estimate]


def question_groups(
    point_facts: PointFacts, first_ranks_by_run: Mapping[str, Mapping[str, int]], k: int
) -> list[QuestionGroup]:
    """Return the groups of a map's questions, largest first, of equal ones by name. first_ranks_by_run: for each run, the
    rank of the first relevant passage by question id.
    """
    numbers: dict[str, list[int]] = {}
    have_relations = are_by_relation(point_facts)
    for number, question in enumerate(point_facts.questions):
        key = (question.relation or NO_RELATION) if have_relations else question_word(question.text)
        numbers.setdefault(key, []).append(number)
    groups = [
        QuestionGroup(
            key,
            short_label(key) if have_relations else key,
            tuple(members),
            {run: success_of(members, point_facts, first, k) for run, first in first_ranks_by_run.items()},
        )
        for key, members in numbers.items()
    ]
    return sorted(groups, key=lambda group: (-len(group.numbers), group.name, group.id))


def are_by_relation(point_facts: PointFacts) -> bool:
    """Whether the groups are by relation: some question has one."""
    return any(question.relation for question in point_facts.questions)


@dataclass(frozen=True, slots=True)
class Closeness:
    """Mean cosines in the original space of one encoder.

    Attributes:
        questions: of two questions of a group.
        other_questions: of a question of the group and one of another group.
        positives: of two positives of the group's questions; None where the map has not measured it.
        all_positives: of two positives of any questions of the map.
    """

    questions: float
    other_questions: float
    positives: float | None
    all_positives: float | None

    @property
    def is_of_questions(self) -> bool:
        """Whether the questions lie closer together than their positives do, each compared with those of all groups."""
        if self.positives is None or self.all_positives is None:
            return False
        return self.questions - self.other_questions > self.positives - self.all_positives


def closeness(map: Map, point_facts: PointFacts, group: QuestionGroup, view: int) -> Closeness | None:
    """Return how close the questions and positives of a group lie; None for fewer than two questions in the group or none
    outside it, and for a map without question vectors.

    Args:
        view: index of the map's encoder.
    """
    inside = np.zeros(map.shown_questions, dtype=bool)
    inside[[number for number in group.numbers if number < map.shown_questions]] = True
    if inside.sum() < 2 or inside.all():
        return None
    vectors = unit_vectors(np.asarray(map.question_vectors(view))).astype(np.float64)
    own, rest = vectors[inside], vectors[~inside]
    measured = {row["group"]: row[("before", "after")[view]] if "before" in row else row for row in map.spread}

    def similarity(of: str) -> float | None:
        return measured[of]["similarity"]["value"] if of in measured and are_by_relation(point_facts) else None

    others = float(own.mean(axis=0) @ rest.mean(axis=0))
    return Closeness(mean_cosine(own), others, similarity(group.id), similarity(ALL))
