"""Collect the hits of a run file by question, and convert them and the file's answer flags to arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.backend.core.runs import Run
from blindspot.backend.text.number_words import quantity
from blindspot.db.errors import Refused
from blindspot.db.records import Hits

MAX_CELLS = 2_000_000_000
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class FlagComparison:
    """Comparison of a file's `has_answer` flags with the matching rule.

    Attributes:
        compared: Number of flags compared.
        only_file: Flags that are true only in the file.
        only_here: Flags that are true only by the rule.
    """

    compared: int = 0
    only_file: int = 0
    only_here: int = 0

    @property
    def differing_rows(self) -> int:
        return self.only_file + self.only_here

    def summary(self, file: str, rule: str) -> str:
        if not self.compared:
            return f"{file} has no answer flags."
        if not self.differing_rows:
            return f"has_answer: all {quantity(self.compared, 'flag')} of {file} agree with the rule {rule!r}."
        return (
            f"has_answer: {self.differing_rows:,} of {quantity(self.compared, 'flag')} of {file} disagree with the rule "
            f"{rule!r} ({self.only_file:,} true in the file alone, {self.only_here:,} here alone); the rule counts."
        )


class RunRows:
    """Hits by question. The hits of a question may be added in several steps."""

    def __init__(self) -> None:
        self._parts: dict[str, list[np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def __contains__(self, question_id: str) -> bool:
        return question_id in self._parts

    def rows_of(self, question_id: str) -> set[int]:
        """Return the passage rows of the hits that this question already has."""
        return {int(ordinal) for part in self._parts.get(question_id, ()) for ordinal in part["ordinal"]}

    def add(self, question_id: str, hits: Sequence[tuple[int, float, bool | None]]) -> None:
        """Add hits of a question as (row, score, has_answer), each row once; an empty list for a question without
        hits.
        """
        rows = [(ordinal, score, UNKNOWN if holds is None else holds) for ordinal, score, holds in hits]
        part = np.array(rows, dtype=[("ordinal", np.int32), ("score", np.float32), ("holds", np.int8)])
        self._parts.setdefault(question_id, []).append(part)

    def finish(self, without_hits: Iterable[str] = ()) -> tuple[list[str], Hits, np.ndarray]:
        """Return question ids, hits by descending score (ties in order of addition), and flags as (q, k) int8 (-1:
        unknown).

        Args:
            without_hits: Ids of questions that get a row without hits.
        """
        for question_id in without_hits:
            self._parts.setdefault(question_id, [])
        ids = list(self._parts)
        k = max((sum(map(len, parts)) for parts in self._parts.values()), default=0)
        if len(ids) * k > MAX_CELLS:
            raise Refused(
                f"{quantity(len(ids), 'question')} with up to {quantity(k, 'hit')} each are too many for a run; reduce "
                "the depth of the file"
            )
        ordinals = np.full((len(ids), max(k, 1)), -1, dtype=np.int32)
        scores = np.full(ordinals.shape, -np.inf, dtype=np.float32)
        flags = np.full(ordinals.shape, UNKNOWN, dtype=np.int8)
        for row, question_id in enumerate(ids):
            if parts := self._parts[question_id]:
                hits = np.concatenate(parts)
                hits = hits[np.argsort(-hits["score"], kind="stable")]
                for matrix, name in ((ordinals, "ordinal"), (scores, "score"), (flags, "holds")):
                    matrix[row, : len(hits)] = hits[name]
        return ids, Hits(ordinals, scores), flags


def compare_flags(run: Run, flags: np.ndarray, rule: str) -> FlagComparison:
    """Compare the file's flags with the run's answer matrix."""
    here, known = np.asarray(run.answers(rule)), flags != UNKNOWN
    there = flags == 1
    return FlagComparison(int(known.sum()), int((known & there & ~here).sum()), int((known & ~there & here).sum()))
