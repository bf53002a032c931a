"""Simulated annotators of a study with known truth, with given accuracy and speed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue

WRONG = {"positive": ("related", "negative"), "related": ("positive", "negative"), "negative": ("related", "unsure")}


def annotate(
    study: Study,
    truth: Mapping[str, set[str]],
    skills: Mapping[str, float],
    questions: int | None = None,
    seed: int = 0,
) -> int:
    """Let people work the queue in turn until it is empty, or until `questions` are done. Return the number of finished
    questions.

    Args:
        truth: the passages that answer each question. Other passages are related if their id is even, else negative.
        skills: by name, the probability of a correct label. Unknown people are added.
    """
    rng = np.random.default_rng(seed)
    people, labels, queue = People(study.labels_path), Labels(study.labels_path), Queue(study.labels_path)
    for name in skills.keys() - {who.name for who in people.all()}:
        people.add(name)
    finished, working = 0, True
    while working and (questions is None or finished < questions):
        working = False
        for name, skill in skills.items():
            for lease in queue.claim(name, 1):
                working = True
                item = queue.items(lease.batch, [lease.question])[0]
                outbox = [
                    _gesture(rng, f"{name}-{seed}-{finished}-{n}", lease, each.passage, truth, skill)
                    for n, each in enumerate(item.candidates)
                ]
                assert all(receipt.is_in_store for receipt in labels.add_all(name, outbox))
                queue.finish(name, lease.batch, lease.question)
                finished += 1
    return finished


def _gesture(
    rng: np.random.Generator, id: str, lease, passage: str, truth: Mapping[str, set[str]], skill: float
) -> LabelEvent:
    right = "positive" if passage in truth[lease.question] else "negative" if int(passage) % 2 else "related"
    label = right if rng.random() < skill else WRONG[right][int(rng.integers(2))]
    milliseconds = int(rng.lognormal(np.log(4000 / skill), 0.6))
    return LabelEvent(
        id, "label", lease.question, (Choice(passage, label),), milliseconds=milliseconds, batch=lease.batch
    )
