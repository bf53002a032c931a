"""Evaluators that compare checkpoints: the average rank of the positive (DPR), and the mean average precision of
held-out pairs.

The rank of a question is the rank, from 1, of its best known positive among the passages of one fixed pool. Ties count
against the positive, so a model that gives all passages the same score does not benefit. In DPR's code each process
ranks within its own part of the pool, so the figure depends on the number of processes; here all processes use one
pool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.evaluation import BaseEvaluator
from sentence_transformers.base.model import BaseModel

from blindspot.backend.training.examples import Pool
from blindspot.backend.training.losses import SIMILARITIES
from blindspot.backend.training.scoring import LabelledPair

BLOCK = 256  # questions whose scores are in memory at a time


def ranks_of_first_answer(
    questions: torch.Tensor, passages: torch.Tensor, known_answers: Sequence[Sequence[int]], similarity: str
) -> np.ndarray:
    """Return the ranks (q,) int64, given question vectors (q, d) and passage vectors (n, d). known_answers[i]: rows of
    the passages that answer question i.
    """
    positive_ranks = np.empty(len(questions), np.int64)
    for begin in range(0, len(questions), BLOCK):
        scores = SIMILARITIES[similarity](questions[begin : begin + BLOCK].float(), passages.float())
        answers = torch.zeros_like(scores, dtype=torch.bool)
        for row, columns in enumerate(known_answers[begin : begin + BLOCK]):
            answers[row, list(columns)] = True
        best = scores.masked_fill(~answers, -torch.inf).amax(1, keepdim=True)
        positive_ranks[begin : begin + BLOCK] = 1 + ((scores >= best) & ~answers).sum(1).cpu().numpy()
    return positive_ranks


class RankEvaluator(BaseEvaluator):
    """An evaluator for the trainer over a fixed pool: `average_rank`, and `first`, the share of questions whose positive
    ranks first.

    passages: the vectors of the pool's passages; None encodes them.
    """

    def __init__(self, pool: Pool, template: str, similarity: str, batch: int, passages: torch.Tensor | None = None):
        super().__init__()
        self.pool, self.template, self.similarity, self.batch = pool, template, similarity, batch
        self.passages = passages

    def __call__(
        self, model: BaseModel, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        assert isinstance(model, SentenceTransformer)
        pool = self.pool
        how: dict[str, Any] = {"batch_size": self.batch, "show_progress_bar": False, "convert_to_tensor": True}
        questions: torch.Tensor = model.encode_query(list(pool.questions), **how)
        passages: Any = self.passages
        if passages is None:
            texts = [self.template.format(title=passage.title, text=passage.text) for passage in pool.passages]
            passages = model.encode_document(texts, **how)
        vectors = passages.to(questions.device)
        positive_ranks = ranks_of_first_answer(questions, vectors, pool.known_positives, self.similarity)
        return {"average_rank": float(positive_ranks.mean()), "first": float((positive_ranks == 1).mean())}


def comparable_questions(pairs: Sequence[LabelledPair]) -> dict[str, list[int]]:
    """Return the indexes of each question's pairs, for the questions that have both positive and negative pairs."""
    rows_by_passage: dict[str, list[int]] = {}
    for place, pair in enumerate(pairs):
        rows_by_passage.setdefault(pair.question_id, []).append(place)
    return {
        question: own for question, own in rows_by_passage.items() if len({pairs[place].positive for place in own}) == 2
    }


def mean_average_precision(scores: np.ndarray, pairs: Sequence[LabelledPair]) -> float:
    """Return the average precision of each question's pairs, averaged over the questions that have both positive and
    negative pairs.

    Scores of different questions are not compared, because a cross-encoder is used to rank the passages of one
    question.
    """
    from sklearn.metrics import average_precision_score

    positive = np.array([pair.positive for pair in pairs])
    return float(
        np.mean([average_precision_score(positive[own], scores[own]) for own in comparable_questions(pairs).values()])
    )


class PairEvaluator(BaseEvaluator):
    """An evaluator for the trainer that computes on held-out pairs the mean average precision over questions, the
    average precision of all pairs as one list, and the log loss.
    """

    def __init__(self, pairs: Sequence[LabelledPair], logits: Callable[..., np.ndarray], batch: int):
        super().__init__()
        self.pairs, self.logits, self.batch = pairs, logits, batch
        self.positive = torch.tensor([float(pair.positive) for pair in pairs], dtype=torch.float64)

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: float = -1, steps: int = -1
    ) -> dict[str, float]:
        from sklearn.metrics import average_precision_score

        scores = self.logits(model, [(pair.question, pair.passage) for pair in self.pairs], self.batch)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(torch.from_numpy(scores), self.positive)
        return {
            "mean_average_precision": mean_average_precision(scores, self.pairs),
            "average_precision": float(average_precision_score(self.positive.numpy(), scores)),
            "held_out_loss": loss.item(),
        }
