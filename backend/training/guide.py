"""A judge that says which passages of a batch are no negatives of a question (GISTEmbed, Solatorio 2024).

In-batch negatives are the passages of other questions, and some of them answer this one. The guide is a judge's stored
scores:
a passage that it finds probable is masked, as a known positive is. A pair without a score is not masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from blindspot.backend.judges.scores import ScoreStore
from blindspot.db.errors import Refused

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study


class Guide:
    """The passages that a judge finds probable, by question."""

    def __init__(self, study: Study, judge: str, above: float):
        """Raises Missing for a judge without scores, Refused for one whose probabilities are not calibrated."""
        self._store, self._above = ScoreStore.open(study, judge), above
        if not self._store.manifest["calibrated"]:
            raise Refused(
                f"the probabilities of {judge!r} are not calibrated, so {above:g} of them means nothing; take "
                "another guide"
            )
        self.digest = self._store.digest

    def __call__(self, questions: Sequence[str]) -> list[list[str]]:
        """The ids of the passages of each question whose stored probability is at or above the limit."""
        known = self._store.of(questions)
        return [
            sorted(passage for passage, probability in known.get(question, {}).items() if probability >= self._above)
            for question in questions
        ]
