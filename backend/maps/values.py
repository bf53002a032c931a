"""What the points of a map can be coloured by, and what is known of each cluster."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from analysis.accuracy import Estimate, found_by, proportion
from analysis.buckets import bucket_group
from backend.maps.edits import Clusters
from backend.maps.stored import Map
from db.labels import Labels
from db.records import Question

if TYPE_CHECKING:
    from backend.core.runs import Run

BY = ("kind", "relation", "bucket", "hit", "label", "cluster")
NOBODYS, SEVERAL, NO_RELATION = "nobody's positive", "of several relations", "no relation"
FOUND, MISSED, NOT_IN_RUN = "found", "missed", "not in this run"
UNLABELLED = "unlabelled"
_STRONGEST = ("positive", "gold", "open", "related", "negative", UNLABELLED)


@dataclass(frozen=True)
class Known:
    """What the study says of a map's points; made once for each state of questions and labels.

    questions: the map's, in its order. positives: for each its positive passages, as places in the map's `ordinals`.
    asked: the other way round. labels: what was said of each passage on the map, strongest of _STRONGEST.
    judged: (question id, ordinal) of every pair that is gold or has a label.
    """

    questions: list[Question]
    positives: list[list[int]]
    asked: dict[int, list[int]]
    labels: list[str]
    judged: frozenset[tuple[str, int]]


def known(map: Map) -> Known:
    """Reads the questions and the labels."""
    study = map.study
    questions = study.questions.some(map.question_ids)
    pairs = Labels(study.labels_path).corrected(map.question_ids) if questions else []
    ordinals = study.corpus.ordinals({pair.passage for pair in pairs})
    where = {ordinal: place for place, ordinal in enumerate(map.ordinals.tolist())}
    said: dict[int, set[str]] = defaultdict(set)
    own: dict[str, set[int]] = defaultdict(set)
    for pair in pairs:
        place = where.get(ordinals.get(pair.passage, -1))
        if place is not None:
            said[place].add("gold" if pair.state == "gold" else pair.relevance)
            if pair.relevance == "positive":
                own[pair.question].add(place)
    positives = [sorted(own.get(question.id, ())) for question in questions]
    asked: dict[int, list[int]] = defaultdict(list)
    for number, places in enumerate(positives):
        for place in places:
            asked[place].append(number)
    labels = [
        next(label for label in _STRONGEST if label in said[place] or label == UNLABELLED)
        if place in said
        else UNLABELLED
        for place in range(len(map.ordinals))
    ]
    judged = frozenset((pair.question, ordinals[pair.passage]) for pair in pairs if pair.passage in ordinals)
    return Known(questions, positives, dict(asked), labels, judged)


def values(
    map: Map,
    what: Known,
    by: str,
    state: Clusters,
    first: Mapping[str, int] | None = None,
    run: Run | None = None,
    k: int = 20,
) -> list[str]:
    """A category for each point, questions first.

    Args:
        by: one of BY. A question's relation and bucket are its own; a passage's are those of the questions it is a positive of.
            "hit": a question is found if it has a relevant passage in the run's first k; a passage if it stands there for a
            question it is a positive of.
        first: rank of the first relevant passage by question id, 0 for none, of the questions of `run` that can be measured.
    """
    drawn = what.questions[: map.drawn]
    if by == "kind":
        return ["question"] * len(drawn) + [
            "positive" if place in what.asked else "other passage" for place in range(len(map.ordinals))
        ]
    if by in ("relation", "bucket"):
        name = (
            (lambda q: q.relation or NO_RELATION)
            if by == "relation"
            else (lambda q: bucket_group(q.bucket, q.frequency))
        )
        of = [name(question) for question in what.questions]
        return of[: len(drawn)] + [
            _one({of[i] for i in what.asked.get(place, ())}, by) for place in range(len(map.ordinals))
        ]
    if by == "label":
        return ["question"] * len(drawn) + what.labels
    if by == "cluster":
        return ["question"] * len(drawn) + [state.name(int(label)) for label in state.labels]
    if run is None or first is None:
        return [NOT_IN_RUN] * len(map)
    found = {id: FOUND if 0 < rank <= k else MISSED for id, rank in first.items()}
    return [found.get(question.id, NOT_IN_RUN) for question in drawn] + _passages_found(map, what, run, k)


def _one(names: set[str], by: str) -> str:
    if not names:
        return NOBODYS
    return names.pop() if len(names) == 1 else SEVERAL if by == "relation" else "of several groups"


def _passages_found(map: Map, what: Known, run: Run, k: int) -> list[str]:
    top: dict[int, set[int]] = {}
    for number, question in enumerate(what.questions):
        if what.positives[number] and (row := run.row(question.id)) is not None:
            top[number] = set(np.asarray(run.hits.ordinals[row, :k]).tolist())
    made = []
    for place, ordinal in enumerate(map.ordinals.tolist()):
        askers = [number for number in what.asked.get(place, ()) if number in top]
        if place not in what.asked:
            made.append(NOBODYS)
        else:
            made.append(
                NOT_IN_RUN if not askers else FOUND if any(ordinal in top[number] for number in askers) else MISSED
            )
    return made


def categories(found: Iterable[str], most: int = 12) -> list[str]:
    """The categories by falling count, at most `most`; the rest are to be drawn as one."""
    return [name for name, _ in sorted(Counter(found).items(), key=lambda item: (-item[1], item[0]))][:most]


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """A cluster in numbers.

    size: passages. positives: how many of them are a positive of a question of the map. unlabelled: the share that is nobody's
    gold and that nobody judged, for the map's questions. questions: those with a positive in it; hits: the share of them that
    each run finds within k, of the questions that the run can be measured on.
    """

    id: int
    name: str
    size: int
    positives: int
    unlabelled: Estimate
    questions: int
    hits: dict[str, Estimate]


def cluster_rows(what: Known, state: Clusters, firsts: Mapping[str, Mapping[str, int]], k: int) -> list[ClusterRow]:
    """Every cluster, by falling size. firsts: by run, the rank of the first relevant passage by question id."""
    rows = []
    for id in state.ids:
        members = state.members(id).tolist()
        asked = sorted({number for place in members for number in what.asked.get(place, ())})
        bare = np.array([what.labels[place] == UNLABELLED for place in members])
        hits = {
            run: _success([first[what.questions[i].id] for i in asked if what.questions[i].id in first], k)
            for run, first in firsts.items()
        }
        rows.append(
            ClusterRow(
                id,
                state.name(id),
                len(members),
                sum(place in what.asked for place in members),
                proportion(bare),
                len(asked),
                hits,
            )
        )
    return rows


def _success(first: Sequence[int], k: int) -> Estimate:
    return proportion(found_by(np.array(first, np.int64), k))
