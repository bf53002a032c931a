"""Make the demo study.

`make_first_parts` makes what the app needs to open: the passages, the questions, the BM25 index and a BM25 run.
`finish` is a job that makes the rest, with a separate job for each part: labels by simulated annotators, two training
sets, the dense index and its runs, a model trained on each set, and a map. Both skip parts that exist, so they can be called again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blindspot.backend.core import jobs
from blindspot.backend.core.extras import require
from blindspot.backend.core.jobs import job
from blindspot.backend.core.manifest import atomic_folder
from blindspot.backend.core.study import SETTINGS_FILE, Study
from blindspot.backend.data.encyclopedia import collection
from blindspot.backend.data.importing.importer import import_passages, import_questions
from blindspot.backend.demo import ABOUT, ANNOTATORS, SOURCE
from blindspot.backend.demo.annotators import simulate_annotators
from blindspot.backend.judging.batches import make_batch
from blindspot.backend.judging.settings import ArmShares
from blindspot.backend.maps.making import make as make_map
from blindspot.backend.maps.stored import maps_of
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval import bm25, dense
from blindspot.backend.retrieval.retrieve import retrieve
from blindspot.backend.training.checkpoints import models_of
from blindspot.backend.training.dual_encoder import train_dual_encoder, trial_run_name, try_model
from blindspot.backend.training_sets.builder import build
from blindspot.backend.training_sets.training_set import training_sets
from blindspot.db.jobs import Job
from blindspot.db.queue import Queue

SPLIT = "dev"
RUNS = {"bm25": "bm25-dev", "dense": "minilm-dev", "hybrid": "hybrid-dev"}
TRAIN_RUN = "bm25-train"
JUDGED, YOURS = "simulated-annotators", "five-for-you"  # batches
NOISY, CLEAN = "noisy", "clean"
POLICIES = {NOISY: "none", CLEAN: "answer_match+labels"}
MODELS = {NOISY: "trained-noisy", CLEAN: "trained-clean"}
MAP = "before-and-after"
LABELLED = 60  # questions that the simulated annotators judge
TRAINING: dict[str, Any] = {
    "towers": "shared",
    "question_tokens": 32,
    "passage_tokens": 96,
    "batch": 16,
    "steps": 24,
    "learning_rate": 5e-5,
    "held_out": 30,
    "pool": 200,
    "evaluate_every": 12,
}
"""Fields of `DualEncoderSettings`, small enough that a CPU trains a model within a minute."""


@dataclass(frozen=True)
class DemoPart:
    """A part of the demo that `finish` makes.

    title: for progress.
    """

    title: str
    exists: Callable[[Study], bool]
    make: Callable[[Study, Progress | None], object]


@dataclass(frozen=True)
class DemoSize:
    """The size of a demo. Tests make a smaller demo with a test encoder.

    Attributes:
        labelled: questions that the simulated annotators judge.
        encoder: of study.toml; the dense retriever, and the start of training.
        training: fields of `DualEncoderSettings` that differ from TRAINING.
    """

    labelled: int = LABELLED
    encoder: str = "minilm"
    training: dict[str, Any] = field(default_factory=dict)


def make_first_parts(folder: Path, passages: int = 2000, progress: Progress | None = None) -> Study:
    """Make the missing parts of the demo study, up to and including its BM25 run.

    Args:
        passages: size of a new demo, of those that `collection` knows. A demo in the folder keeps its own.

    Raises Refused if `folder` holds anything but a study.
    """
    if (folder / SETTINGS_FILE).is_file():
        study = Study.open(folder)
    else:
        require("demo")
        study = Study.create(folder, "Invented encyclopedia")
    source = study.path(SOURCE)
    if not source.is_dir():
        with atomic_folder(source) as building:
            shutil.copytree(collection(passages), building, copy_function=shutil.copyfile, dirs_exist_ok=True)
    if not study.has_corpus:
        jobs.run(import_passages, study, str(source / "passages.tsv.gz"), progress=progress)
    if not study.questions.counts():
        jobs.run(import_questions, study, str(source / "questions.jsonl.gz"), progress=progress)
    if "bm25" not in study.parts("indexes"):
        jobs.run(bm25.build_index, study, progress=progress)
    if RUNS["bm25"] not in study.runs():
        jobs.run(retrieve, study, "bm25", split=SPLIT, name=RUNS["bm25"], progress=progress)
    return study


@job("demo", extras=("demo",))
def finish(study: Study, size: dict[str, Any] | None = None, progress: Progress | None = None) -> dict[str, int]:
    """Make the missing parts of the demo, each as a separate job. Returns the number of parts made: {made}.

    Args:
        size: fields of `DemoSize` that differ from its defaults.
    """
    waiting = missing_parts(study, DemoSize(**(size or {})))
    for number, part in enumerate(waiting, 1):
        if progress:
            progress(number - 1, len(waiting), part.title)
        part.make(study, _part_progress(progress, number, len(waiting), part.title))
    return {"made": len(waiting)}


def finish_in_background(study: Study) -> str | None:
    """Start `finish` in a separate process, unless it is running or nothing is missing. Returns the id of its job, or
    None.
    """
    if is_running(study) is not None or not missing_parts(study):
        return None
    return jobs.submit(finish, study)


def is_running(study: Study) -> Job | None:
    """Return the running job that makes the rest of the demo, or None."""
    return next((job for job in jobs.recent(study, 50) if job.kind == "demo" and job.unfinished), None)


def missing_parts(study: Study, size: DemoSize | None = None) -> list[DemoPart]:
    """Return the missing parts of the demo, in the order in which `finish` makes them."""
    return [part for part in demo_parts(size or DemoSize()) if not part.exists(study)]


def demo_parts(size: DemoSize) -> list[DemoPart]:
    """Return all parts that `finish` makes: first the quick parts, then the dense retriever, then the
    trained models.
    """
    settings = TRAINING | size.training
    return [
        _run_part("bm25", "train", TRAIN_RUN),
        DemoPart(
            "make a batch",
            lambda study: _has_batch(study, JUDGED),
            lambda study, report: _make_batch(study, size, report),
        ),
        DemoPart(
            "simulate annotators",
            _is_judged,
            lambda study, report: jobs.run(simulate_annotators, study, JUDGED, progress=report),
        ),
        DemoPart("choose five passages for you", lambda study: _has_batch(study, YOURS), _queue_five_questions),
        *(_training_set_part(name, policy) for name, policy in POLICIES.items()),
        DemoPart(
            "encode the passages",
            lambda study: size.encoder in study.parts("indexes"),
            lambda study, report: jobs.run(dense.build_index, study, size.encoder, progress=report),
        ),
        _run_part("dense", SPLIT, RUNS["dense"], encoder=size.encoder),
        *(part for name, model in MODELS.items() for part in trained_parts(name, model, size.encoder, settings)),
        _run_part("hybrid", SPLIT, RUNS["hybrid"], encoder=size.encoder),
        DemoPart(
            "draw the map",
            lambda study: MAP in maps_of(study),
            lambda study, report: _make_map(study, size.encoder, report),
        ),
    ]


def _run_part(kind: str, split: str, name: str, **options: Any) -> DemoPart:
    return DemoPart(
        f"retrieve {kind} over {split}",
        lambda study: name in study.runs(),
        lambda study, report: jobs.run(retrieve, study, kind, split=split, name=name, progress=report, **options),
    )


def _training_set_part(name: str, policy: str) -> DemoPart:
    return DemoPart(
        f"build the {name} training set",
        lambda study: name in training_sets(study),
        lambda study, report: jobs.run(build, study, name, [TRAIN_RUN], policy=policy, last=20, progress=report),
    )


def trained_parts(name: str, model: str, start: str, settings: dict[str, Any]) -> Iterator[DemoPart]:
    """Yield the parts for one trained model: the training, and the model's run over the dev questions."""
    yield DemoPart(
        f"train on the {name} set",
        lambda study: model in models_of(study),
        lambda study, report: jobs.run(
            train_dual_encoder, study, model, name, start=start, settings=settings, progress=report
        ),
    )
    yield DemoPart(
        f"retrieve with {model}",
        lambda study: trial_run_name(model, SPLIT) in study.runs(),
        lambda study, report: jobs.run(try_model, study, model, SPLIT, progress=report),
    )


def _has_batch(study: Study, name: str) -> bool:
    return any(batch.name == name for batch in Queue(study.labels_path).batches())


def _is_judged(study: Study) -> bool:
    return any(batch.name == JUDGED and batch.done == batch.questions for batch in Queue(study.labels_path).batches())


def _make_batch(study: Study, size: DemoSize, report: Progress | None) -> object:
    return jobs.run(
        make_batch,
        study,
        JUDGED,
        [TRAIN_RUN],
        size=size.labelled,
        depth=10,
        candidates=5,
        people_needed=len(ANNOTATORS),
        mix=ArmShares(audit=0.2, second=0.0, repeat=0.0),
        progress=report,
    )


def _queue_five_questions(study: Study, report: Progress | None) -> object:
    """Queue a batch of five questions with one passage each, chosen by the priority sampling. The simulated annotators
    do not judge it, so it is left for the user.
    """
    theirs = {item.question for item in Queue(study.labels_path).items(JUDGED)}
    others = [question.id for question in study.questions.all(split="train") if question.id not in theirs]
    return jobs.run(
        make_batch,
        study,
        YOURS,
        [TRAIN_RUN],
        size=5,
        depth=10,
        slice=others,
        candidates=1,
        mix=ArmShares(audit=0.0, second=0.0, repeat=0.0),
        progress=report,
    )


def _make_map(study: Study, encoder: str, report: Progress | None) -> object:
    return jobs.run(
        make_map,
        study,
        name=MAP,
        encoder=encoder,
        second=MODELS[CLEAN],
        run=RUNS["dense"],
        passages=["gold", "top"],
        top=5,
        most=800,
        method="tsne",
        progress=report,
    )


def _part_progress(progress: Progress | None, number: int, total: int, title: str) -> Progress | None:
    """Return a progress callback for one part that reports the progress of the whole demo."""
    if progress is None:
        return None

    def report(completed: int, of: int | None, activity: str, /) -> None:
        share = f" ({100 * completed // of}%)" if of else ""
        progress(number - 1, total, f"{title}: {activity}{share}")

    return report


def result_line(study: Study) -> str:
    """Return one line with the size of the demo."""
    about = json.loads((study.path(SOURCE) / ABOUT).read_text())
    return (
        f"An invented encyclopedia: {about['passages']:,} passages about {about['entities']:,} entities, "
        f"{about['questions']:,} questions, {about['planted']:,} of them with planted false negatives."
    )
