"""Label quality: disputes, agreement between annotators, drift, and annotators' speed.

All figures are computed from labels.db on every call; nothing is cached. Practice labels are excluded everywhere.
Agreement and drift use only labels given blind, because a label given in sight of others' labels is not a second
opinion. The rate of false negatives is in `blindspot.backend.judging.audits`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

import numpy as np

from blindspot.analysis.agreement import Agreement, alpha, kappa
from blindspot.analysis.audit import Rate, rate
from blindspot.backend.core.study import Study
from blindspot.backend.core.units import units_by_id
from blindspot.db.events import LABELS, EventRow, Label
from blindspot.db.labels import Labels

MAX_GESTURE_MS = 120_000
"""Maximum number of milliseconds counted for one key press; after a longer time the annotator was probably away."""
_RESAMPLES = 1000
_CODE = {label: code for code, label in enumerate(LABELS)}
_WORST = {frozenset({"positive", "negative"}): 0, frozenset({"positive", "related"}): 1}


@dataclass(frozen=True, slots=True)
class DisputedPassage:
    """A passage whose label is not settled.

    Attributes:
        votes: The annotators by the label they gave, in the order of `blindspot.db.events.LABELS`.
    """

    passage: str
    title: str
    votes: dict[str, tuple[str, ...]]

    @property
    def only_unsure(self) -> bool:
        """Whether every annotator who judged the passage was unsure."""
        return set(self.votes) == {"unsure"}


@dataclass(frozen=True, slots=True)
class Dispute:
    """A question and its disputed passages."""

    question: str
    text: str
    passages: tuple[DisputedPassage, ...]


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """Agreement between all annotators, or between two of them.

    Attributes:
        people: The annotators.
        four: Agreement on the four labels.
        positive: Agreement on positive or not; unsure counts as not judged.
    """

    people: tuple[str, ...]
    four: Agreement
    positive: Agreement


@dataclass(frozen=True, slots=True)
class AnnotatorStats:
    """Statistics of one annotator's labels.

    Attributes:
        labels: Number of labels, without undone ones.
        questions: Number of questions with these labels.
        positive, unsure: Number of labels of this kind.
        timed: Number of labels with a known time.
        seconds: Median seconds for a label. A gesture's time is divided among the passages that it labels.
        per_hour: Labels in an hour of labelling; a gesture counts as at most MAX_GESTURE_MS.
        repeats: Blind labels of passages that the same annotator had judged in another batch.
        same: Repeats with the same label as before.
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
    """The figures of the Quality page, without those of the audits.

    Attributes:
        events: Number of the newest label event included.
        disputes: Disputed questions, worst first.
        bad: Questions that annotators called bad, as (id, text, number of annotators).
        together: Agreement of all annotators; None before the first label.
        pairs: Agreement of each pair of annotators who judged the same passages.
        work: The work of each annotator.
        drift: Share of repeats with the same label as before, resampled by question.
        clashes: How often two people gave a passage two different labels when judging blind, the most frequent first.
    """

    events: int
    disputes: tuple[Dispute, ...]
    bad: tuple[tuple[str, str, int], ...]
    together: PairAgreement | None
    pairs: tuple[PairAgreement, ...]
    work: tuple[AnnotatorStats, ...]
    drift: Rate
    clashes: tuple[tuple[Label, Label, int], ...] = ()


def quality(study: Study) -> Quality:
    """Compute the quality figures from the current labels."""
    labels = Labels(study.labels_path)
    labels_now = labels_in_force(labels.events(by_people=True))
    agreements = _agreements(study, labels_now)
    again = repeated_judgements(labels_now)
    return Quality(
        labels.last_event,
        disputes(study, labels),
        _bad_questions(study, labels),
        agreements[0],
        agreements[1],
        _annotator_stats(labels_now, again),
        share_of_equal_labels(study, [(question, same) for question, _, same in again]),
        label_clashes(labels_now),
    )


def labels_in_force(events: Iterable[EventRow]) -> list[EventRow]:
    """Return the label events that were not undone, in order, without practice and adjudication labels."""
    events = list(events)
    undone = {event.undoes for event in events if event.undoes is not None}
    return [event for event in events if event.kind == "label" and event.number not in undone and not event.practice]


def disputes(study: Study, labels: Labels) -> tuple[Dispute, ...]:
    """Return the questions with unsettled passages, in the order in which to adjudicate them.

    A passage is unsettled if annotators disagree or if all who judged it are unsure. Positive against negative comes
    first, then positive against related, then other disagreements, then unsure.
    """
    unsettled: dict[str, list[str]] = defaultdict(list)
    for pair in labels.consensus():
        if pair.state == "open" or (pair.state == "agreed" and pair.label == "unsure"):
            unsettled[pair.question].append(pair.passage)
    votes: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for judgement in labels.judgements(unsettled):
        votes[judgement.question, judgement.passage][judgement.label].append(judgement.annotator)
    titles = _titles(study, {passage for passages in unsettled.values() for passage in passages})
    texts = {question.id: question.text for question in study.questions.with_ids(unsettled)}
    result = []
    for question, passages in unsettled.items():
        disputed = [
            DisputedPassage(passage, titles.get(passage, passage), _votes(votes[question, passage]))
            for passage in passages
        ]
        result.append(Dispute(question, texts[question], tuple(sorted(disputed, key=_severity))))
    return tuple(sorted(result, key=lambda dispute: (_severity(dispute.passages[0]), -len(dispute.passages))))


def repeated_judgements(label_events: Sequence[EventRow]) -> list[tuple[str, str, bool]]:
    """Return (question, annotator, whether the label is the same) for each passage that an annotator judged blind in
    two batches.

    Within a batch the last label is used, because correcting a label immediately is not drift. A passage judged in
    three batches gives two repeats.
    """
    labels_by_pair: dict[tuple[str, str, str], dict[str | None, Label]] = defaultdict(dict)
    for event in label_events:
        if event.blind and event.passage is not None and event.label is not None:
            labels_by_pair[event.annotator, event.question, event.passage][event.batch] = event.label
    return [
        (question, annotator, before == after)
        for (annotator, question, _), batches in labels_by_pair.items()
        for before, after in zip(list(batches.values()), list(batches.values())[1:], strict=False)
    ]


def share_of_equal_labels(study: Study, comparisons: Sequence[tuple[str, bool]]) -> Rate:
    """Return the share of equal labels, with a bootstrap interval over units of observation.

    Args:
        comparisons: The question of each compared passage, and whether its two labels are the same.
    """
    same = np.array([is_same for _, is_same in comparisons], dtype=bool)
    asked = [question for question, _ in comparisons]
    units = units_by_id(study, asked)
    return rate(same, np.ones(len(same), dtype=bool), np.ones(len(same)), np.array(asked, dtype=str), units=units)


def _votes(votes: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {label: tuple(sorted(votes[label])) for label in LABELS if label in votes}


def _severity(passage: DisputedPassage) -> int:
    """Return how bad a dispute is: 0 for positive against negative, the worst, to 3 for unsure alone."""
    voters = set(passage.votes)
    if passage.only_unsure:
        return 3
    return min((rank for pair, rank in _WORST.items() if pair <= voters), default=2)


def _titles(study: Study, passages: set[str]) -> dict[str, str]:
    if not passages or not study.has_corpus:
        return {}
    return {id: passage.title for id, passage in study.corpus.by_id(passages).items()}


def _bad_questions(study: Study, labels: Labels) -> tuple[tuple[str, str, int], ...]:
    called = labels.bad_questions()
    return tuple(
        (question.id, question.text, len(called[question.id])) for question in study.questions.with_ids(called)
    )


def label_clashes(label_events: Sequence[EventRow]) -> tuple[tuple[Label, Label, int], ...]:
    """Return how often two people gave a passage different labels, by pair of labels, most frequent first."""
    by_pair: dict[tuple[str, str], list[Label]] = defaultdict(list)
    for (_, question, passage), label in last_blind_labels(label_events).items():
        by_pair[question, passage].append(label)
    counts: Counter[tuple[Label, Label]] = Counter()
    for given in by_pair.values():
        for first, second in combinations(sorted(given, key=LABELS.index), 2):
            counts[first, second] += first != second
    return tuple((first, second, count) for (first, second), count in counts.most_common() if count)


def last_blind_labels(label_events: Sequence[EventRow]) -> dict[tuple[str, str, str], Label]:
    """Return the last blind label of each (annotator, question, passage)."""
    return {
        (event.annotator, event.question, event.passage): event.label
        for event in label_events
        if event.blind and event.passage is not None and event.label is not None
    }


def _agreements(
    study: Study, label_events: Sequence[EventRow]
) -> tuple[PairAgreement | None, tuple[PairAgreement, ...]]:
    last = last_blind_labels(label_events)
    by_pair: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for (annotator, question, passage), label in last.items():
        by_pair[question, passage][annotator] = _CODE[label]
    people = sorted({annotator for annotator, _, _ in last})
    if not people:
        return None, ()
    asked = [question for question, _ in by_pair]
    questions, units = np.array(asked, dtype=str), units_by_id(study, asked)
    codes = np.array([[votes.get(name, -1) for name in people] for votes in by_pair.values()])
    binary = np.select([codes == _CODE["positive"], (codes == -1) | (codes == _CODE["unsure"])], [1, -1], 0)
    together = PairAgreement(tuple(people), _alpha(codes, questions, units), _alpha(binary, questions, units))
    pairs = []
    for a, b in combinations(range(len(people)), 2):
        both = (codes[:, a] >= 0) & (codes[:, b] >= 0)
        if both.any():
            kappas = (_kappa(matrix[:, a], matrix[:, b], questions, units) for matrix in (codes, binary))
            pairs.append(PairAgreement((people[a], people[b]), *kappas))
    return together, tuple(pairs)


def _alpha(codes: np.ndarray, questions: np.ndarray, units: np.ndarray) -> Agreement:
    counts = np.stack([(codes == code).sum(axis=1) for code in range(len(LABELS))], axis=1)
    return alpha(counts, questions, units, _RESAMPLES)


def _kappa(labels_a: np.ndarray, labels_b: np.ndarray, questions: np.ndarray, units: np.ndarray) -> Agreement:
    both = (labels_a >= 0) & (labels_b >= 0)
    return kappa(labels_a[both], labels_b[both], questions[both], units[both], _RESAMPLES)


def _annotator_stats(
    label_events: Sequence[EventRow], repeated_labels: Sequence[tuple[str, str, bool]]
) -> tuple[AnnotatorStats, ...]:
    by_person: dict[str, list[EventRow]] = defaultdict(list)
    for event in label_events:
        by_person[event.annotator].append(event)
    repeated = Counter(annotator for _, annotator, _ in repeated_labels)
    same = Counter(annotator for _, annotator, is_same in repeated_labels if is_same)
    return tuple(
        annotator_stats(name, events, repeated[name], same[name]) for name, events in sorted(by_person.items())
    )


def annotator_stats(name: str, events: Sequence[EventRow], repeat_count: int, same_labels: int) -> AnnotatorStats:
    """Return the statistics of one annotator's labels that were not undone."""
    sizes = Counter(event.gesture for event in events)
    times = {event.gesture: event.milliseconds for event in events if event.milliseconds is not None}
    per_label = [times[event.gesture] / sizes[event.gesture] for event in events if event.gesture in times]
    spent = sum(min(time, MAX_GESTURE_MS) for time in times.values())
    labels = {(event.question, event.passage): event.label for event in events}
    counts = Counter(labels.values())
    return AnnotatorStats(
        name,
        len(labels),
        len({question for question, _ in labels}),
        counts["positive"],
        counts["unsure"],
        len(per_label),
        median(per_label) / 1000 if per_label else None,
        len(per_label) * 3_600_000 / spent if spent else None,
        repeat_count,
        same_labels,
    )
