"""Pool the top-ranked unlabelled passages of several runs, without duplicates within a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from blindspot.backend.core.runs import Run
from blindspot.backend.core.study import Study
from blindspot.backend.judging.priority import PooledPassage
from blindspot.backend.text.answers import mentions_subject
from blindspot.db.errors import BadInput, Missing
from blindspot.db.records import Question


class Pools:
    """The candidate pools of questions, built from several runs.

    Args:
        depth: Number of top ranks to take from each run.
        rule: Matching rule of the runs' answer matrices. If a run has no matrix for it, answer matches are unknown
        (None).

    Raises:
        BadInput: no run, or a depth below 1. Missing: an unknown run.
    """

    def __init__(self, study: Study, runs: Sequence[str], depth: int, rule: str):
        if not runs:
            raise BadInput("a batch needs at least one run; make one with 'blindspot retrieve'")
        if depth < 1:
            raise BadInput("the depth must be 1 or more")
        self._corpus, self._depth = study.corpus, depth
        self._runs = [(run, _answer_matrix(run, rule)) for run in map(study.run, dict.fromkeys(runs))]

    def question_ids(self) -> set[str]:
        """Return the ids of the questions that at least one of the runs searched."""
        return {id for run, _ in self._runs for id in run.question_ids}

    def pools_of(self, questions: Sequence[Question], subjects: bool = True) -> dict[str, list[PooledPassage]]:
        """Return each question's pool without its gold passages, sorted by best rank and then by row.

        subjects: whether to determine which passages mention the question's subject.
        """
        gold = self._corpus.ordinals({id for question in questions for id in question.gold})
        pools = {
            question.id: self._question_pool(question, {gold[id] for id in question.gold if id in gold})
            for question in questions
        }
        return self._with_subjects(questions, pools) if subjects else pools

    def _with_subjects(
        self, questions: Sequence[Question], pools: dict[str, list[PooledPassage]]
    ) -> dict[str, list[PooledPassage]]:
        """Determine which of the passages that contain an answer mention the question's subject."""
        subjects = {question.id: question for question in questions if question.subject}
        rows = sorted({pooled.ordinal for id in subjects for pooled in pools[id] if pooled.answer})
        passages = dict(zip(rows, self._corpus.passages(rows), strict=True))
        return pools | {
            id: [
                replace(pooled, subject=mentions_subject(passages[pooled.ordinal], question))
                if pooled.answer
                else pooled
                for pooled in pools[id]
            ]
            for id, question in subjects.items()
        }

    def _question_pool(self, question: Question, gold: set[int]) -> list[PooledPassage]:
        best: dict[int, PooledPassage] = {}
        for run, answers in self._runs:
            row = run.row(question.id)
            if row is None:
                continue
            ordinals = np.asarray(run.hits.ordinals[row])
            first_gold = next(
                (rank for rank, ordinal in enumerate(ordinals.tolist(), 1) if ordinal in gold), len(ordinals) + 1
            )
            scores = run.hits.scores[row, : self._depth].tolist()
            holds = (
                answers[row, : self._depth].tolist()
                if answers is not None and question.answers
                else [None] * self._depth
            )
            for rank, ordinal in enumerate(ordinals[: self._depth].tolist(), 1):
                if ordinal < 0 or ordinal in gold or (ordinal in best and best[ordinal].rank <= rank):
                    continue
                above = bool(gold) and rank < first_gold
                best[ordinal] = PooledPassage(ordinal, run.name, rank, float(scores[rank - 1]), holds[rank - 1], above)
        return sorted(best.values(), key=lambda pooled: (pooled.rank, pooled.ordinal))


def _answer_matrix(run: Run, rule: str) -> np.ndarray | None:
    try:
        return run.answers(rule)
    except Missing:
        return None
