"""What the Quality page shows of the labels: where people disagree, how far they agree, how fast and how steadily they work.

Everything is read from labels.db anew; nothing is kept. Practice is left out everywhere. Agreement and drift are of labels given
blind, for a label given in sight of others' is no second opinion. The rate of false negatives is in `backend.judging.audits`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from analysis.agreement import Agreement, alpha, kappa
from analysis.audit import Rate, rate
from db.events import LABELS, EventRow
from db.labels import Labels

if TYPE_CHECKING:
    from backend.core.study import Study

LONGEST = 120_000
"""Milliseconds that one gesture counts at most: beyond it the annotator was away."""
_RESAMPLES = 1000
_CODE = {label: code for code, label in enumerate(LABELS)}
_WORST = {frozenset({"positive", "negative"}): 0, frozenset({"positive", "related"}): 1}


@dataclass(frozen=True, slots=True)
class Disputed:
    """A passage that nobody has settled. votes: by label, who gave it, in the order of `db.events.LABELS`."""

    passage: str
    title: str
    votes: dict[str, tuple[str, ...]]

    @property
    def only_unsure(self) -> bool:
        """No two people disagree; those who judged it do not know."""
        return set(self.votes) == {"unsure"}


@dataclass(frozen=True, slots=True)
class Dispute:
    """A question with its disputed passages."""

    question: str
    text: str
    passages: tuple[Disputed, ...]


@dataclass(frozen=True, slots=True)
class Agreements:
    """All people together, or two of them: on the four labels, and on positive or not (there unsure counts as not judged)."""

    people: tuple[str, ...]
    four: Agreement
    positive: Agreement


@dataclass(frozen=True, slots=True)
class Work:
    """What one person did.

    labels: that stand (undone ones do not). questions: on how many questions. positive, unsure: of these labels.
    timed: labels whose time is known. seconds: their median; a gesture's time is shared out among the passages it labels.
    per_hour: labels in an hour of labelling, each gesture counted at most two minutes. repeats, same: labels given blind to a
    passage that the same person had judged in another batch, and those of them that are the same as before.
    """

    name: str
    labels: int
    questions: int
    positive: int
    unsure: int
    timed: int
    seconds: float | None
    per_hour: float | None
    repeats: int
    same: int


@dataclass(frozen=True, slots=True)
class Quality:
    """disputes: worst first. bad: questions that people call bad, with their text and how many say so. drift: the share of repeats
    that got the same label, its unit the question. together: None while nobody has labelled anything."""

    events: int
    disputes: tuple[Dispute, ...]
    bad: tuple[tuple[str, str, int], ...]
    together: Agreements | None
    pairs: tuple[Agreements, ...]
    work: tuple[Work, ...]
    drift: Rate


def quality(study: Study) -> Quality:
    """Everything but the audit, as the store is now."""
    labels = Labels(study.labels_path)
    standing = standing_labels(labels.events())
    agreements = _agreements(standing)
    again = repeats(standing)
    drift = rate(
        [same for _, _, same in again],
        [True] * len(again),
        np.ones(len(again)),
        np.array([q for q, _, _ in again], dtype=str),
    )
    return Quality(
        labels.last_event,
        disputes(study, labels),
        _bad(study, labels),
        agreements[0],
        agreements[1],
        _work(standing, again),
        drift,
    )


def standing_labels(events: Iterable[EventRow]) -> list[EventRow]:
    """Labels that nobody took back, in order; practice and adjudication are left out."""
    events = list(events)
    undone = {event.undoes for event in events if event.undoes is not None}
    return [event for event in events if event.kind == "label" and event.number not in undone and not event.practice]


def disputes(study: Study, labels: Labels) -> tuple[Dispute, ...]:
    """Questions with passages that are in dispute, or that all who judged them are unsure of; those to adjudicate first stand first.

    First come positive against negative, then positive against related, then what else is in dispute, then the unsure.
    """
    unsettled: dict[str, list[str]] = defaultdict(list)
    for pair in labels.consensus():
        if pair.state == "open" or (pair.state == "agreed" and pair.label == "unsure"):
            unsettled[pair.question].append(pair.passage)
    votes: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for judgement in labels.judgements(unsettled):
        votes[judgement.question, judgement.passage][judgement.label].append(judgement.annotator)
    titles = _titles(study, {passage for passages in unsettled.values() for passage in passages})
    texts = {question.id: question.text for question in study.questions.some(unsettled)}
    found = []
    for question, passages in unsettled.items():
        made = [
            Disputed(passage, titles.get(passage, passage), _votes(votes[question, passage])) for passage in passages
        ]
        found.append(Dispute(question, texts[question], tuple(sorted(made, key=_badness))))
    return tuple(sorted(found, key=lambda dispute: (_badness(dispute.passages[0]), -len(dispute.passages))))


def repeats(standing: Sequence[EventRow]) -> list[tuple[str, str, bool]]:
    """(question, annotator, whether the label is the same) for each passage that somebody judged blind in one batch and then another.

    Within a batch the last label counts: taking another key at once is no drift. Three times make two repeats.
    """
    given: dict[tuple[str, str, str], dict[str | None, str]] = defaultdict(dict)
    for event in standing:
        if event.blind:
            given[event.annotator, event.question, event.passage][event.batch] = event.label
    return [
        (question, annotator, before == after)
        for (annotator, question, _), batches in given.items()
        for before, after in zip(list(batches.values()), list(batches.values())[1:], strict=False)
    ]


def _votes(votes: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {label: tuple(sorted(votes[label])) for label in LABELS if label in votes}


def _badness(passage: Disputed) -> int:
    given = set(passage.votes)
    if passage.only_unsure:
        return 3
    return min((rank for pair, rank in _WORST.items() if pair <= given), default=2)


def _titles(study: Study, passages: set[str]) -> dict[str, str]:
    if not passages or not study.has_corpus:
        return {}
    ordinals = study.corpus.ordinals(passages)
    return {passage.id: passage.title for passage in study.corpus.passages(list(ordinals.values()))}


def _bad(study: Study, labels: Labels) -> tuple[tuple[str, str, int], ...]:
    called = labels.bad_questions()
    return tuple((question.id, question.text, len(called[question.id])) for question in study.questions.some(called))


def _agreements(standing: Sequence[EventRow]) -> tuple[Agreements | None, tuple[Agreements, ...]]:
    last = {(event.annotator, event.question, event.passage): event.label for event in standing if event.blind}
    by_pair: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for (annotator, question, passage), label in last.items():
        by_pair[question, passage][annotator] = _CODE[label]
    people = sorted({annotator for annotator, _, _ in last})
    if not people:
        return None, ()
    questions = np.array([question for question, _ in by_pair], dtype=str)
    codes = np.array([[votes.get(name, -1) for name in people] for votes in by_pair.values()])
    binary = np.select([codes == _CODE["positive"], (codes == -1) | (codes == _CODE["unsure"])], [1, -1], 0)
    together = Agreements(tuple(people), _alpha(codes, questions), _alpha(binary, questions))
    pairs = []
    for a, b in combinations(range(len(people)), 2):
        both = (codes[:, a] >= 0) & (codes[:, b] >= 0)
        if both.any():
            made = (_kappa(each[:, a], each[:, b], questions) for each in (codes, binary))
            pairs.append(Agreements((people[a], people[b]), *made))
    return together, tuple(pairs)


def _alpha(codes: np.ndarray, questions: np.ndarray) -> Agreement:
    counts = np.stack([(codes == code).sum(axis=1) for code in range(len(LABELS))], axis=1)
    return alpha(counts, questions, resamples=_RESAMPLES)


def _kappa(a: np.ndarray, b: np.ndarray, questions: np.ndarray) -> Agreement:
    both = (a >= 0) & (b >= 0)
    return kappa(a[both], b[both], questions[both], resamples=_RESAMPLES)


def _work(standing: Sequence[EventRow], again: Sequence[tuple[str, str, bool]]) -> tuple[Work, ...]:
    by_person: dict[str, list[EventRow]] = defaultdict(list)
    for event in standing:
        by_person[event.annotator].append(event)
    repeated = Counter(annotator for _, annotator, _ in again)
    same = Counter(annotator for _, annotator, alike in again if alike)
    return tuple(_work_of(name, events, repeated[name], same[name]) for name, events in sorted(by_person.items()))


def _work_of(name: str, events: Sequence[EventRow], repeated: int, same: int) -> Work:
    sizes = Counter(event.gesture for event in events)
    times = {event.gesture: event.milliseconds for event in events if event.milliseconds is not None}
    each = [times[event.gesture] / sizes[event.gesture] for event in events if event.gesture in times]
    spent = sum(min(time, LONGEST) for time in times.values())
    labels = {(event.question, event.passage): event.label for event in events}
    given = Counter(labels.values())
    return Work(
        name,
        len(labels),
        len({question for question, _ in labels}),
        given["positive"],
        given["unsure"],
        len(each),
        median(each) / 1000 if each else None,
        len(each) * 3_600_000 / spent if spent else None,
        repeated,
        same,
    )
