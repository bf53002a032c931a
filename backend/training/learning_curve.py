"""The learning curve: the effect of labels, measured on dev and updated within seconds after new labels.

For each point, the feature judge is trained on the labels so far, and BM25's dev lists are reranked with it. Only
training questions are used for training, and dev questions only for measuring.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from blindspot.backend.core import jobs
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import atomic_folder, write_json, write_manifest
from blindspot.backend.core.study import Study
from blindspot.backend.judges.feature_judge import settled_labels, trainable_questions
from blindspot.backend.progress import Progress
from blindspot.backend.training.curve_bench import CurveBench, curve_inputs, share_with_interval
from blindspot.backend.training.stored_curve_points import (
    FOLDER,
    LABELS_PER_POINT,
    PAIRS,
    SCOPES,
    CurveOutcome,
    CurvePoint,
    Reason,
    Scope,
    curve_points,
    finished_batches,
    is_point_due,
    point_before,
)
from blindspot.db.errors import Missing
from blindspot.db.labels import Labels

KIND = "learning curve"
AUTOMATIC: tuple[Reason, ...] = ("start", "labels", "batch")
JOBS_LOOKED_AT = 20
RUNS_KEPT = 2  # of each scope: the last point's and the one it is compared with


@job(KIND, light=True, extras=("judges", "dense"))
def add_point(
    study: Study,
    reason: Reason = "asked",
    train: str | None = None,
    dev: str | None = None,
    encoder: str | None = None,
    seed: int = 0,
    until: int | None = None,
    progress: Progress | None = None,
) -> CurvePoint:
    """Add a point for the labels so far to the learning curve.

    Before the first point, a point without labels is added for comparison.

    Args:
        reason: what called for the point.
        train, dev, encoder: see `curve_inputs`.
        until: the last label event that counts; default all.

    Raises:
        Missing: no runs to learn from or to measure with. Refused: another process adds a point.
    """
    with study.lock_part(FOLDER):
        inputs = curve_inputs(study, train, dev, encoder)
        bench = CurveBench(study, inputs, seed, progress)
        last_event = bench.labels.last_event if until is None else until
        points = curve_points(study)
        if last_event and point_before(points, last_event, bench.about) is None:
            # The first point of a curve needs one without labels to be compared with.
            points.append(_add(bench, "start", 0, points))
        added = _add(bench, reason, last_event, points)
        # Labels that came meanwhile found this job at work and started none.
        while reason in AUTOMATIC and (again := is_point_due(study)) in AUTOMATIC:
            added = _add(bench, again, bench.labels.last_event, curve_points(study))
        return added


@job("learning curve history", light=True, extras=("judges", "dense"))
def add_history(
    study: Study,
    train: str | None = None,
    dev: str | None = None,
    encoder: str | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[int]:
    """Add the missing points after every LABELS_PER_POINT labels that people have given so far. Return their numbers.

    Raises the same errors as `add_point`.
    """
    inputs = curve_inputs(study, train, dev, encoder)
    known = {point.last_event for point in curve_points(study) if point.inputs == asdict(inputs)}
    training = set(trainable_questions(study, study.run(inputs.train)))
    labels = Labels(study.labels_path, read_only=True)
    events = [
        event.number
        for event in labels.events(by_people=True)
        if event.kind in ("label", "adjudicate") and event.question in training and event.number is not None
    ]
    numbers = [number for number in events[LABELS_PER_POINT - 1 :: LABELS_PER_POINT] if number not in known]
    return [
        add_point(study, "history", train, dev, encoder, seed, until=number, progress=progress).number
        for number in numbers
    ]


def is_unfinished(study: Study) -> bool:
    """Return whether a point is being computed or waiting to be computed."""
    return any(job.unfinished and job.kind.startswith(KIND) for job in jobs.recent(study, JOBS_LOOKED_AT))


def start_if_due(study: Study) -> str | None:
    """Start the job that adds a point if one is due, and return its id. It is called after every label, so it is fast.

    The annotator does not need the right to train, because the job is started in the name of the study.
    """
    reason = is_point_due(study)
    if reason is None:
        return None
    recent = [job for job in jobs.recent(study, JOBS_LOOKED_AT) if job.kind == KIND]
    if recent and recent[0].unfinished:
        return None
    labels = Labels(study.labels_path, read_only=True)
    if recent and recent[0].state != "done":
        # A point that failed would fail again after every label.
        tried = int(recent[0].arguments.get("until") or 0)
        if sum(labels.labelled_passages_since(tried, ("train",)).values()) < LABELS_PER_POINT:
            return None
    try:
        curve_inputs(study)
    except Missing:
        return None
    return jobs.submit(add_point, study, reason, until=0 if reason == "start" else labels.last_event)


def _add(bench: CurveBench, reason: Reason, last_event: int, points: Sequence[CurvePoint]) -> CurvePoint:
    started = time.monotonic()
    study = bench.study
    number = max((point.number for point in points), default=0) + 1
    before = point_before(list(points), last_event, bench.about)
    consensus = bench.consensus(last_event)
    by_people = settled_labels(pair for pair in consensus if pair.question in bench.trainable)
    changed = bench.changed_pairs(consensus, [] if before is None else bench.consensus(before.last_event))
    outcomes: dict[str, np.ndarray] = {}
    scopes: dict[str, CurveOutcome] = {}
    for scope in SCOPES:
        scopes[scope], outcomes[f"{scope}_reranker"] = _learn_scope(bench, scope, by_people, number, before)
    authors = bench.authors(0 if before is None else before.last_event, last_event)
    content = {
        "kind": "learning curve point",
        "number": number,
        "reason": reason,
        "labels": sum(len(labels) for labels in by_people.values()),
        "judged": len(by_people),
        "held_out_labels": sum(pair.question in bench.held_out for pair in consensus),
        "last_event": last_event,
        "new_labels": sum(authors.values()),
        "changed": len(changed),
        "before": None if before is None else before.number,
        "authors": authors,
        "batches": finished_batches(study),
        "inputs": bench.about,
        "settings": {"seed": bench.seed, "judge": asdict(bench.settings)},
        "relevance": bench.relevance.kind,
        "base_reranker": asdict(share_with_interval(bench.relevance.relevant[:, 0], bench.units)),
        "scopes": {scope: asdict(each) for scope, each in scopes.items()},
        "seconds": round(time.monotonic() - started, 1),
    }
    with atomic_folder(study.path(FOLDER, str(number))) as building:
        ids = np.array([q.id for q in bench.relevance.questions])
        np.savez(building / "outcomes.npz", allow_pickle=False, questions=ids, **outcomes)
        write_json(building / PAIRS, [[pair.question, pair.passage, pair.before, pair.now] for pair in changed])
        write_manifest(building, content)
    _delete_old_runs(study, curve_points(study))
    return next(point for point in curve_points(study) if point.number == number)


def _learn_scope(
    bench: CurveBench,
    scope: Scope,
    by_people: Mapping[str, Mapping[str, int]],
    number: int,
    point_before: CurvePoint | None,
) -> tuple[CurveOutcome, np.ndarray]:
    """Train on the questions of one scope. Return the figures, and the dev questions on which the reranker succeeds,
    (q,) bool.
    """
    lists, features, truth, answers = bench.training_lists(scope, by_people)
    ranker = bench.fit(lists, features, truth, answers)
    name = f"curve-{scope}-{number}"
    reordered, first = bench.rerank_dev_run(ranker)
    bench.keep_run(name, scope, reordered, number)
    earlier = None if point_before is None else bench.stored_outcomes(point_before, scope)
    learned = CurveOutcome(
        questions=len(lists.questions),
        model=ranker.kind,
        reranker=share_with_interval(first, bench.units),
        answered=0 if earlier is None else int((first & ~earlier).sum()),
        lost=0 if earlier is None else int((~first & earlier).sum()),
        run=name,
        run_before=None if point_before is None else point_before.scopes[scope].run,
    )
    return learned, first


def _delete_old_runs(study: Study, points: Sequence[CurvePoint]) -> None:
    """Delete the runs of older points but keep their figures. The runs of the last points, and the runs with which
    these are compared, are kept.
    """
    recent_runs = {
        name
        for point in points[-RUNS_KEPT:]
        for scope in point.scopes.values()
        for name in (scope.run, scope.run_before)
    }
    for name, manifest in study.parts("runs").items():
        if manifest.get("learning_curve") is not None and name not in recent_runs:
            shutil.rmtree(study.path("runs", name), ignore_errors=True)
