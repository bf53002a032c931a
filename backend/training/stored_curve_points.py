"""The stored points of the learning curve, and the check whether a new point should be computed.

A point is a folder `learning_curve/<number>/` that never changes after it is written. Its arrays and lists record the
questions and pairs on which its figures are based.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from blindspot.analysis.significance import mcnemar
from blindspot.backend.core.manifest import MANIFEST, read_json, read_manifest
from blindspot.backend.core.study import Study
from blindspot.backend.evaluation.comparison import SURE
from blindspot.backend.evaluation.comparison_words import p_words
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import Missing
from blindspot.db.labels import Labels
from blindspot.db.queue import Queue

FOLDER = "learning_curve"
LABELS_PER_POINT = 25
PAIRS = "pairs.json"

Scope = Literal["judged", "all"]
SCOPES: dict[Scope, str] = {
    "judged": "the questions that people judged, with their gold",
    "all": "all training questions with gold or labels",
}
"""The labels and gold that a point learns from. In both, people's labels take precedence over gold."""

Reason = Literal["asked", "batch", "labels", "start", "history"]


@dataclass(frozen=True, slots=True)
class Share:
    """A share of the dev questions with its 95% interval. units: the number of units of observation; None in older
    points, whose intervals treat questions as independent.
    """

    value: float
    n: int
    low: float
    high: float
    units: int | None = None


@dataclass(frozen=True, slots=True)
class CurveOutcome:
    """The figures of a point for one scope.

    Attributes:
        questions: training questions that it learned from.
        model: the judge's model, "prior" without labels; None in older points without labels, whose list kept its
            order.
        reranker: Success@1.
        answered, lost: dev questions with an answer at rank 1 now and not at the point before, and the reverse.
        run: the reranked run of dev
        run_before: that of the point before.
    """

    questions: int
    model: str | None
    reranker: Share
    answered: int
    lost: int
    run: str
    run_before: str | None

    @property
    def chance_words(self) -> str:
        """Return what a sign test says of the answered and lost questions: whether chance alone would part them so."""
        p = mcnemar(self.answered, self.lost)
        return f"{'' if p <= SURE else 'no '}more than chance ({p_words(p)}, sign test over questions)"


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A point of the curve.

    Attributes:
        labels: judged pairs of training questions, disputed ones among them.
        judged: training questions with such a pair.
        held_out_labels: labels of dev and test questions, which never train.
        last_event: the label event up to which labels count.
        new_labels, changed: labels since the point before, and training pairs whose role they changed.
        authors: the number of label events of each person since then.
        batches: batches that were finished.
        base_reranker: the retriever before learning.
    """

    number: int
    made: str
    reason: Reason
    labels: int
    judged: int
    held_out_labels: int
    last_event: int
    new_labels: int
    changed: int
    before: int | None
    authors: dict[str, int]
    batches: tuple[str, ...]
    inputs: dict[str, Any]
    settings: dict[str, Any]
    relevance: str
    base_reranker: Share
    scopes: dict[str, CurveOutcome]
    seconds: float


@dataclass(frozen=True, slots=True)
class ChangedPair:
    """A training pair whose role labels changed. before, now: positive, negative, left out, or not used."""

    question: str
    passage: str
    before: str
    now: str


def curve_points(study: Study) -> list[CurvePoint]:
    """Return the points, oldest first."""
    folder = study.path(FOLDER)
    numbers = sorted(int(part.name) for part in folder.iterdir() if part.name.isdigit()) if folder.is_dir() else []
    points = [_read_point(study.path(FOLDER, str(number))) for number in numbers]
    return [point for point in points if point is not None]


def _read_point(folder: Path) -> CurvePoint | None:
    try:
        return _cached_point(folder, (folder / MANIFEST).stat().st_mtime_ns)
    except FileNotFoundError:
        return None


@lru_cache(maxsize=1000)
def _cached_point(folder: Path, modified_ns: int) -> CurvePoint | None:
    """Return a point. The result is cached, because points never change and all of them are needed after
    every label.
    """
    manifest = read_manifest(folder)
    return None if manifest is None else _parse_point(manifest)


def point_before(points: list[CurvePoint], last_event: int, inputs: dict[str, Any]) -> CurvePoint | None:
    """Return the point from the same runs and index with the most labels before an event."""
    earlier = [point for point in points if point.last_event < last_event and point.inputs == inputs]
    return max(earlier, key=lambda point: (point.last_event, point.number), default=None)


def changed_pairs(study: Study, number: int) -> list[ChangedPair]:
    """Return the pairs whose role was changed by the labels between the previous point and this one. Raises Missing for
    an unknown point.
    """
    path = study.path(FOLDER, str(number), PAIRS)
    if not path.is_file():
        raise Missing(f"the learning curve has no point {number}; list its points with 'blindspot judge curve --list'")
    return [ChangedPair(*row) for row in read_json(path)]


def change_sentences(point: CurvePoint) -> list[str]:
    """Describe in sentences what the labels since the previous point changed."""
    if point.before is None:
        return []
    lines = []
    sentence = f"The last {quantity(point.new_labels, 'label')} changed {quantity(point.changed, 'training pair')}"
    for scope, learned in point.scopes.items():
        lines.append(
            f"{sentence}; learned from {scope}: {quantity(learned.answered, 'dev question')} answered at rank 1 now "
            f"that {'was' if learned.answered == 1 else 'were'} not, {learned.lost:,} no longer: {learned.chance_words}."
        )
    if point.held_out_labels:
        lines.append(
            f"{quantity(point.held_out_labels, 'label')} of dev and test questions: these labels correct the "
            "evaluation and never train."
        )
    return lines


def is_point_due(study: Study) -> Reason | None:
    """Return the reason why a new point should be computed, or None. The reasons are LABELS_PER_POINT labels of
    training questions since the last point, or a finished batch.

    After the study's first label, the point without labels is due, which computes what later points share. This check
    runs after every label and takes a few milliseconds.
    """
    points = curve_points(study)
    last = max(points, key=lambda point: point.last_event, default=None)
    since = 0 if last is None else last.last_event
    labels = Labels(study.labels_path, read_only=True)
    try:
        if labels.last_event == since:
            return None
        new = sum(labels.labelled_passages_since(since, ("train",)).values())
        if not points and new:
            return "start"
        if new >= LABELS_PER_POINT:
            return "labels"
    finally:
        labels.close()
    finished = finished_batches(study)
    return "batch" if set(finished) - set(() if last is None else last.batches) else None


def finished_batches(study: Study) -> tuple[str, ...]:
    """Return the names of the batches in which every question is finished, without practice batches."""
    queue = Queue(study.labels_path)
    try:
        return tuple(batch.name for batch in queue.batches() if batch.done >= batch.questions and not batch.practice)
    finally:
        queue.close()


def _parse_point(manifest: dict[str, Any]) -> CurvePoint:
    """Read a point. Entries of other versions, such as the adapter's figures of older ones, are ignored."""

    def outcome(values: dict[str, Any]) -> CurveOutcome:
        known = {name: values[name] for name in CurveOutcome.__dataclass_fields__}
        return CurveOutcome(**known | {"reranker": Share(**values["reranker"])})

    known = {name: manifest[name] for name in CurvePoint.__dataclass_fields__ if name != "made"}
    read = {
        "made": manifest.get("made", ""),
        "batches": tuple(manifest["batches"]),
        "base_reranker": Share(**manifest["base_reranker"]),
        "scopes": {scope: outcome(values) for scope, values in manifest["scopes"].items()},
    }
    return CurvePoint(**known | read)


def as_json(points: list[CurvePoint]) -> str:
    """Return the points as JSON."""
    return json.dumps([asdict(point) for point in points], indent=2)
