"""Runs out of files: the hits gathered question by question, made into the arrays of a run, the file's own answer flags beside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from backend.text.counting import counted
from db.errors import Refused
from db.records import Hits

if TYPE_CHECKING:
    from backend.core.runs import Run

MAX_CELLS = 2_000_000_000
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class FlagComparison:
    """How a file's `has_answer` agrees with the rule here: of `compared` flags, `only_file` are true in the file alone."""

    compared: int = 0
    only_file: int = 0
    only_here: int = 0

    @property
    def differing(self) -> int:
        return self.only_file + self.only_here

    def summary(self, file: str, rule: str) -> str:
        if not self.compared:
            return f"{file} says of no passage whether it holds an answer."
        if not self.differing:
            return f"has_answer: all {counted(self.compared, 'flag')} of {file} agree with the rule {rule!r}."
        return (f"has_answer: {self.differing:,} of {counted(self.compared, 'flag')} of {file} disagree with the rule {rule!r} "
                f"({self.only_file:,} true in the file alone, {self.only_here:,} here alone); the rule counts.")  # fmt: skip


class RunRows:
    """Hits by question. What a question's entries say may come in several parts."""

    def __init__(self) -> None:
        self._parts: dict[str, list[np.ndarray]] = {}

    def __len__(self) -> int:
        return len(self._parts)

    def __contains__(self, question_id: str) -> bool:
        return question_id in self._parts

    def known(self, question_id: str) -> set[int]:
        """The ordinals this question has already."""
        return {int(ordinal) for part in self._parts.get(question_id, ()) for ordinal in part["ordinal"]}

    def add(self, question_id: str, hits: Sequence[tuple[int, float, bool | None]]) -> None:
        """Hits as (ordinal, score, has_answer), each ordinal once a question; none for a question that found nothing."""
        rows = [(ordinal, score, UNKNOWN if holds is None else holds) for ordinal, score, holds in hits]
        part = np.array(rows, dtype=[("ordinal", np.int32), ("score", np.float32), ("holds", np.int8)])
        self._parts.setdefault(question_id, []).append(part)

    def finish(self, silent: Iterable[str] = ()) -> tuple[list[str], Hits, np.ndarray]:
        """Question ids, their hits by falling score (equal ones as they came), and the flags (q, k) int8 (-1 where unknown).

        Args:
            silent: ids of questions that are to have a row though nothing was found for them.
        """
        for question_id in silent:
            self._parts.setdefault(question_id, [])
        ids = list(self._parts)
        k = max((sum(map(len, parts)) for parts in self._parts.values()), default=0)
        if len(ids) * k > MAX_CELLS:
            raise Refused(
                f"{counted(len(ids), 'question')} with up to {counted(k, 'hit')} each are too many for a run; cut the file's depth"
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
    """The file's flags beside the run's answer matrix."""
    here, known = np.asarray(run.answers(rule)), flags != UNKNOWN
    there = flags == 1
    return FlagComparison(int(known.sum()), int((known & there & ~here).sum()), int((known & ~there & here).sum()))
