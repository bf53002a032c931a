"""Collect the study's gold, labels and units for a map's points, and compute statistics of its clusters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.accuracy import Estimate, proportion, success_from_ranks
from blindspot.backend.core.units import units_of
from blindspot.backend.maps.clusters import Clusters
from blindspot.backend.maps.stored import Map
from blindspot.db.labels import Labels
from blindspot.db.records import Question

UNLABELLED = "unlabelled"
_STRONGEST = ("positive", "gold", "open", "related", "negative", UNLABELLED)


@dataclass(frozen=True)
class PointFacts:
    """Gold, labels and units of a map's points. Computed again only when questions or labels change.

    Attributes:
        questions: the map's, in its order.
        positives: for each its positive passages, as places in the map's `ordinals`.
        questions_by_passage: the other way round.
        labels: what was said of each passage on the map, strongest of _STRONGEST.
        judged: (question id, ordinal) of every pair that is gold or has a label.
        units: (q,) int64, the unit of observation of each question.
    """

    questions: list[Question]
    positives: list[list[int]]
    questions_by_passage: dict[int, list[int]]
    labels: list[str]
    judged: frozenset[tuple[str, int]]
    units: np.ndarray


def facts_of_points(map: Map) -> PointFacts:
    """Read the questions and the labels for a map's points."""
    study = map.study
    questions = study.questions.with_ids(map.question_ids)
    pairs = Labels(study.labels_path).corrected_relevance(map.question_ids) if questions else []
    ordinals = study.corpus.ordinals({pair.passage for pair in pairs})
    where = {ordinal: place for place, ordinal in enumerate(map.ordinals.tolist())}
    labels_by_place: dict[int, set[str]] = defaultdict(set)
    own_passages: dict[str, set[int]] = defaultdict(set)
    for pair in pairs:
        place = where.get(ordinals.get(pair.passage, -1))
        if place is not None:
            labels_by_place[place].add("gold" if pair.state == "gold" else pair.relevance)
            if pair.relevance == "positive":
                own_passages[pair.question].add(place)
    positives = [sorted(own_passages.get(question.id, ())) for question in questions]
    questions_by_place: dict[int, list[int]] = defaultdict(list)
    for number, places in enumerate(positives):
        for place in places:
            questions_by_place[place].append(number)
    labels = [
        next(label for label in _STRONGEST if label in labels_by_place[place] or label == UNLABELLED)
        if place in labels_by_place
        else UNLABELLED
        for place in range(len(map.ordinals))
    ]
    judged = frozenset((pair.question, ordinals[pair.passage]) for pair in pairs if pair.passage in ordinals)
    return PointFacts(
        questions, positives, dict(questions_by_place), labels, judged, units_of(questions, study.settings.unit).codes
    )


def categories(categories_of_points: Iterable[str], maximum: int = 12) -> list[str]:
    """Return the `maximum` most frequent categories, most frequent first. The caller draws the other
    categories as one.
    """
    return [name for name, _ in sorted(Counter(categories_of_points).items(), key=lambda item: (-item[1], item[0]))][
        :maximum
    ]


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """Statistics of a cluster.

    Attributes:
        size: passages.
        unlabelled: the share that is nobody's gold and that nobody judged, for the map's questions.
        questions: those with a positive in it
        hits: the share of them that each run finds within k, of the questions that the run can be measured on.
    """

    id: int
    name: str
    size: int
    unlabelled: Estimate
    questions: int
    hits: dict[str, Estimate]


def cluster_rows(
    point_facts: PointFacts, clusters: Clusters, first_ranks_by_run: Mapping[str, Mapping[str, int]], k: int
) -> list[ClusterRow]:
    """Return the statistics of every cluster, largest first. first_ranks_by_run: for each run, the rank of the first
    relevant passage by question id.
    """
    rows = []
    for id in clusters.ids:
        members = clusters.members(id).tolist()
        questions = sorted({number for place in members for number in point_facts.questions_by_passage.get(place, ())})
        bare = np.array([point_facts.labels[place] == UNLABELLED for place in members])
        hits = {run: success_of(questions, point_facts, first, k) for run, first in first_ranks_by_run.items()}
        rows.append(ClusterRow(id, clusters.name(id), len(members), proportion(bare), len(questions), hits))
    return rows


def success_of(numbers: Sequence[int], point_facts: PointFacts, first_ranks: Mapping[str, int], k: int) -> Estimate:
    """Return Success@k over those of some questions, as places in `PointFacts.questions`, that have a first rank."""
    measured = [number for number in numbers if point_facts.questions[number].id in first_ranks]
    ranks = np.array([first_ranks[point_facts.questions[number].id] for number in measured], np.int64)
    return proportion(success_from_ranks(ranks, k), point_facts.units[np.array(measured, np.int64)])
