"""Which hits of a run are relevant: the one definition that the report and every page share.

By "answers" a hit is relevant if the passage holds an answer by a named matching rule; by "gold" if the question's gold
names it. Where no question of a run has answers, relevance is gold, and `Relevance.kind` says so.
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
    """The relevant hits of a run, for the questions that can be measured.

    rows: (q',) int64 rows of the run that count, rising.
    relevant: (q', k) bool.
    n_relevant: (q',) int64 relevant passages in the whole collection, by gold; None by answers, where nobody knows.
    questions: the q' questions.
    kind: what was used, which is "gold" though "answers" was asked for where no question has answers.
    asked: what was asked for.
    left_out: questions of the run that do not count, by reason.
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
    """Which hits of `run` are relevant.

    Args:
        relevance: "answers" or "gold".
        rule: matching rule for answers. Where the run has no matrix for it, it is computed here and not kept.
        questions: the run's questions in its order, where the caller holds them already.

    Raises: BadInput for a relevance, Missing for a rule that does not exist.
    """
    if relevance not in KINDS:
        raise BadInput(f"relevance is 'answers' or 'gold', not {relevance!r}")
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
    kept = [questions[i] for i in rows]
    return Relevance(rows, np.asarray(matrix)[rows], None, kept, "answers", "answers", rule, left_out)


def _by_gold(study, run, asked: Kind, questions: list[Question]) -> Relevance:
    matrix, counts = gold_matrix(study.corpus, run.hits.ordinals, questions)
    rows = np.flatnonzero(counts)
    bare = sum(not question.gold for question in questions)
    strangers = len(questions) - len(rows) - bare
    reasons = {"no gold passages": bare, "gold passages that are not in the collection": strangers}
    left_out = {reason: count for reason, count in reasons.items() if count}
    kept = [questions[i] for i in rows]
    return Relevance(rows, matrix[rows], counts[rows], kept, "gold", asked, None, left_out)
