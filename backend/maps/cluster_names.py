"""Name a map's clusters: as people named them, after the relations of their questions, or by characteristic words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from blindspot.analysis.relations import short_label
from blindspot.backend.maps.edits import Clusters
from blindspot.backend.maps.point_values import PointFacts, questions_of_cluster
from blindspot.db.records import Question

MAIN_RELATIONS, MAIN_SHARE = 3, 0.4  # a cluster is named after at most so many relations, of so many of its questions


def cluster_names(point_facts: PointFacts, clusters: Clusters) -> dict[int, str]:
    """Return a name for every cluster: the one that people gave it, else the commonest relations of its questions, else
    its characteristic words. Clusters whose names would be equal have their first characteristic words too, else their
    numbers.
    """
    names = {
        id: clusters.names.get(id)
        or _main_relations(
            [point_facts.questions[number] for number in questions_of_cluster(point_facts, clusters, id)]
        )
        or ", ".join(clusters.words.get(id, ())[:3])
        or "no characteristic words"
        for id in clusters.ids
    }
    doubled = _equal(names)
    names |= {id: f"{names[id]}: {clusters.words[id][0]}" for id in doubled if clusters.words.get(id)}
    return names | {id: f"{names[id]}, no. {id + 1}" for id in _equal(names)}


def _equal(names: Mapping[int, str]) -> list[int]:
    """Return the clusters that share their name with another."""
    times = Counter(names.values())
    return [id for id, name in names.items() if times[name] > 1]


def _main_relations(questions: Sequence[Question]) -> str:
    """Return the fewest relations, at most MAIN_RELATIONS, that MAIN_SHARE of the questions have; "" if more are needed."""
    counts = Counter(question.relation for question in questions if question.relation)
    for number in range(1, MAIN_RELATIONS + 1):
        first = counts.most_common(number)
        if sum(count for _, count in first) > MAIN_SHARE * len(questions):
            return ", ".join(short_label(id) for id, _ in first)
    return ""
