"""The reader's training examples: for each eligible question, the top-ranked passages of a run with and without an
answer.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from blindspot.backend.core.manifest import file_sha256, text_sha256
from blindspot.backend.core.runs import Run
from blindspot.backend.core.study import Study
from blindspot.backend.data.leaks import TRAINS, eligible_questions
from blindspot.backend.reader.settings import DEPTH
from blindspot.backend.text.answers import DEFAULT_RULE, match_run, rule_for
from blindspot.backend.training.examples import NumberedExamples
from blindspot.db.errors import Missing, Refused
from blindspot.db.labels import Labels
from blindspot.db.records import Passage

NO_ANSWERS = "no answers"
NOTHING_THERE = "no passage in the top {depth} contains an answer"
MAY_NOT_TRAIN = "not in a training split, a leak, or marked bad"
POSITIVE, NEGATIVE, NEITHER = 1, -1, 0


@dataclass(frozen=True, slots=True)
class ReaderExample:
    """A question with the top-ranked passages of a run, in rank order.

    Attributes:
        roles: the role of each passage: POSITIVE (contains an answer), NEGATIVE (contains none), or NEITHER (people
            contradict the match, or disagree).
        rule: the matching rule that finds the answers in a positive.
    """

    id: str
    question: str
    answers: tuple[str, ...]
    passages: tuple[Passage, ...]
    roles: tuple[int, ...]
    rule: str = DEFAULT_RULE

    @property
    def positives(self) -> tuple[Passage, ...]:
        return tuple(passage for passage, role in zip(self.passages, self.roles, strict=True) if role == POSITIVE)

    def hard_negatives(self) -> tuple[Passage, ...]:
        return tuple(passage for passage, role in zip(self.passages, self.roles, strict=True) if role == NEGATIVE)


class ReaderExamples(NumberedExamples[ReaderExample], Protocol):
    """Numbered examples that each have a positive, and a hash of their content."""

    digest: str


class RunExamples:
    """The training questions of a run that have a positive.

    Stores only the rows and roles of passages, and reads texts on demand.

    A passage that contains an answer is a positive, unless people label it related or negative. A passage without an
    answer is a negative, unless people label it positive. Pairs on which people disagree are neither. Questions of dev,
    test and bucket sets, and questions that leak from them (`blindspot.backend.data.leaks`), are never used for
    training.

    left_out: number of questions left out, by reason.
    """

    def __init__(self, study: Study, run: Run, depth: int = DEPTH):
        """Select the questions. Raises Refused if no question remains."""
        self._study = study
        may = may_train(study)
        questions = study.questions.with_ids(run.question_ids)
        ordinals = np.asarray(run.hits.ordinals[:, :depth])
        roles = np.where(_contains_answer(study, run, questions, ordinals), POSITIVE, NEGATIVE).astype(np.int8)
        _correct_spans(study, roles, ordinals, run.question_ids)
        roles[ordinals < 0] = NEITHER
        rows: list[int] = []
        left_out: Counter[str] = Counter()
        for row, question in enumerate(questions):
            if question.id not in may:
                left_out[MAY_NOT_TRAIN] += 1
            elif not question.answers:
                left_out[NO_ANSWERS] += 1
            elif not (roles[row] == POSITIVE).any():
                left_out[NOTHING_THERE.format(depth=depth)] += 1
            else:
                rows.append(row)
        self.left_out = dict(left_out)
        if not rows:
            why = "; ".join(f"{count:,}: {reason}" for reason, count in left_out.most_common())
            raise Refused(
                f"no question of run {run.name!r} has a positive passage to train a reader on "
                f"({why or 'the run has no questions'}); give a run over training questions, as 'blindspot retrieve "
                "--split train' makes it"
            )
        self._questions = [questions[row] for row in rows]
        self._ordinals, self._roles = ordinals[rows], roles[rows]
        about = [[q.id, q.text, list(q.answers), rule_for(q)] for q in self._questions]
        self.digest = text_sha256(
            study.corpus.digest, json.dumps(about), self._ordinals.tobytes().hex(), self._roles.tobytes().hex()
        )

    def __len__(self) -> int:
        return len(self._questions)

    def __getitem__(self, index: int) -> ReaderExample:
        question, present = self._questions[index], self._ordinals[index] >= 0
        passages = self._study.corpus.passages(self._ordinals[index][present].tolist())
        return ReaderExample(
            question.id,
            question.text,
            question.answers,
            tuple(passages),
            tuple(self._roles[index][present].tolist()),
            rule_for(question),
        )


def run_hash(run: Run) -> str:
    """Return a hash of a run's questions and passages."""
    return text_sha256(*(file_sha256(run.folder / name) for name in ("questions.json", "ordinals.npy")))


def may_train(study: Study) -> set[str]:
    if not any(row["split"] in TRAINS for row in study.questions.counts()):
        return set()
    return set(eligible_questions(study, TRAINS, set(Labels(study.labels_path, read_only=True).bad_questions())).ids)


def _contains_answer(study: Study, run: Run, questions: Sequence, ordinals: np.ndarray) -> np.ndarray:
    """Return which passages contain an answer, (q, depth) bool. Always uses the default rule, which also gives the
    answer's span in the text.

    A match in a title does not count.
    """
    try:
        return np.asarray(run.answers(DEFAULT_RULE)[:, : ordinals.shape[1]])
    except Missing:
        return match_run(study.corpus, questions, ordinals, DEFAULT_RULE)


def _correct_spans(study: Study, roles: np.ndarray, ordinals: np.ndarray, question_ids: Sequence[str]) -> None:
    """Correct `roles` in place: people's labels override the answer matching."""
    rows = {id: row for row, id in enumerate(question_ids)}
    labelled = [pair for pair in Labels(study.labels_path, read_only=True).consensus() if pair.question in rows]
    known = study.corpus.ordinals({pair.passage for pair in labelled})
    for pair in labelled:
        row = rows[pair.question]
        at = ordinals[row] == known.get(pair.passage, -2)
        holds = roles[row, at] == POSITIVE
        agrees = pair.label is not None and holds == (pair.label == "positive")
        roles[row, at] = np.where(agrees, roles[row, at], NEITHER)
