"""What calibrated judges say of the hits of questions, read from the scores that the study stores by judge."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from blindspot.db.connection import PerThread

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study


def likely_positive(study: Study, questions: Sequence[str], at_least: float) -> dict[str, set[str]]:
    """Return the passages to which a calibrated judge gives a probability of at least `at_least`, by question.

    A question that a calibrated judge scored has an entry, an empty one if no passage is that likely. Scores of other
    passages than the study holds count for nothing.
    """
    asked = json.dumps(list(questions))
    likely: dict[str, set[str]] = {}
    for name, manifest in study.parts("scores").items():
        if not manifest.get("calibrated") or manifest.get("corpus") != study.corpus.digest:
            continue
        store = PerThread(study.path("scores", name) / "scores.db")
        of_asked = "FROM score WHERE question IN (SELECT value FROM json_each(?))"
        for (question,) in store.connection.execute(f"SELECT DISTINCT question {of_asked}", (asked,)):
            likely.setdefault(question, set())
        pairs = f"SELECT question, passage {of_asked} AND probability >= ?"
        for question, passage in store.connection.execute(pairs, (asked, at_least)):
            likely[question].add(passage)
        store.close()
    return likely
