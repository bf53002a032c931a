"""The lists of hits that judges take as input, and the common loop that judges a run's lists and stores the scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from blindspot.backend.core.runs import Run
from blindspot.backend.core.study import Study
from blindspot.backend.judges.scores import ScoreStore
from blindspot.backend.progress import Progress
from blindspot.db.errors import Refused
from blindspot.db.records import Passage, Question

QUESTIONS_PER_STEP = 500


@dataclass(frozen=True)
class Lists:
    """The top-ranked hits of some questions. rows: (q, k) int32, padded with -1. scores: (q, k) float32."""

    questions: list[Question]
    rows: np.ndarray
    scores: np.ndarray


def lists_of(run: Run, questions: Sequence[Question], depth: int) -> Lists:
    """Return the top `depth` hits of some questions of a run, in the order of the questions."""
    places = np.array([run.row(question.id) for question in questions], dtype=np.int64)
    depth = min(depth, run.hits.k)
    return Lists(
        list(questions), np.asarray(run.hits.ordinals[places, :depth]), np.asarray(run.hits.scores[places, :depth])
    )


def judge_lists(
    study: Study,
    store: ScoreStore,
    run: Run,
    depth: int,
    judge: Callable[[Lists], np.ndarray],
    step: int = QUESTIONS_PER_STEP,
    questions: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Judge the pairs in a run's top ranks that have no probability yet, and store the probabilities.

    A killed job resumes with the questions that are not stored yet.

    Args:
        judge: gives (q, k) probabilities of lists; NaN where padded or unknown. Pairs with a probability are padded.
        step: questions that are judged, and stored, together. questions: ids of those that are judged; default all.
    """
    ids = run.question_ids if questions is None else questions
    judged = pairs = 0
    for begin in range(0, len(ids), step):
        if progress is not None:
            progress(begin, len(ids), f"judging passages with {store.model}")
        lists = lists_of(run, study.questions.with_ids(ids[begin : begin + step]), depth)
        known = store.scores_of(question.id for question in lists.questions)
        rows = study.corpus.ordinals({passage for passages in known.values() for passage in passages})
        for i, question in enumerate(lists.questions):
            lists.rows[i, np.isin(lists.rows[i], [rows.get(each, -1) for each in known.get(question.id, ())])] = -1
        if (absent := (lists.rows >= 0).any(axis=1)).any():
            pairs += store.add(scored_rows(study, lists, judge(lists)))
            judged += int(absent.sum())
    return {"judge": store.model, "run": run.name, "questions": judged, "pairs": pairs}


def scored_rows(study: Study, lists: Lists, probabilities: np.ndarray) -> list[tuple[str, str, float]]:
    """Return (question id, passage id, probability) of every hit with a probability."""
    known = ~np.isnan(probabilities)
    distinct = np.unique(lists.rows[known]).tolist()
    ids = {row: passage.id for row, passage in zip(distinct, study.corpus.passages(distinct), strict=True)}
    return [
        (lists.questions[i].id, ids[int(lists.rows[i, j])], float(probabilities[i, j])) for i, j in np.argwhere(known)
    ]


def score_hits(
    study: Study, lists: Lists, score: Callable[[list[tuple[Question, Passage]]], Sequence[float] | np.ndarray]
) -> np.ndarray:
    """Return the scores, (q, k) float64, of all hits of some lists; NaN where padded.

    Args:
        score: Returns the score of each pair.
    """
    scores, is_hit = np.full(lists.rows.shape, np.nan), lists.rows >= 0
    questions = [lists.questions[i] for i in np.nonzero(is_hit)[0].tolist()]
    scores[is_hit] = score(list(zip(questions, study.corpus.passages(lists.rows[is_hit].tolist()), strict=True)))
    return scores


def refuse_other_retriever(judge: str, learned_from: str, run: Run) -> None:
    """Raise Refused if a run was not made by the retriever on whose lists a judge was trained."""
    if run.manifest["retriever"] != learned_from:
        raise Refused(
            f"judge {judge!r} learned from lists of {learned_from!r}, and run {run.name!r} was made by "
            f"{run.manifest['retriever']!r}: their scores do not compare; learn a judge from a run of that retriever"
        )
