"""What a judge says of a run's lists, as the teacher of a retriever: no question needs gold.

A judge orders the first ranks of every list better than the retriever does. A retriever learns from that order over all
training questions, labelled or not: an adapter from the whole list at once, a dual encoder from the judge's first passage
and the others of the list, with the judge's scores as its teacher (`blindspot.backend.training.distillation`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from blindspot.backend.core.gold import gold_matrix
from blindspot.backend.judges.feature_judge import (
    KIND,
    FeatureJudge,
    apply_labels,
    settled_labels,
    trainable_questions,
)
from blindspot.backend.judges.feature_model import NEGATIVE, POSITIVE, UNKNOWN
from blindspot.backend.judges.judge import StoredJudge, judge_kind_of
from blindspot.backend.judges.lists import QUESTIONS_PER_STEP, Lists, lists_of, refuse_other_retriever
from blindspot.backend.judges.settings import RERANK_DEPTH
from blindspot.backend.training.distillation import CERTAIN
from blindspot.backend.training.examples import BatchSampler, Example, NegativeSampler, SampledExample
from blindspot.db.errors import Refused
from blindspot.db.labels import Labels
from blindspot.db.records import Question

if TYPE_CHECKING:
    from torch import Tensor

    from blindspot.backend.core.study import Study
    from blindspot.backend.progress import Progress

PADDED = -1
EXAMPLE_RANKS = 32  # of a judged list, from which a dual encoder draws hard negatives
SHARPNESS = 2.0
"""A retriever is taught the softmax of so many times the judge's log-odds: judges that learned from few labels are too
even. Of 0.5, 1 and 2 times, 2 taught best on held-out training questions of the real data."""
EVEN = 0.0  # log-odds of a passage that answers as likely as not


@dataclass(frozen=True)
class JudgedLists:
    """Lists of training questions in the order of a judge.

    rows: (q, k) int64 passage rows, PADDED at the end. log_odds: (q, k) float32 that the passage answers, falling along
    a row; -inf where padded. judge, run: their names. digest: changes with the questions, the rows and the scores.
    """

    questions: list[Question]
    rows: np.ndarray
    log_odds: np.ndarray
    judge: str
    run: str

    @property
    def digest(self) -> str:
        whole = hashlib.sha256("\0".join(f"{q.id}\0{q.text}" for q in self.questions).encode("utf-8", "surrogatepass"))
        whole.update(self.rows.tobytes())
        whole.update(self.log_odds.tobytes())
        return whole.hexdigest()


def required_teacher(training_set: str | None, judge: str | None, run: str | None) -> str | None:
    """Return the judge whose lists teach; None where a training set does. Raises Refused without either, or for a run
    beside a set.
    """
    if training_set is None and judge is None:
        raise Refused("name what teaches: a training set (--on), or a judge of a run's lists (--distil)")
    if training_set is not None and run is not None:
        raise Refused("a training set (--on) names its runs itself; leave out --run")
    return judge if training_set is None else None


def judged_lists(study: Study, judge: str, run: str | None = None, progress: Progress | None = None) -> JudgedLists:
    """Return the lists of all training questions of a run in the order of a judge.

    People's labels and gold are certain, whatever the judge says. Dev and test questions, and questions that leak from
    them, are left out.

    Args:
        run: a run over training questions; default the one that a feature judge learned from.

    Raises:
        Missing: no such judge or run, or a judge without scores. Refused: the judge learned from lists of another
        retriever, or says nothing of this run.
    """
    teacher = FeatureJudge(study, judge) if judge_kind_of(study, judge).name == KIND else StoredJudge(study, judge)
    if run is None:
        if not isinstance(teacher, FeatureJudge):
            raise Refused(f"name the run whose lists {judge!r} judged")
        run = str(teacher.about["run"])
    opened = study.run(run)
    if isinstance(teacher, FeatureJudge):
        refuse_other_retriever(judge, teacher.about["retriever"], opened)
    questions = study.questions.with_ids(trainable_questions(study, opened))
    parts = []
    for begin in range(0, len(questions), QUESTIONS_PER_STEP):
        if progress is not None:
            progress(begin, len(questions), f"judging lists with {judge}")
        lists = lists_of(opened, questions[begin : begin + QUESTIONS_PER_STEP], RERANK_DEPTH)
        parts.append(sort_lists(lists.rows, with_known_labels(study, lists, _log_odds(teacher, lists))))
    known = np.concatenate([np.isfinite(log_odds[:, 0]) for _, log_odds in parts]) if parts else np.zeros(0, bool)
    if not known.any():
        raise Refused(f"judge {judge!r} has no score of a training question of {run!r}")
    rows, log_odds = (np.concatenate(each)[known] for each in zip(*parts, strict=True))
    kept = [question for question, here in zip(questions, known.tolist(), strict=True) if here]
    return JudgedLists(kept, rows, log_odds, judge, run)


def _log_odds(judge: FeatureJudge | StoredJudge, lists: Lists) -> np.ndarray:
    if isinstance(judge, FeatureJudge):
        return judge.ranking_scores(judge.features(lists))
    probabilities = judge.judge(lists)
    with np.errstate(divide="ignore"):  # 0 and 1 are certain
        log_odds: np.ndarray = np.log(probabilities) - np.log1p(-probabilities)
    return log_odds


def sort_lists(rows: np.ndarray, log_odds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Order lists by log-odds (q, k), the largest first; those without one become padding."""
    log_odds = np.where((rows < 0) | np.isnan(log_odds), -np.inf, log_odds)
    order = np.argsort(-log_odds, axis=1, kind="stable")
    log_odds = np.take_along_axis(log_odds, order, 1).astype(np.float32)
    return np.where(np.isfinite(log_odds), np.take_along_axis(rows, order, 1), PADDED).astype(np.int64), log_odds


def with_known_labels(study: Study, lists: Lists, log_odds: np.ndarray) -> np.ndarray:
    """Put what people and gold say of some lists in the place of a judge's log-odds (q, k)."""
    truth = np.where(gold_matrix(study.corpus, lists.rows, lists.questions)[0], POSITIVE, UNKNOWN).astype(np.int8)
    consensus = Labels(study.labels_path, read_only=True).consensus([question.id for question in lists.questions])
    apply_labels(study, lists, settled_labels(consensus), truth)
    return np.select([truth == POSITIVE, truth == NEGATIVE], [CERTAIN, -CERTAIN], np.clip(log_odds, -CERTAIN, CERTAIN))


class ListExamples:
    """Judged lists as examples of a dual encoder.

    A question's positives are the passages that answer more likely than not, at least the judge's first; its negatives
    are the other passages of the first `depth` of its list.
    """

    def __init__(self, study: Study, lists: JudgedLists, depth: int = EXAMPLE_RANKS):
        self._study, self._lists, self.depth = study, lists, depth

    def __len__(self) -> int:
        return len(self._lists.questions)

    def __getitem__(self, index: int) -> Example:
        index = range(len(self))[index]
        question, rows = self._lists.questions[index], self._lists.rows[index, : self.depth]
        rows = rows[rows != PADDED]
        positives = max(1, int((self._lists.log_odds[index, : len(rows)] > EVEN).sum()))
        passages = tuple(self._study.corpus.passages(rows.tolist()))
        return Example(question.id, question.text, passages[:positives], passages[positives:], question.relation)


class ListTeacher:
    """The judge of some lists as the teacher of a dual encoder; see `blindspot.backend.training.distillation.Teacher`."""

    def __init__(self, study: Study, lists: JudgedLists):
        self._study, self._lists = study, lists
        self._places = {question.id: place for place, question in enumerate(lists.questions)}
        self.name = lists.judge
        self.model_hash: str | None = lists.digest

    def prepare(self, dataset: NegativeSampler, sampler: BatchSampler, progress: Progress | None = None) -> None:
        """Do nothing: the lists are judged."""

    def __call__(self, batch: Sequence[SampledExample[Example]], hard_negatives: int) -> Tensor:
        """(b, 1 + hard_negatives) float32 sharpened log-odds of each question's positive and hard negatives; -inf if
        there is no passage.
        """
        import torch

        sampled = [(drawn.positive, *drawn.negatives) for drawn in batch]
        rows = self._study.corpus.ordinals({passage.id for passages in sampled for passage in passages})
        taught = torch.full((len(batch), 1 + hard_negatives), -torch.inf)
        for number, (drawn, passages) in enumerate(zip(batch, sampled, strict=True)):
            place = self._places[drawn.example.id]
            known = dict(zip(self._lists.rows[place].tolist(), self._lists.log_odds[place].tolist(), strict=True))
            for column, passage in enumerate(passages):
                taught[number, column] = SHARPNESS * known[rows[passage.id]]
        return taught
