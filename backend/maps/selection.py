"""From points that somebody chose on a map to pairs that can be judged, and to questions that make a slice. By id throughout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from backend.judging.batches import CANDIDATES
from backend.maps.stored import Map
from backend.maps.values import Known
from db.errors import Refused

if TYPE_CHECKING:
    from backend.core.runs import Run

QUESTION, PASSAGE = "q:", "p:"
"""What a point's id begins with: the question or passage id follows."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """(question id, passage id), by question. without: chosen passages that no question of the map has unlabelled in its top k.
    more: pairs that were left out because a question shows `CANDIDATES` passages at most."""

    pairs: list[tuple[str, str]]
    without: int
    more: int

    @property
    def questions(self) -> int:
        return len({question for question, _ in self.pairs})


def point_ids(map: Map) -> list[str]:
    """The id of each point: "q:" and the question's id, or "p:" and the passage's."""
    passages = map.study.corpus.passages(map.ordinals.tolist())
    return [QUESTION + id for id in map.question_ids[: map.drawn]] + [PASSAGE + passage.id for passage in passages]


def pairs_to_judge(map: Map, what: Known, run: Run, chosen: Iterable[str], k: int, most: int = CANDIDATES) -> Pairs:
    """The unlabelled pairs of a selection.

    A chosen passage is paired with each question of the map that has it among the first k of `run`; a chosen question with every
    passage there. Pairs that are gold or were judged are left out. Of each question the first `most` by rank are taken.
    """
    chosen = set(chosen)
    wanted = set(map.study.corpus.ordinals({id[2:] for id in chosen if id.startswith(PASSAGE)}).values())
    pairs, matched, more = [], set(), 0
    searched = [(question, row) for question in what.questions if (row := run.row(question.id)) is not None]
    top = np.asarray(run.hits.ordinals[:, :k])[[row for _, row in searched]].tolist()
    for (question, _), found in zip(searched, top, strict=True):
        whole = QUESTION + question.id in chosen
        here = [
            each
            for each in dict.fromkeys(found)
            if each >= 0 and (whole or each in wanted) and (question.id, each) not in what.judged
        ]
        matched.update(wanted.intersection(here))
        more += len(here[most:])
        pairs += [(question.id, each) for each in here[:most]]
    needed = sorted({ordinal for _, ordinal in pairs})
    names = dict(zip(needed, map.study.corpus.passages(needed), strict=True))
    return Pairs([(question, names[ordinal].id) for question, ordinal in pairs], len(wanted - matched), more)


def questions_of_selection(what: Known, map: Map, chosen: Iterable[str]) -> list[str]:
    """The chosen questions, and those that have a positive among the chosen passages; in the map's order."""
    chosen = set(chosen)
    places = {ordinal: place for place, ordinal in enumerate(map.ordinals.tolist())}
    ordinals = map.study.corpus.ordinals({id[2:] for id in chosen if id.startswith(PASSAGE)}).values()
    asked = {number for ordinal in ordinals if ordinal in places for number in what.asked.get(places[ordinal], ())}
    return [
        question.id
        for number, question in enumerate(what.questions)
        if QUESTION + question.id in chosen or number in asked
    ]


def send_to_judging(
    map: Map,
    what: Known,
    run: Run,
    chosen: Iterable[str],
    k: int,
    name: str,
    people_needed: int = 1,
    by: str | None = None,
):
    """Put a selection's unlabelled pairs into the queue as a batch. Gives `backend.judging.batches.BatchSummary`.

    Raises Refused where there is nothing to judge, or the batch's name is taken.
    """
    from backend.judging.batches import batch_of_pairs

    found = pairs_to_judge(map, what, run, chosen, k)
    if not found.pairs:
        raise Refused(
            f"nothing to judge: of the selection, no passage is unlabelled and in the first {k} of {run.name!r} for a question "
            "of this map"
        )
    origin = f"map {map.name}, the first {k} of {run.name}"
    return batch_of_pairs(map.study, name, found.pairs, people_needed=people_needed, origin=origin, by=by)
