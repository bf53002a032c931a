"""Group a map's questions, by relation or by question word, and measure runs on each group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.relations import short_label
from blindspot.backend.evaluation.question_facts import question_word
from blindspot.backend.maps.colours import NO_RELATION
from blindspot.backend.maps.point_values import PointFacts, success_of


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
