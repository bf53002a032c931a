"""A training file to check, with negatives that are known to be false, and people who judge them rightly."""

from __future__ import annotations

from uuid import uuid4

from blindspot.backend.checking.check import open_check
from blindspot.backend.checking.pairs import negative_pairs
from blindspot.backend.checking.sample import read_sample, unjudged_pairs
from blindspot.db.events import Choice, LabelEvent
from blindspot.db.labels import Labels
from blindspot.db.queue import Queue

QUESTIONS = 120
FALSE = "is the answer"
"""Words of the negatives that are false."""


def rows():
    """Return n-tuples with four negatives and scores: one of five is false, and its score is high."""
    made = []
    for number in range(QUESTIONS):
        negatives, scores = [], [0.9]
        for place in range(4):
            false = (number * 4 + place) % 5 == 0
            negatives.append(f"place {place} of thing {number} {FALSE if false else 'is about something else'}")
            scores.append((0.7 if false else 0.4) + 0.0001 * number + 0.00001 * place)
        row = {"query": f"where is thing {number}", "answer": f"thing {number} stands in town {number}"}
        made.append(row | {f"negative_{n}": text for n, text in enumerate(negatives, 1)} | {"scores": scores})
    return made


def judge(study, count, skip=0):
    """Label the next drawn pairs rightly, as Ann, without the first `skip` of them."""
    found = open_check(study)
    store = Labels(study.labels_path, passages=study.corpus.ordinals)
    left = unjudged_pairs(
        read_sample(found.checked_study), negative_pairs(found.checked_study.occurrences), found.labels
    )
    queue = Queue(study.labels_path)
    batches = {
        (item.question, candidate.passage): batch.name
        for batch in queue.batches()
        for item in queue.items(batch.name)
        for candidate in item.candidates
    }
    for question, passage in left[skip : skip + count]:
        text = study.corpus.passage(int(passage[1:]) - 1).text
        label = "positive" if FALSE in text else "negative"
        batch = batches[question, passage]
        store.add("Ann", LabelEvent(uuid4().hex, "label", question, (Choice(passage, label),), batch=batch))
