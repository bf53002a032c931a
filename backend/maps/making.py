"""Make a map: read the vectors, project them, measure the projection's quality, cluster the passages, and store
everything in one folder.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import numpy as np

from blindspot.analysis import clusters, projection
from blindspot.analysis.projection import (
    Components,
    comparable_vectors,
    joint_projection,
    principal_components,
    project,
    projection_quality,
)
from blindspot.backend.core.declared import named_settings
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import atomic_folder, read_manifest, write_json, write_manifest
from blindspot.backend.core.study import Study
from blindspot.backend.maps.request import Points, chosen_points
from blindspot.backend.maps.settings import MapRequest
from blindspot.backend.maps.stored import ALIGNED, MATCHED, SINGLE, Map
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.question_vectors import question_vectors
from blindspot.db.errors import Refused

Result = TypeVar("Result")

QUALITY_NEIGHBOURS = 15
MEASURED_ROWS = 1000
_ROWS = 8192
_CHECK_SECONDS = 0.25  # seconds between two checks for cancellation


@dataclass(frozen=True, slots=True)
class _Vectors:
    """One encoder's vectors of the map's points: as stored in the index, and as used for the map (questions first, then
    passages).
    """

    dense: Dense
    passages: np.ndarray
    questions: np.ndarray | None
    points: np.ndarray

    @property
    def similarity(self) -> str:
        return self.dense.manifest["similarity"]


@job("map", extras=("maps",))
@named_settings(MapRequest, "request")
def make(study: Study, request: MapRequest, replace_old: bool = False, progress: Progress | None = None) -> Map:
    """Run `make_map` as a job, with the request's fields as arguments."""
    return make_map(study, request, replace_old, progress)


def make_map(study: Study, request: MapRequest, replace_old: bool = False, progress: Progress | None = None) -> Map:
    """Make a map and store it in maps/<name>.

    Raises:
        Missing: an index, a run or questions that do not exist.
        Refused: the name is taken and `replace_old` is false, there are too few points, or another process is making
            this map.
    """
    folder = study.path("maps", request.name)

    def refuse_existing() -> None:
        if read_manifest(folder) is not None and not replace_old:
            raise Refused(f"a map named {request.name!r} already exists; choose another name, or give --replace")

    refuse_existing()
    tell, started = progress or (lambda done, total, activity: None), time.monotonic()
    with study.lock_part(f"maps/{request.name}", refuse_existing):
        tell(0, None, "choosing the points")
        points = chosen_points(study, request)
        if not points.questions:
            request = replace(request, draw_questions=False)
        encoders = [
            _load_vectors(study, name, points, request, tell) for name in (request.encoder, request.second) if name
        ]
        planes, parts = _project_points(encoders, request, tell)
        tell(0, None, "measuring the quality")
        qualities = [_quality(encoder, plane, request.seed) for encoder, plane in zip(encoders, planes)]
        labels, names = _clusters(study, encoders[0], points, request, tell)
        with atomic_folder(folder) as building:
            for number, (encoder, plane) in enumerate(zip(encoders, planes)):
                np.save(building / f"coordinates.{number}.npy", plane)
                if encoder.questions is not None:
                    np.save(building / f"questions.{number}.npy", encoder.questions)
            np.save(building / "ordinals.npy", points.ordinals)
            np.save(building / "clusters.npy", labels)
            write_json(building / "questions.json", [question.id for question in points.questions])
            write_json(building / "words.json", names)
            about = _map_manifest(study, request, points, encoders, qualities)
            seconds = round(time.monotonic() - started, 1)
            write_manifest(building, {**about, **parts, "seconds": seconds})
    return Map.open(study, request.name)


def _map_manifest(
    study: Study, request: MapRequest, points: Points, encoders: Sequence[_Vectors], qualities: Sequence[Any]
) -> dict[str, Any]:
    """Return the content of a map's manifest."""
    return {
        "kind": "map",
        "name": request.name,
        "request": asdict(request),
        "seed": request.seed,
        "corpus": study.corpus.digest,
        "passages": len(points.ordinals),
        "questions": len(points.questions),
        "question_points": len(points.questions) if request.draw_questions else 0,
        "sources": points.sources,
        "encoders": [
            {
                "name": encoder.dense.name,
                "distance": "euclidean" if encoder.similarity == "l2" else "cosine",
                "index_made": encoder.dense.manifest["made"],
                "model_hash": encoder.dense.manifest["model_hash"],
                "dimension": encoder.dense.manifest["dimension"],
                "quality": figures,
            }
            for encoder, figures in zip(encoders, qualities, strict=True)
        ],
        "determinism": projection.DETERMINISM,
    }


def _load_vectors(study: Study, name: str, points: Points, request: MapRequest, report: Progress) -> _Vectors:
    dense = Dense(study, name)
    passages = np.empty((len(points.ordinals), dense.vectors.shape[1]), np.float32)
    for start in range(0, len(passages), _ROWS):
        report(start, len(passages), f"reading the vectors of {name}")
        passages[start : start + _ROWS] = dense.vectors[points.ordinals[start : start + _ROWS]]
    questions = (
        question_vectors(study, dense, [question.text for question in points.questions], report)
        if request.draw_questions
        else None
    )
    everything = passages if questions is None else np.concatenate([questions, passages])
    return _Vectors(dense, passages, questions, comparable_vectors(everything, dense.manifest["similarity"]))


def _project_points(encoders: list[_Vectors], request: MapRequest, report: Progress) -> tuple[list[np.ndarray], dict]:
    """Return the coordinates for each encoder, and for the manifest how the encoders' coordinates are aligned."""

    def drawn(components: Components, activity: str, start: np.ndarray | None = None) -> np.ndarray:
        return run_watched(
            lambda: project(
                components.values,
                request.method,
                neighbours=request.neighbours,
                min_dist=request.min_dist,
                perplexity=request.perplexity,
                seed=request.seed,
                initial_positions=start,
            ),
            report,
            activity,
        )

    report(0, None, "principal components")
    name = {"umap": "UMAP", "tsne": "t-SNE"}[request.method]
    first = principal_components(encoders[0].points, request.components)
    if len(encoders) == 1:
        return [drawn(first, f"drawing the map ({name})")], {"together": SINGLE, "explained": [first.explained]}
    widths = [encoder.points.shape[1] for encoder in encoders]
    if widths[0] == widths[1]:
        both, residual = joint_projection(encoders[0].points, encoders[1].points, request.components)
        plane = drawn(both, f"drawing both encoders' points on one map ({name})")
        half = len(encoders[0].points)
        return [plane[:half], plane[half:]], {
            "together": ALIGNED,
            "explained": [both.explained],
            "left_after_turning": residual,
        }
    second = principal_components(encoders[1].points, request.components)
    plane = drawn(first, f"drawing the first map ({name})")
    other = drawn(second, f"drawing the second map ({name})", start=plane)
    return [plane, other], {"together": MATCHED, "explained": [first.explained, second.explained]}


def _quality(encoder: _Vectors, plane: np.ndarray, seed: int) -> dict:
    k = min(QUALITY_NEIGHBOURS, (len(plane) - 1) // 2)
    return asdict(projection_quality(encoder.points, plane, k, MEASURED_ROWS, seed))


def _clusters(
    study: Study, encoder: _Vectors, points: Points, request: MapRequest, report: Progress
) -> tuple[np.ndarray, dict]:
    """Cluster the passages by the first encoder's vectors. Return each passage's cluster, and each cluster's
    characteristic words.
    """
    if request.clusters == "none":
        return np.full(len(points.ordinals), clusters.NOISE, np.int32), {}
    method = request.clusters
    of_passages = principal_components(comparable_vectors(encoder.passages, encoder.similarity), request.components)
    labels = run_watched(
        lambda: clusters.cluster(
            of_passages.values,
            method,
            count=request.cluster_count,
            min_size=request.cluster_size,
            seed=request.seed,
        ),
        report,
        "finding clusters",
    )
    report(0, None, "naming the clusters")
    return labels, {str(label): words for label, words in cluster_words(study, points.ordinals, labels).items()}


def cluster_words(study: Study, ordinals: np.ndarray, labels: np.ndarray) -> dict[int, list[str]]:
    """Return the characteristic words of each cluster of passages. Titles are not used, because a name that is repeated
    in titles is not a topic.
    """
    texts = [clusters.distinct_words(passage.text) for passage in study.corpus.passages(ordinals.tolist())]
    return clusters.typical_words(texts, labels)


def run_watched(work: Callable[[], Result], report: Progress, activity: str) -> Result:
    """Run `work` in a daemon thread, so that the caller can report progress and can cancel."""
    thread_result: dict[str, Any] = {}

    def run() -> None:
        try:
            thread_result["result"] = work()
        except BaseException as error:
            thread_result["error"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        report(0, None, activity)
        thread.join(_CHECK_SECONDS)
    if "error" in thread_result:
        raise thread_result["error"]
    return thread_result["result"]
