"""Count what each annotator has finished, and what they can still get."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from blindspot.backend.core.study import Study
from blindspot.backend.judging.quality import labels_in_force
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue


@dataclass(frozen=True, slots=True)
class PersonProgress:
    """The progress of one person.

    Attributes:
        finished: Number of finished questions, by batch.
        remaining: Number of questions that the person can still get, by open batch; none if they are not active.
        labels: Number of labels in force; a passage that was judged twice counts once.
    """

    name: str
    finished: dict[str, int]
    remaining: dict[str, int]
    labels: int


def team_progress(study: Study) -> list[PersonProgress]:
    """Return the progress of everybody who has labelled or can get questions, by name."""
    queue, by_person = Queue(study.labels_path), defaultdict(list)
    for event in labels_in_force(Labels(study.labels_path).events()):
        by_person[event.annotator].append(event)
    found = []
    for person in People(study.labels_path).all():
        finished = queue.finished_counts(person.name)
        remaining = queue.available_counts(person.name) if person.active else {}
        events = by_person[person.name]
        if events or finished or remaining:
            labels = len({(event.question, event.passage) for event in events})
            found.append(PersonProgress(person.name, finished, remaining, labels))
    return found
