"""Measure where people, a cross-encoder and answer matching agree about the passages of a run.

RocketQA (Qu et al. 2021) trusts a cross-encoder for unjudged passages; DPR trusts an answer match. People's labels show
how reliable each of them is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.disagreements import NO, SILENT, YES
from blindspot.backend.core.runs import Run, answer_matrix
from blindspot.backend.core.study import Study
from blindspot.backend.judges.scores import ScoreStore
from blindspot.db.labels import Labels

PEOPLE, CROSS_ENCODER, ANSWERS = "annotators", "cross-encoder", "answer match"
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
        undecided: number of judged pairs that are left out, because they are disputed or unsure.
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
    undecided: int

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
    labels: dict[str, dict[str, str]] = {}
    undecided: dict[str, set[str]] = {}
    for pair in Labels(study.labels_path, read_only=True).consensus(opened.question_ids):
        if pair.label in VOTE_OF_LABEL:
            labels.setdefault(pair.question, {})[pair.passage] = pair.label
        else:
            undecided.setdefault(pair.question, set()).add(pair.passage)
    store = ScoreStore.open(study, model) if model is not None else None
    judged_by: dict[str, Collection[str]] = {
        PEOPLE: labels.keys(),
        CROSS_ENCODER: store.questions().intersection(opened.question_ids) if store is not None else (),
        ANSWERS: {question.id for question in study.questions.with_ids(opened.question_ids) if question.answers},
    }
    why_missing = {
        PEOPLE: f"Nobody has judged a question of {run} yet; labels come from the Judge page",
        CROSS_ENCODER: f"{model} has scored no question of {run}" if store else "No model has scored passages here",
        ANSWERS: f"No question of {run} has answers to match",
    }
    judges = tuple(judge for judge, questions in judged_by.items() if questions)
    wanted = set(opened.question_ids).intersection(*(judged_by[judge] for judge in judges))
    rows = [row for row, id in enumerate(opened.question_ids) if id in wanted] if len(judges) > 1 else []
    columns = list(zip(*_pairs_with_all_votes(study, opened, rows, judges, labels, store), strict=True)) or [()] * 6
    hits_by_rank = (opened.hits.ordinals[:, :DEPTH] >= 0).sum(0)
    return JudgeAgreement(
        judges,
        {judge: why for judge, why in why_missing.items() if judge not in judges},
        opened.question_ids,
        np.array(columns[0], np.int32),
        np.array(columns[1], np.int32),
        np.array(columns[2], np.int32),
        people=np.array([VOTE_OF_LABEL.get(label, SILENT) for label in columns[3]], np.int8),
        probabilities=np.array(columns[4], np.float64),
        answers=np.array(columns[5], np.int8),
        labels=list(columns[3]),
        found=np.pad(hits_by_rank, (0, DEPTH - len(hits_by_rank))),
        undecided=_retrieved(study, opened, undecided),
    )


def _retrieved(study: Study, run: Run, passages: Mapping[str, Collection[str]]) -> int:
    """Return how many of some passages, by question, a run has among its top DEPTH."""
    at = study.corpus.ordinals({passage for each in passages.values() for passage in each})
    return sum(
        int(np.isin(run.hits.ordinals[row, :DEPTH], [at[passage] for passage in passages[id] if passage in at]).sum())
        for row, id in enumerate(run.question_ids)
        if id in passages
    )


def _pairs_with_all_votes(
    study: Study,
    run: Run,
    rows: Sequence[int],
    judges: Collection[str],
    labels: Mapping[str, Mapping[str, str]],
    store: ScoreStore | None,
) -> Iterator[tuple]:
    """Yield (row, rank, ordinal, label, probability, answer) for each passage of the questions in some rows for which
    every judge gave a vote. labels: by question and passage.
    """
    ordinals, ids, answers = run.hits.ordinals[:, :DEPTH], run.question_ids, answer_matrix(study, run)
    for begin in range(0, len(rows), BLOCK):
        block = rows[begin : begin + BLOCK]
        scores = store.scores_of([ids[row] for row in block]) if store is not None and CROSS_ENCODER in judges else {}
        said = {row: (labels.get(ids[row], {}), scores.get(ids[row], {})) for row in block}
        at = study.corpus.ordinals({passage for both in said.values() for known in both for passage in known})
        for row, both in said.items():
            judged, scored = (
                {at[passage]: value for passage, value in known.items() if passage in at} for known in both
            )
            for place, ordinal in enumerate(ordinals[row].tolist()):
                has_votes = (PEOPLE not in judges or ordinal in judged) and (
                    CROSS_ENCODER not in judges or ordinal in scored
                )
                if ordinal >= 0 and has_votes:
                    answer = (YES if answers[row, place] else NO) if ANSWERS in judges else SILENT
                    yield row, place + 1, ordinal, judged.get(ordinal), scored.get(ordinal, np.nan), answer
