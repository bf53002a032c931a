"""Convert points selected on a map to pairs to judge. Points are identified by id."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from blindspot.backend.core.runs import Run
from blindspot.backend.judging.settings import CANDIDATES
from blindspot.backend.maps.point_values import PointFacts
from blindspot.backend.maps.stored import Map
from blindspot.db.errors import Refused

QUESTION, PASSAGE = "q:", "p:"
"""The prefixes of a point's id; the question or passage id follows."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs to judge, (question id, passage id), grouped by question. without_pairs: number of selected passages
    that give no pair, because they are in no question's top k or already labelled. further_pairs: number of pairs left
    out because a question shows at most `CANDIDATES` passages.
    """

    pairs: list[tuple[str, str]]
    without_pairs: int
    further_pairs: int

    @property
    def questions(self) -> int:
        return len({question for question, _ in self.pairs})


def pairs_to_judge(map: Map, point_facts: PointFacts, run: Run, selected_points: Iterable[str], k: int) -> Pairs:
    """Return the unlabelled pairs of a selection.

    A selected passage is paired with each question of the map whose top k in `run` contain it. A selected question is
    paired with every passage in its top k. Gold and judged pairs are left out. Of each question, the CANDIDATES pairs
    with the best ranks are returned.
    """
    selected_points = set(selected_points)
    selected = set(map.study.corpus.ordinals({id[2:] for id in selected_points if id.startswith(PASSAGE)}).values())
    pairs, matched, more = [], set(), 0
    searched = [(question, row) for question in point_facts.questions if (row := run.row(question.id)) is not None]
    top = np.asarray(run.hits.ordinals[:, :k])[[row for _, row in searched]].tolist()
    for (question, _), hits in zip(searched, top, strict=True):
        whole = QUESTION + question.id in selected_points
        candidates = [
            hit
            for hit in dict.fromkeys(hits)
            if hit >= 0 and (whole or hit in selected) and (question.id, hit) not in point_facts.judged
        ]
        matched.update(selected.intersection(candidates))
        more += len(candidates[CANDIDATES:])
        pairs += [(question.id, candidate) for candidate in candidates[:CANDIDATES]]
    needed = sorted({ordinal for _, ordinal in pairs})
    names = dict(zip(needed, map.study.corpus.passages(needed), strict=True))
    return Pairs([(question, names[ordinal].id) for question, ordinal in pairs], len(selected - matched), more)


def send_to_judging(
    map: Map,
    point_facts: PointFacts,
    run: Run,
    selected_points: Iterable[str],
    k: int,
    name: str,
    actor: str | None = None,
):
    """Queue a selection's unlabelled pairs as a batch, and return the `blindspot.backend.judging.batches.BatchSummary`
    of the batch.

    Raises Refused if there is nothing to judge, or if the batch's name is taken.
    """
    from blindspot.backend.judging.batches import batch_of_pairs

    pairs = pairs_to_judge(map, point_facts, run, selected_points, k)
    if not pairs.pairs:
        raise Refused(
            f"nothing to judge: no passage of the selection is unlabelled and in the top {k} of {run.name!r} for a "
            "question of this map"
        )
    origin = f"map {map.name}, top {k} of {run.name}"
    return batch_of_pairs(map.study, name, pairs.pairs, origin=origin, actor=actor)
