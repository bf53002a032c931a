"""Summarise a person's judging for that person: how much they judged, how fast, how consistently, and what their labels
changed.

The figures concern only labels, because an annotator must not see retrieval results or other people's labels. Agreement
with others is therefore shown only for a number of passages that is large enough to hide each single label.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from blindspot.analysis.audit import Rate
from blindspot.backend.judging.quality import (
    AnnotatorStats,
    annotator_stats,
    labels_in_force,
    last_blind_labels,
    repeated_judgements,
    share_of_equal_labels,
)
from blindspot.backend.judging.team_progress import are_too_fast, count_fast_labels, word_counts
from blindspot.backend.text.number_words import duration, noun_form, quantity
from blindspot.db.events import LABELS, EventRow
from blindspot.db.labels import Labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from blindspot.backend.core.study import Study

MIN_COMPARED = 10
"""Minimum number of passages for which agreement with others is shown; with fewer passages it would reveal the others'
labels.
"""


def own_work(study: Study, annotator: str) -> list[tuple[str, str]]:
    """Return a person's own figures as (name, words), without practice labels; [] before their first label."""
    labels = Labels(study.labels_path)
    standing = labels_in_force(labels.events(by_people=True))
    own = [event for event in standing if event.annotator == annotator]
    if not own:
        return []
    again = [(question, same) for question, name, same in repeated_judgements(standing) if name == annotator]
    work = annotator_stats(annotator, own, len(again), sum(same for _, same in again))
    timed, fast = count_fast_labels(own, word_counts(study, {event.passage for event in own if event.passage}))
    too_fast = (
        f". {fast:,} labels came faster than one can read: look at these again" if are_too_fast(timed, fast) else ""
    )
    rows = [("In all", _count_sentence(own, work)), ("Pace", f"{_pace_sentence(work)}{too_fast}")]
    rows.append(("Agreement with others", _agreement_with_others(study, _comparisons_with_others(standing, annotator))))
    if again:
        rows.append(
            (
                "Agreement with yourself",
                _agreement_sentence(share_of_equal_labels(study, again), "second labels", "the first"),
            )
        )
    return [*rows, ("What your labels change", _change_sentence(labels, own))]


def _count_sentence(own_events: Sequence[EventRow], work: AnnotatorStats) -> str:
    label_counts: Counter[str | None] = Counter(
        {(event.question, event.passage): event.label for event in own_events}.values()
    )
    kinds = ", ".join(f"{label_counts[label]:,} {label}" for label in LABELS if label_counts[label])
    return f"{quantity(work.questions, 'different question')}, {quantity(work.labels, 'passage')}: {kinds}"


def _pace_sentence(work: AnnotatorStats) -> str:
    if work.seconds is None or not work.per_hour:
        return "not timed"
    hours = work.timed / work.per_hour
    untimed = "" if work.timed == work.labels else f"; {work.timed:,} of {quantity(work.labels, 'label')} have a time"
    return f"{work.seconds:.1f} s a passage (median), {duration(hours * 3600)} in all{untimed}"


def _comparisons_with_others(label_events: Sequence[EventRow], annotator: str) -> list[tuple[str, bool]]:
    """Return (question id, whether the labels are the same) for each label that another person gave to a passage of the
    annotator. Only labels given blind are compared.
    """
    blind = last_blind_labels(label_events)
    return [
        (question, label == blind[annotator, question, passage])
        for (name, question, passage), label in blind.items()
        if name != annotator and (annotator, question, passage) in blind
    ]


def _agreement_with_others(study: Study, comparisons: Sequence[tuple[str, bool]]) -> str:
    if len(comparisons) < MIN_COMPARED:
        return f"fewer than {MIN_COMPARED} labels of others on your passages"
    return _agreement_sentence(share_of_equal_labels(study, comparisons), "labels of others on your passages", "yours")


def _agreement_sentence(rate: Rate, noun: str, other_noun: str) -> str:
    share = rate.value or 0.0
    same = round(share * rate.passages)
    interval = "" if rate.low is None or rate.high is None else f", 95% interval {rate.low:.0%} to {rate.high:.0%}"
    return f"{same:,} of {rate.passages:,} {noun} {noun_form(same, 'equals', 'equal')} {other_noun} ({share:.0%}{interval})"


def _change_sentence(labels: Labels, own_events: Sequence[EventRow]) -> str:
    """Return a sentence on the labels that the person gave to non-gold pairs, and on how many of these pairs training
    uses.
    """
    label_of = {(event.question, event.passage): event.label for event in own_events}
    pairs = [
        (label_of[pair.question, pair.passage], pair.split == "train")
        for pair in labels.corrected_relevance({question for question, _ in label_of})
        if not pair.gold and (pair.question, pair.passage) in label_of
    ]
    found = [trains for label, trains in pairs if label == "positive"]
    kept = sum(label == "negative" for label, _ in pairs)
    confirmed = f"{quantity(kept, 'passage')} {noun_form(kept, 'is', 'are')} confirmed as {noun_form(kept, 'a negative', 'negatives')}"
    if not found:
        return f"no passage answers that was not known to; {confirmed}"
    training = f", {sum(found):,} of them for training questions" if any(found) else ""
    return (
        f"{quantity(len(found), 'passage')} {noun_form(len(found), 'answers', 'answer')} "
        f"{noun_form(len(found), 'its question and was', 'their questions and were')} not known to{training}; {confirmed}"
    )
