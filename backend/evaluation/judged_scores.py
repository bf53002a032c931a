"""Read the probabilities that calibrated judges gave to the hits of questions, from the scores stored in the study."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from blindspot.backend.core.study import Study
from blindspot.db.connection import PerThread


def likely_positive(study: Study, questions: Sequence[str], at_least: float) -> dict[str, set[str]]:
    """Return the passages to which a calibrated judge gives a probability of at least `at_least` of being relevant, by
    question.

    Every question that a calibrated judge scored has an entry, which is empty if no passage is that probable. Scores of
    passages that are not in the study are ignored.
    """
    asked = json.dumps(list(questions))
    likely: dict[str, set[str]] = {}
    for store in _open_calibrated_scores(study):
        of_asked = "FROM score WHERE question IN (SELECT value FROM json_each(?))"
        for (question,) in store.connection.execute(f"SELECT DISTINCT question {of_asked}", (asked,)):
            likely.setdefault(question, set())
        pairs = f"SELECT question, passage {of_asked} AND probability >= ?"
        for question, passage in store.connection.execute(pairs, (asked, at_least)):
            likely[question].add(passage)
    return likely


def highest_probabilities(study: Study, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], float]:
    """Return for each (question, passage) the highest probability that a calibrated judge gives. Unscored pairs are
    left out.
    """
    asked = json.dumps([list(pair) for pair in pairs])
    highest: dict[tuple[str, str], float] = {}
    sql = (
        "SELECT s.question, s.passage, s.probability FROM json_each(?) asked JOIN score s "
        "ON s.question = json_extract(asked.value, '$[0]') AND s.passage = json_extract(asked.value, '$[1]')"
    )
    for store in _open_calibrated_scores(study):
        for question, passage, probability in store.connection.execute(sql, (asked,)):
            pair = question, passage
            highest[pair] = max(probability, highest.get(pair, 0.0))
    return highest


def _open_calibrated_scores(study: Study) -> Iterator[PerThread]:
    """Yield the opened scores of each calibrated judge, and close them afterwards."""
    for name, manifest in study.parts("scores").items():
        if manifest.get("calibrated") and manifest.get("corpus") == study.corpus.digest:
            store = PerThread(study.path("scores", name) / "scores.db")
            yield store
            store.close()
