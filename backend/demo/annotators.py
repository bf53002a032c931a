"""Simulated annotators for the demo. Their labels come from the passages that are known to answer, and each annotator
makes different random mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from blindspot.backend.core.jobs import job
from blindspot.backend.core.study import Study
from blindspot.backend.data.encyclopedia import answering_passages
from blindspot.backend.demo import ANNOTATORS, SOURCE
from blindspot.backend.progress import Progress
from blindspot.db.events import Choice, Label, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Lease, Queue

MISTAKES: dict[Label, Label] = {"positive": "related", "related": "negative", "negative": "related"}
SECONDS = 7.0  # median time for a passage
SEED = 0


@job("simulate annotators")
def simulate_annotators(study: Study, name: str, progress: Progress | None = None) -> dict[str, int]:
    """Let the simulated annotators judge a batch. Returns the numbers of questions and labels: {questions, labels}.

    Args:
        name: Name of the batch. Its labels count like those of people, under names that say "simulated".
    """
    people, labels, queue = People(study.labels_path), Labels(study.labels_path), Queue(study.labels_path)
    known = {person.name for person in people.all()}
    for annotator in ANNOTATORS.keys() - known:
        people.add(annotator)
    truth, rng = answering_passages(study.path(SOURCE)), np.random.default_rng(SEED)
    total = sum(batch.questions for batch in queue.batches() if batch.name == name) * len(ANNOTATORS)
    finished = n_labels = 0
    while leases := [(annotator, lease) for annotator in ANNOTATORS for lease in queue.claim(annotator, 1)]:
        for annotator, lease in leases:
            events = _judge_lease(study, queue, annotator, lease, truth, rng)
            labels.add_all(annotator, events)
            queue.finish(annotator, lease.batch, lease.question)
            finished, n_labels = finished + 1, n_labels + len(events)
        if progress:
            progress(finished, total, "simulated annotators judge")
    return {"questions": finished, "labels": n_labels}


def _judge_lease(
    study: Study,
    queue: Queue,
    annotator: str,
    lease: Lease,
    truth: Mapping[str, set[str]],
    rng: np.random.Generator,
) -> list[LabelEvent]:
    candidates = [candidate.passage for candidate in queue.items(lease.batch, [lease.question])[0].candidates]
    subject = study.questions.with_ids([lease.question])[0].subject or ""
    texts = study.corpus.by_id(candidates).values()
    names_subject = {passage.id for passage in texts if subject and subject in f"{passage.title} {passage.text}"}
    events = []
    for passage in candidates:
        related: Label = "related" if passage in names_subject else "negative"
        correct_label: Label = "positive" if passage in truth[lease.question] else related
        label = correct_label if rng.random() < ANNOTATORS[annotator] else MISTAKES[correct_label]
        events.append(
            LabelEvent(
                f"simulated-{annotator[:3]}-{lease.question}-{passage}",
                "label",
                lease.question,
                (Choice(passage, label),),
                milliseconds=int(1000 * SECONDS * rng.lognormal(0, 0.4)),
                batch=lease.batch,
            )
        )
    return events
