"""Measure where people, a cross-encoder and answer matching agree about the passages of a run.

RocketQA (Qu et al. 2021) trusts a cross-encoder for unjudged passages; DPR trusts an answer match. People's labels show
how reliable each of them is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.disagreements import NO, SILENT, YES
from blindspot.backend.core.runs import Run, answer_matrix
from blindspot.backend.core.study import Study
from blindspot.backend.judges.scores import ScoreStore
from blindspot.db.labels import Labels

PEOPLE, CROSS_ENCODER, ANSWERS = "people", "cross-encoder", "answer match"
DEPTH = 100
BLOCK = 200  # questions looked up together
VOTE_OF_LABEL = {"positive": YES, "related": NO, "negative": NO}
"""The vote for which a settled label counts. Unsure and disputed pairs have no vote."""


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """The pairs of a run, among the top DEPTH passages of each question, for which every judge gave a vote.

    Attributes:
        judges: the available judges among PEOPLE, CROSS_ENCODER and ANSWERS.
        missing: for each other judge, why it is missing and how to add it.
        questions: ids of the run's questions.
        rows, ranks, ordinals: (n,) int32, the question's row, the passage's rank, and the passage's row.
        people, answers: (n,) int8 of YES, NO, SILENT.
        probabilities: (n,) float64, NaN if unknown.
        labels: people's labels.
        found: (DEPTH,) int64, the number of passages that the run has at each rank, over all questions.
    """

    judges: tuple[str, ...]
    missing: dict[str, str]
    questions: list[str]
    rows: np.ndarray
    ranks: np.ndarray
    ordinals: np.ndarray
    people: np.ndarray
    probabilities: np.ndarray
    answers: np.ndarray
    labels: list[str | None]
    found: np.ndarray

    def votes(self, threshold: float) -> np.ndarray:
        """Return the votes, (judges, n) int8. The cross-encoder votes yes if its probability is at least
        `threshold`.
        """
        votes_by_judge = {
            PEOPLE: self.people,
            ANSWERS: self.answers,
            CROSS_ENCODER: np.where(np.isnan(self.probabilities), SILENT, self.probabilities >= threshold).astype(
                np.int8
            ),
        }
        return np.array([votes_by_judge[judge] for judge in self.judges], np.int8).reshape(
            len(self.judges), len(self.ranks)
        )


def judge_agreement(study: Study, run: str, model: str | None) -> JudgeAgreement:
    """Compare the judges of a run.

    Args:
        model: the cross-encoder whose stored scores count; None for no cross-encoder.

    Raises:
        Missing: the run does not exist, or that model has no scores.
    """
    opened = study.run(run)
    known, missing = _PeopleLabels(study, opened), {}
    if not known.labels:
        missing[PEOPLE] = f"Nobody has judged a question of {run} yet; labels come from the Judge page"
    store = ScoreStore.open(study, model) if model is not None else None
    scored = store.questions() if store is not None else set()
    if store is None:
        missing[CROSS_ENCODER] = "No model has scored passages here"
    elif scored.isdisjoint(opened.question_ids):
        missing[CROSS_ENCODER] = f"{model} has scored no question of {run}"
    if not known.asked_with_answers:
        missing[ANSWERS] = f"No question of {run} has answers to match"
    judges = tuple(judge for judge in (PEOPLE, CROSS_ENCODER, ANSWERS) if judge not in missing)
    return _gather_verdicts(study, opened, known, store, scored, judges, missing)


class _PeopleLabels:
    """Labels and answers of a run's questions."""

    def __init__(self, study: Study, run: Run):
        by_question: dict[str, dict[str, str]] = {}
        for pair in Labels(study.labels_path, read_only=True).consensus(run.question_ids):
            if pair.label in VOTE_OF_LABEL:
                by_question.setdefault(pair.question, {})[pair.passage] = pair.label
        self.labels = by_question
        self.asked_with_answers = {
            question.id for question in study.questions.with_ids(run.question_ids) if question.answers
        }


def _gather_verdicts(
    study: Study,
    run: Run,
    people: _PeopleLabels,
    store: ScoreStore | None,
    scored_questions: set[str],
    judges: tuple[str, ...],
    missing_judges: dict[str, str],
) -> JudgeAgreement:
    ordinals, ids = run.hits.ordinals[:, :DEPTH], run.question_ids
    answers = answer_matrix(study, run)[:, :DEPTH]
    ids_wanted = set(ids)
    for judge, spoke_of in (
        (PEOPLE, people.labels.keys()),
        (CROSS_ENCODER, scored_questions),
        (ANSWERS, people.asked_with_answers),
    ):
        ids_wanted &= ids_wanted if judge in missing_judges else spoke_of
    rows = [row for row, question in enumerate(ids) if question in ids_wanted] if len(judges) > 1 else []
    parts: list[tuple] = []
    for begin in range(0, len(rows), BLOCK):
        block = rows[begin : begin + BLOCK]
        scores = store.scores_of([ids[row] for row in block]) if store is not None and CROSS_ENCODER in judges else {}
        named = {passage for row in block for passage in (*people.labels.get(ids[row], ()), *scores.get(ids[row], ()))}
        at = study.corpus.ordinals(named)
        for row in block:
            judged = {at[passage]: label for passage, label in people.labels.get(ids[row], {}).items() if passage in at}
            probabilities = {at[passage]: value for passage, value in scores.get(ids[row], {}).items() if passage in at}
            parts += _pairs(row, ordinals[row].tolist(), judged, probabilities, answers[row].tolist(), judges)
    columns = list(zip(*parts, strict=True)) or [()] * 6
    labels: list[str | None] = list(columns[3])
    n_hits = (ordinals >= 0).sum(0)
    return JudgeAgreement(
        judges,
        missing_judges,
        ids,
        np.array(columns[0], np.int32),
        np.array(columns[1], np.int32),
        np.array(columns[2], np.int32),
        np.array([VOTE_OF_LABEL.get(label, SILENT) if label else SILENT for label in labels], np.int8),
        np.array(columns[4], np.float64),
        np.array(columns[5], np.int8),
        labels,
        np.pad(n_hits, (0, DEPTH - len(n_hits))),
    )


def _pairs(
    row: int,
    ordinals: list[int],
    labels: dict[int, str],
    probabilities: dict[int, float],
    answers: list[bool],
    judges: tuple[str, ...],
) -> Iterable[tuple]:
    """Yield (row, rank, ordinal, label, probability, answer) for each passage for which every judge gave a vote."""
    for place, ordinal in enumerate(ordinals):
        has_votes = (
            ordinal >= 0
            and (PEOPLE not in judges or ordinal in labels)
            and (CROSS_ENCODER not in judges or ordinal in probabilities)
        )
        if has_votes:
            answer = (YES if answers[place] else NO) if ANSWERS in judges else SILENT
            yield row, place + 1, ordinal, labels.get(ordinal), probabilities.get(ordinal, np.nan), answer
