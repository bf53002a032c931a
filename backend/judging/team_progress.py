"""Compute each annotator's progress, labels per hour by day, and labels given faster than a person can read. Practice
labels are left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from blindspot.backend.core.study import Study
from blindspot.backend.judging.quality import MAX_GESTURE_MS, labels_in_force
from blindspot.db.events import EventRow
from blindspot.db.labels import Labels
from blindspot.db.people import People
from blindspot.db.queue import Queue

WORDS_PER_SECOND = 15
"""Faster than anybody reads: 900 words a minute, three to four times the usual speed."""
EXCERPT_WORDS = 35
"""Number of words of a passage that an annotator has to read at least: the excerpt around the answer, or the passage if
it is shorter.
"""
FLAGGED_SHARE, FLAGGED_LABELS = 0.25, 20
"""A person is flagged if more than this share of their timed labels was given too fast, and there are at least this
many timed labels.
"""


@dataclass(frozen=True, slots=True)
class DayOfWork:
    """One day (UTC) of a person's work.

    Attributes:
        per_hour: Labels in an hour of labelling; None if no label of the day has a time.
    """

    date: str
    labels: int
    per_hour: float | None


@dataclass(frozen=True, slots=True)
class PersonProgress:
    """The progress of one person.

    Attributes:
        finished: Number of finished questions, by batch.
        remaining: Number of questions that the person can still get, by open batch; none if they are not active.
        labels: Number of labels in force; a passage that was judged twice counts once.
        days: The days with labels, oldest first; a passage that was judged twice counts each time.
        timed, fast: Number of labels with a known time, and of those given faster than one can read.
    """

    name: str
    finished: dict[str, int]
    remaining: dict[str, int]
    labels: int
    days: tuple[DayOfWork, ...]
    timed: int
    fast: int

    @property
    def is_too_fast(self) -> bool:
        """Whether so many labels were given too fast that a lead should look at them."""
        return are_too_fast(self.timed, self.fast)


def are_too_fast(timed: int, fast: int) -> bool:
    """Return whether so many of some timed labels were given faster than one can read that somebody should look at them."""
    return timed >= FLAGGED_LABELS and fast > FLAGGED_SHARE * timed


def team_progress(study: Study) -> list[PersonProgress]:
    """Return the progress of everybody who has labelled or can get questions, by name."""
    queue, by_person = Queue(study.labels_path), defaultdict(list)
    for event in labels_in_force(Labels(study.labels_path).events()):
        by_person[event.annotator].append(event)
    words = word_counts(study, {event.passage for events in by_person.values() for event in events if event.passage})
    found = []
    for person in People(study.labels_path).all():
        finished = queue.finished_counts(person.name)
        remaining = queue.available_counts(person.name) if person.active else {}
        events = by_person[person.name]
        if events or finished or remaining:
            timed, fast = count_fast_labels(events, words)
            labels = len({(event.question, event.passage) for event in events})
            found.append(PersonProgress(person.name, finished, remaining, labels, days_of_work(events), timed, fast))
    return found


def days_of_work(events: Iterable[EventRow]) -> tuple[DayOfWork, ...]:
    """Return the days on which labels were given, with the labels per hour of each day."""
    by_day: dict[str, list[EventRow]] = defaultdict(list)
    for event in events:
        by_day[datetime.fromtimestamp(event.server_time, UTC).strftime("%Y-%m-%d")].append(event)
    return tuple(DayOfWork(date, len(by_day[date]), _per_hour(by_day[date])) for date in sorted(by_day))


def _per_hour(events: Sequence[EventRow]) -> float | None:
    times = {event.gesture: event.milliseconds for event in events if event.milliseconds is not None}
    spent = sum(min(time, MAX_GESTURE_MS) for time in times.values())
    return sum(event.gesture in times for event in events) * 3_600_000 / spent if spent else None


def count_fast_labels(events: Iterable[EventRow], words: Mapping[str, int]) -> tuple[int, int]:
    """Return the number of labels with a known time, and the number of these that were given faster than a person can
    read.

    Args:
        words: The number of words of each passage; of an unknown one, EXCERPT_WORDS.
    """
    to_read: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    times: dict[str, int] = {}
    for event in events:
        if event.milliseconds is not None and event.passage is not None:
            times[event.gesture] = event.milliseconds
            labels[event.gesture] += 1
            to_read[event.gesture] += min(words.get(event.passage, EXCERPT_WORDS), EXCERPT_WORDS)
    fast = sum(labels[one] for one, time in times.items() if time < 1000 * to_read[one] / WORDS_PER_SECOND)
    return labels.total(), fast


def word_counts(study: Study, passages: set[str]) -> dict[str, int]:
    """Return the number of words of passages, by id; nothing if the study has no passages."""
    if not passages or not study.has_corpus:
        return {}
    return {id: len(passage.text.split()) for id, passage in study.corpus.by_id(passages).items()}
