"""A study in which every training pair can be checked by hand: births, a run, labels, scores."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import numpy as np

from blindspot.backend.core.runs import write_run
from blindspot.backend.core.study import Study
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.training_sets.builder import make_training_set
from blindspot.backend.training_sets.denoising import Thresholds
from blindspot.backend.training_sets.spec import TrainingSetSpec
from blindspot.backend.training_sets.training_set import TrainingSet
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.records import Hits, Passage, Question
from tests.studies import make_study

TEXTS = (
    "Ann was born in Oslo.",
    "Oslo is where Ann came into the world.",
    "Oslo is the capital of Norway.",
    "Ann painted boats.",
    # fmt: skip
    "Ben sold fish.",
    "Ben was born in Molde.",
    "Molde is a town with roses.",
    "Cid was born in Bodo.",
)
PASSAGES = 40
RUN = {  # question: passages by rank
    "q0": (1, 0, 2, 3, 4, 8), "q1": (6, 5, 4, 8, 9, 10), "q2": (7, 9, 10, 11, 12, 13), "q3": (7, 14, 15, 16, 17, 18),
    "leak": (1, 2, 3, 4, 5, 6), "fact": (1, 2, 3, 4, 5, 6), "bucket": (1, 2, 3, 4, 5, 6), "free": (19, 20, 21, 22, 23, 24),
    "dev": (1, 2, 3, 4, 5, 6), "test": (1, 2, 3, 4, 5, 6),
}  # fmt: skip


def born(id: str, name: str, town: str, split: str = "train", gold: tuple[str, ...] = (), **more) -> Question:
    return Question(
        id,
        f"Where was {name} born?",
        (town,),
        "P19",
        name,
        frequency=len(name),
        dataset="births",
        split=split,
        gold=gold,
        **more,
    )


QUESTIONS = (
    born("q0", "Ann", "Oslo", gold=("p0",)), born("q1", "Ben", "Molde", gold=("p5",)), born("q2", "Cid", "Bodo", gold=("p7",)),
    born("q3", "Dag", "Bodo"),
    # the text of "dev"
    Question("leak", "where was EVA born", ("Oslo",), dataset="births", split="train", gold=("p1",)),
    Question("fact", "In which town did Finn first see light?", ("Oslo",), "P19", "finn", dataset="births", split="train", gold=("p1",)),
    born("bucket", "Gro", "Oslo", gold=("p1",), bucket=3),
    Question("free", "Who sells fish?", dataset="asked", split="unlabelled"),
    born("dev", "Eva", "Oslo", "dev", ("p2",)), born("test", "Finn", "Oslo", "test", ("p2",)),
)  # fmt: skip


def training_study(folder: Path) -> Study:
    texts = (*TEXTS, *(f"Filler {i} about nothing." for i in range(len(TEXTS), PASSAGES)))
    study = make_study(
        folder, [Passage(f"p{i}", f"Title {i}" if i % 2 == 0 else "", text) for i, text in enumerate(texts)], QUESTIONS
    )
    ordinals = np.array(list(RUN.values()), np.int32)
    scores = np.tile(np.array([9, 8, 7, 6, 5, 4], np.float32), (len(RUN), 1))
    write_run(study, "r", list(RUN), Hits(ordinals, scores), {"retriever": "r"})
    for name, role in (("ann", "annotator"), ("ben", "annotator"), ("ada", "adjudicator")):
        People(study.labels_path).add(name, role)
    return study


_numbers = count(1)


def say(study: Study, who: str, question: str, labels: dict[str, str], kind: str = "label") -> None:
    gesture = LabelEvent(
        f"s{next(_numbers)}", kind, question, tuple(Choice(passage, label) for passage, label in labels.items())
    )
    Labels(study.labels_path, passages=study.corpus.ordinals).add(who, gesture)


def score(
    study: Study, rows: dict[tuple[str, str], float], calibrated: bool = True, model: str = "judge"
) -> ScoreStore:
    store = ScoreStore.create(study, model, calibrated)
    store.add((question, passage, probability) for (question, passage), probability in rows.items())
    return store


def build(study: Study, policy: str = "none", name: str | None = None, progress=None, **more) -> TrainingSet:
    """Fields of `Thresholds` may be among the others."""
    chosen = {
        key: more.pop(key)
        for key in (
            *("keep_below", "keep_below_with_answer", "propose_above", "propose_above_with_answer"),
            *("share", "margin", "related"),
        )
        if key in more
    }
    request = TrainingSetSpec(name or f"s{next(_numbers)}", ("r",), policy, thresholds=Thresholds(**chosen), **more)
    return make_training_set(study, request, progress)


def told(training_set: TrainingSet, question: str) -> dict[str, tuple[str, str]]:
    """Passage to (role, reason)."""
    return {pair.passage: (pair.role, pair.reason) for _, pairs in training_set.groups([question]) for pair in pairs}


def judge_report(
    study: Study,
    drop: float | None = 0.2,
    add: float | None = 0.9,
    add_with_answer: float | None = 0.6,
    name: str = "judge",
    drop_with_answer: float | None = 0.2,
) -> None:
    """Return the thresholds in the format of a feature judge's folder. Its scores come from `score`."""
    folder = study.path("models", name)
    folder.mkdir(parents=True, exist_ok=True)
    values = {"drop": drop, "drop_with_answer": drop_with_answer, "add": add, "add_with_answer": add_with_answer}
    about = {"kind": "feature-judge", "name": name, "corpus": study.corpus.digest}
    (folder / "training.json").write_text(json.dumps(about | {key: {"value": value} for key, value in values.items()}))


def content(training_set):
    """Return every group of a training set."""
    return list(training_set.groups())
