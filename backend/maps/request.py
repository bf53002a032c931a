"""Choose the points of a map: questions, and passages that are gold, in a run's top k, or drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from blindspot.backend.core.splits import questions_in_split
from blindspot.backend.core.study import Study
from blindspot.backend.maps.settings import FEWEST, SOURCES, MapRequest
from blindspot.db.errors import Refused
from blindspot.db.records import Question


@dataclass(frozen=True, slots=True)
class Points:
    """The map's questions, and its passages by ascending row. `sources` counts the passages by source."""

    questions: list[Question]
    ordinals: np.ndarray
    sources: dict[str, int] = field(default_factory=dict)


def chosen_points(study: Study, request: MapRequest) -> Points:
    """Return the questions and passages of a request.

    Raises Missing if the questions or the run do not exist, and Refused if there are too few passages.
    """
    questions = _questions(study, request)
    rng, ordinals = np.random.default_rng(request.seed), np.empty(0, np.int64)
    sources: dict[str, int] = {}
    for source in (source for source in SOURCES if source in request.passages):
        room = request.most - len(ordinals)
        new = _rows_of_source(source, study, request, questions, ordinals, rng)
        new = new[~np.isin(new, ordinals)]
        if len(new) > room:
            new = rng.choice(new, room, replace=False) if source == "gold" else new[:room]
        ordinals = np.concatenate([ordinals, new])
        sources[source] = len(new)
    if len(ordinals) < FEWEST:
        raise Refused(f"only {len(ordinals)} passages match; a map needs at least {FEWEST}, so add random passages")
    return Points(questions, np.sort(ordinals).astype(np.int32), sources)


def _rows_of_source(
    source: str,
    study: Study,
    request: MapRequest,
    questions: Sequence[Question],
    subset: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the distinct rows of the passages from one source, in order of priority."""
    if source == "gold":
        ordinals = study.corpus.ordinals({id for question in questions for id in question.gold})
        return np.array(sorted(ordinals.values()), np.int64)
    if source == "top":
        assert request.run is not None, 'MapRequest checks that "top" comes with a run'
        run = study.run(request.run)
        rows = [row for question in questions if (row := run.row(question.id)) is not None]
        by_rank = np.asarray(run.hits.ordinals)[rows, : request.top].T.reshape(-1).astype(np.int64)
        return np.fromiter((ordinal for ordinal in dict.fromkeys(by_rank.tolist()) if ordinal >= 0), np.int64)
    others = np.setdiff1d(np.arange(len(study.corpus)), subset)
    return rng.choice(others, min(request.random, len(others)), replace=False)


def _questions(study: Study, request: MapRequest) -> list[Question]:
    if request.questions is None and request.run is not None:
        return study.questions.with_ids(study.run(request.run).question_ids)
    if request.questions is None and not len(study.questions):
        return []
    return questions_in_split(study, request.questions)
