"""Which hits of a run are relevant. The report and every page share this definition.

By "answers", a hit is relevant if the passage contains an answer according to a named matching rule; by "gold", if the
passage is gold for the question. If no question of a run has answers, relevance is gold, and `Relevance.kind` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from backend.core.gold import gold_matrix
from backend.text.answers import DEFAULT_RULE, match_run, rule_named
from db.errors import BadInput, Missing
from db.records import Question

if TYPE_CHECKING:
    from backend.core.runs import Run
    from backend.core.study import Study

Kind = Literal["answers", "gold"]
KINDS: tuple[str, ...] = ("answers", "gold")


@dataclass(frozen=True, slots=True)
class Relevance:
    """The relevant hits of a run, for its measured questions.

    rows: (q',) int64, the measured rows of the run, ascending. relevant: (q', k) bool. n_relevant: (q',) int64, the
    number of relevant passages in the whole collection, by gold; None by answers, where it is unknown. questions: the
    q' questions. kind: the relevance used: "gold" even if "answers" was requested, if no question has answers. asked:
    the requested relevance. left_out: the number of questions that are not measured, by reason.
    """

    rows: np.ndarray
    relevant: np.ndarray
    n_relevant: np.ndarray | None
    questions: list[Question]
    kind: Kind
    asked: Kind
    rule: str | None
    left_out: dict[str, int]


def relevant(
    study: Study,
    run: Run,
    relevance: Kind = "answers",
    rule: str = DEFAULT_RULE,
    questions: Sequence[Question] | None = None,
) -> Relevance:
    """Return which hits of `run` are relevant.

    Args:
        relevance: "answers" or "gold".
        rule: matching rule for answers. If the run has no stored matrix for the rule, the matrix is computed and not
            stored.
        questions: the run's questions in its order, if the caller has them.

    Raises: BadInput for an unknown relevance, Missing for an unknown rule.
    """
    if relevance not in KINDS:
        raise BadInput(f"relevance must be 'answers' or 'gold', not {relevance!r}")
    rule_named(rule)
    questions = list(study.questions.some(run.question_ids)) if questions is None else list(questions)
    if relevance == "answers" and any(question.answers for question in questions):
        return _by_answers(study, run, rule, questions)
    return _by_gold(study, run, relevance, questions)


def _by_answers(study, run, rule: str, questions: list[Question]) -> Relevance:
    rows = np.array([i for i, question in enumerate(questions) if question.answers], dtype=np.int64)
    try:
        matrix = run.answers(rule)
    except Missing:
        matrix = match_run(study.corpus, questions, run.hits.ordinals, rule)
    left_out = {"no answers": len(questions) - len(rows)} if len(rows) < len(questions) else {}
    run_questions = [questions[i] for i in rows]
    return Relevance(rows, np.asarray(matrix)[rows], None, run_questions, "answers", "answers", rule, left_out)


def _by_gold(study, run, asked: Kind, questions: list[Question]) -> Relevance:
    matrix, counts = gold_matrix(study.corpus, run.hits.ordinals, questions)
    rows = np.flatnonzero(counts)
    bare = sum(not question.gold for question in questions)
    strangers = len(questions) - len(rows) - bare
    reasons = {"no gold passages": bare, "gold passages that are not in the collection": strangers}
    left_out = {reason: count for reason, count in reasons.items() if count}
    run_questions = [questions[i] for i in rows]
    return Relevance(rows, matrix[rows], counts[rows], run_questions, "gold", asked, None, left_out)
