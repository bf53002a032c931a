"""List a person's own finished questions for the Judge page, where the person can go back and change an answer."""

from __future__ import annotations

from collections import Counter
from typing import Any

from blindspot.backend.core.study import Study
from blindspot.backend.judging.cards import card_key
from blindspot.db.events import LABELS
from blindspot.db.labels import Labels
from blindspot.db.queue import Queue

LATEST = 200  # answers listed


def own_answers(study: Study, queue: Queue, labels: Labels, annotator: str) -> list[dict[str, Any]]:
    """Return the questions that a person answered in open batches, latest first: `key`, `text`, `labels` in words, and
    `bad`.
    """
    answered = queue.finished_questions(annotator, LATEST)
    texts = {
        question.id: question.text for question in study.questions.with_ids([question for _, question in answered])
    }
    label_counts: dict[tuple[str, str], Counter[str]] = {}
    for batch in dict.fromkeys(batch for batch, _ in answered):
        questions = [question for other, question in answered if other == batch]
        for question, by_passage in labels.labels_by(annotator, questions, batch).items():
            label_counts[batch, question] = Counter(by_passage.values())
    bad = labels.bad_marks(annotator)
    return [
        {
            "key": card_key(batch, question),
            "text": texts[question],
            "labels": _count_words(label_counts.get((batch, question), Counter())),
            "bad": bad.get((batch, question)),
        }
        for batch, question in answered
        if question in texts
    ]


def _count_words(counts: Counter[str]) -> str:
    return ", ".join(f"{counts[label]} {label}" for label in LABELS if counts[label])
