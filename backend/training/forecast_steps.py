"""Measure on a study's own lists how much Success@1 changes when a judge is trained with more labels. Label forecasts
extrapolate these differences ("steps").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from blindspot.backend.judges.feature_judge import examples_of
from blindspot.backend.judges.feature_model import POSITIVE, fit_ranker
from blindspot.backend.judges.lists import Lists
from blindspot.backend.judges.settings import FeatureJudgeSettings

DRAWS = 5
MOST_QUESTIONS = 400  # that a step learns from: more questions change little, and take long
FEWEST_QUESTIONS = 4
LABELS = (50, 100, 300)  # numbers of labels that forecasts speak of
PAIRS_PER_QUESTION = 8  # labels that one judged question takes
LEARNING_PRIOR = (0.006, 0.006)
"""Assumed mean and standard deviation of the gain in Success@1 when the number of questions that the reranker learns
from doubles. They come from learning curves of held-out training questions, on the real data and on generated
encyclopedias.
"""
CLEANING_PRIOR = (0.0, 0.01)
"""The same for the gain of labels that double the number of cleaned questions."""


@dataclass(frozen=True)
class StepLists:
    """The data with which steps are measured.

    Attributes:
        lists, features (n, k, f), answers (n, k): of training questions.
        truth (n, k): what is known of their hits, people's labels included.
        without (n, k): the same without people's labels.
        reference: (r, k, f) of other lists. dev_features (q, k, f), dev_relevant (q, k) bool: of the questions that
            measure.
    """

    lists: Lists
    features: np.ndarray
    answers: np.ndarray
    truth: np.ndarray
    without: np.ndarray
    reference: np.ndarray
    dev_features: np.ndarray
    dev_relevant: np.ndarray

    @property
    def questions_with_positive(self) -> np.ndarray:
        """Return the indexes of the training questions with a known positive."""
        return np.flatnonzero((self.truth == POSITIVE).any(axis=1))

    def first_hit_is_relevant(self, question_rows: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """Train a ranker on some questions, and return for each dev question whether its first reranked hit is
        relevant, (q,) bool.
        """
        lists = Lists(
            [self.lists.questions[i] for i in question_rows],
            self.lists.rows[question_rows],
            self.lists.scores[question_rows],
        )
        examples = examples_of(
            lists, self.features[question_rows], truth[question_rows], self.answers[question_rows], self.reference
        )
        ranker = fit_ranker(examples, FeatureJudgeSettings())
        present = self.dev_relevant.shape[1] > 0
        flat = self.dev_features.reshape(-1, self.dev_features.shape[-1])
        scores = ranker.ranking_scores(flat).reshape(self.dev_features.shape[:2])
        scores = np.where(np.isnan(self.dev_features[:, :, 1]), -np.inf, scores)
        return self.dev_relevant[np.arange(len(scores)), scores.argmax(axis=1)] if present else np.zeros(0, bool)


def learning_steps(data: StepLists, seed: int, report: Callable[[str], None] = lambda doing: None) -> np.ndarray:
    """Return the differences of Success@1 between training on a sample of questions and on half of them, (d, q) for d
    draws.
    """
    steps = []
    for draw in range(DRAWS):
        report(f"learning from halves ({draw + 1} of {DRAWS})")
        order = np.random.default_rng([seed, draw]).permutation(data.questions_with_positive)[:MOST_QUESTIONS]
        halves = (
            data.first_hit_is_relevant(order, data.truth),
            data.first_hit_is_relevant(order[: len(order) // 2], data.truth),
        )
        steps.append(halves[0].astype(float) - halves[1])
    return np.array(steps)


def cleaning_steps(
    data: StepLists, cleaned_questions: Sequence[int], seed: int, report: Callable[[str], None] = lambda doing: None
) -> np.ndarray:
    """Return the differences of Success@1 between training with and without people's labels of some questions, (d, q)
    for d draws.

    Each draw trains on these questions and on further questions, MOST_QUESTIONS in total.
    """
    steps = []
    others = np.setdiff1d(data.questions_with_positive, cleaned_questions)
    for draw in range(DRAWS):
        report(f"learning with and without labels ({draw + 1} of {DRAWS})")
        more = np.random.default_rng([seed, draw]).permutation(others)[
            : max(0, MOST_QUESTIONS - len(cleaned_questions))
        ]
        places = np.concatenate([np.asarray(cleaned_questions, np.int64), more])
        both = data.first_hit_is_relevant(places, data.truth), data.first_hit_is_relevant(places, data.without)
        steps.append(both[0].astype(float) - both[1])
    return np.array(steps)
