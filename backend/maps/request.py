"""The points of a map: questions, and passages that are gold, in a run's top k, or random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from blindspot.analysis import clusters, projection
from blindspot.backend.core.settings import check_name
from blindspot.backend.core.splits import questions_in_split
from blindspot.db.errors import Refused
from blindspot.db.records import Question

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study

SOURCES = ("gold", "top", "random")
CLUSTERS = (*clusters.METHODS, "none")
FEWEST, MOST = 30, 200_000


@dataclass(frozen=True, slots=True)
class MapRequest:
    """The request for a map.

    name: of the map; also its folder and part of its address. encoder, second: encoders with dense indexes. With
    `second` the map shows both, before and after. questions: a split, a set or SET/SPLIT, as in `retrieve`. None
    without `slice` means the questions of `run`, or else all. slice: question ids; replaces `questions`. passages: some
    of SOURCES: gold passages of the questions, the `top` passages of `run`, `random` passages. most: the maximum number
    of passages. Gold comes first, then the run's passages by rank, then random ones. Too many gold passages are
    sampled. draw_questions: whether the questions are points too. neighbours, min_dist: parameters of UMAP. perplexity:
    a parameter of t-SNE. components: the number of principal components that are projected and clustered. clusters:
    hdbscan, kmeans or none; cluster_count for kmeans, cluster_size (the smallest) for hdbscan.
    """

    name: str
    encoder: str = "minilm"
    second: str | None = None
    questions: str | None = None
    slice: tuple[str, ...] | None = None
    run: str | None = None
    passages: tuple[str, ...] = ("gold", "top", "random")
    top: int = 10
    random: int = 2000
    most: int = 10_000
    draw_questions: bool = True
    method: projection.Method = "umap"
    seed: int = 0
    neighbours: int = 15
    min_dist: float = 0.1
    perplexity: float = 30.0
    components: int = 50
    clusters: Literal["hdbscan", "kmeans", "none"] = "kmeans"
    cluster_count: int = 20
    cluster_size: int = 30

    def __post_init__(self) -> None:
        """Check the fields. Raises Refused for a contradiction."""
        check_name(self.name, "map")
        for key in ("passages", "slice"):  # lists, if the request comes from JSON
            value = getattr(self, key)
            object.__setattr__(self, key, None if value is None else tuple(value))
        _one_of("method", self.method, projection.METHODS)
        _one_of("clusters", self.clusters, CLUSTERS)
        for source in self.passages:
            _one_of("passages", source, SOURCES)
        if not self.passages:
            raise Refused(f"choose at least one source of passages: {', '.join(SOURCES)}")
        if self.second == self.encoder:
            raise Refused(f"the second encoder must differ from the first, {self.encoder!r}")
        if "top" in self.passages and self.run is None:
            raise Refused("'top' needs a run: name one with --run, or remove 'top' from the passages")
        if not FEWEST <= self.most <= MOST:
            raise Refused(f"the maximum number of passages must be from {FEWEST} to {MOST:,}, not {self.most:,}")
        for key, minimum in (
            ("top", 1),
            ("random", 0),
            ("neighbours", 2),
            ("perplexity", 2),
            ("components", 2),
            ("cluster_count", 2),
            ("cluster_size", 2),
            ("min_dist", 0),
            ("seed", 0),
        ):
            if getattr(self, key) < minimum:
                raise Refused(f"{key.replace('_', ' ')} must be at least {minimum}")


@dataclass(frozen=True, slots=True)
class Points:
    """The map's questions, and its passages by ascending row. `sources` counts the passages by source."""

    questions: list[Question]
    ordinals: np.ndarray
    sources: dict[str, int] = field(default_factory=dict)


def chosen_points(study: Study, request: MapRequest) -> Points:
    """Return the questions and passages of a request.

    Raises Missing if the questions, the run or the slice do not exist, Refused for too few passages.
    """
    questions = _questions(study, request)
    rng, ordinals, sources = np.random.default_rng(request.seed), np.empty(0, np.int64), {}
    for source in (source for source in SOURCES if source in request.passages):
        room = request.most - len(ordinals)
        new = _of(source, study, request, questions, ordinals, rng)
        new = new[~np.isin(new, ordinals)]
        if len(new) > room:
            new = rng.choice(new, room, replace=False) if source == "gold" else new[:room]
        ordinals = np.concatenate([ordinals, new])
        sources[source] = len(new)
    if len(ordinals) < FEWEST:
        raise Refused(f"only {len(ordinals)} passages match; a map needs at least {FEWEST}, so add random passages")
    return Points(questions, np.sort(ordinals).astype(np.int32), sources)


def _of(
    source: str,
    study: Study,
    request: MapRequest,
    questions: Sequence[Question],
    kept: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return distinct rows, in order of priority."""
    if source == "gold":
        ordinals = study.corpus.ordinals({id for question in questions for id in question.gold})
        return np.array(sorted(ordinals.values()), np.int64)
    if source == "top":
        assert request.run is not None, 'MapRequest checks that "top" comes with a run'
        run = study.run(request.run)
        rows = [row for question in questions if (row := run.row(question.id)) is not None]
        by_rank = np.asarray(run.hits.ordinals)[rows, : request.top].T.reshape(-1).astype(np.int64)
        return np.fromiter((ordinal for ordinal in dict.fromkeys(by_rank.tolist()) if ordinal >= 0), np.int64)
    others = np.setdiff1d(np.arange(len(study.corpus)), kept)
    return rng.choice(others, min(request.random, len(others)), replace=False)


def _questions(study: Study, request: MapRequest) -> list[Question]:
    if request.slice is not None:
        return study.questions.some(dict.fromkeys(request.slice))
    if request.questions is None and request.run is not None:
        return study.questions.some(study.run(request.run).question_ids)
    if request.questions is None and not len(study.questions):
        return []
    return questions_in_split(study, request.questions)


def _one_of(what: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise Refused(f"{what} must be one of {', '.join(known)}, not {value!r}")
