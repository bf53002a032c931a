"""Prediction-powered estimates: a rate from a judge's scores of everything and people's labels of a random sample.

The mean of the scores alone would have the judge's bias. Prediction-powered inference (Angelopoulos, Bates, Fannjiang,
Jordan and Zrnic 2023) adds a correction for the judge's errors, measured on the labelled sample:

    rate = lambda * mean score of everything + weighted mean of (label - lambda * score) over the sample

The estimate is unbiased for every lambda and every judge. A biased judge makes the interval wider but does not shift
the estimate. Lambda is chosen to minimise the variance (PPI++: Angelopoulos, Duchi and Zrnic 2023). For a judge that
predicts nothing it becomes 0, which gives the classical estimate. Each question's lambda is chosen from the other
questions only, so the choice does not make the error look smaller than it is.

As in `blindspot.analysis.audit`, a pair weighs 1 / its inclusion probability, and the sampling unit is the question.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blindspot.analysis.by_question import share_interval, sums_by_question
from blindspot.analysis.intervals import LEVEL

FEW = 10
"""With fewer units there is no estimate, because the choice of lambda would depend on single units."""
MOST_LAMBDA = 2.0
METHOD = (
    "prediction-powered: scores of all pairs, corrected by the labels of the random sample; lambda tuned for each "
    "question on the others; t on log odds"
)


@dataclass(frozen=True, slots=True)
class PoweredRate:
    """A rate from scores and labels. Show it together with the classical rate, never alone.

    Attributes:
        value, low, high: None with fewer than `FEW` units of observation.
        questions, labelled: Settled questions and pairs of the sample. scored: Pairs of the population, all with a score.
        weight: Lambda, how much the judge counts: 0 not at all, 1 as it is.
        predicted: Mean score of the population, which is the rate if the judge were right.
    """

    value: float | None
    low: float | None
    high: float | None
    questions: int
    labelled: int
    scored: int
    weight: float
    predicted: float
    method: str = METHOD
    units: int | None = None

    @property
    def width(self) -> float | None:
        return None if self.low is None or self.high is None else self.high - self.low


class DrawnQuestions:
    """A random sample of rows, each with its question and its unit of observation."""

    questions: np.ndarray
    units: np.ndarray | None

    @property
    def clusters(self) -> np.ndarray:
        """The independent unit of each row: its unit of observation, or its question."""
        return self.questions if self.units is None else self.units


@dataclass(frozen=True)
class ScoredSample(DrawnQuestions):
    """n pairs of a random sample, with a judge's scores.

    Attributes:
        hits: (n,) bool, ignored where `settled` is False: pairs that people are unsure of, and those of bad questions.
        scores: (n,) float64. probabilities: (n,) inclusion probabilities. questions: (n,) any sortable labels.
        units: (n,) any sortable labels, the unit of observation of each question; None if each question is its own.
    """

    hits: np.ndarray
    settled: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray
    questions: np.ndarray
    units: np.ndarray | None = None


def powered_rate(sample: ScoredSample, population: np.ndarray, confidence: float = LEVEL) -> PoweredRate:
    """Estimate the share of hits among the settled pairs of a population in which a judge scored every pair.

    Pairs of the sample without a settled label still count in the comparison of the sample's scores with the
    population's.

    Args:
        population: (N,) scores of all pairs that the sample was drawn from.

    Raises ValueError for arrays of different lengths, a probability outside 0 to 1, or a missing score.
    """
    settled, probabilities = np.asarray(sample.settled, bool), np.asarray(sample.probabilities, np.float64)
    if len({len(sample.hits), len(settled), len(sample.scores), len(probabilities), len(sample.questions)}) > 1:
        raise ValueError("hits, settled, scores, probabilities and questions must have equal lengths")
    if not ((probabilities > 0) & (probabilities <= 1)).all():
        raise ValueError("an inclusion probability must be above 0 and at most 1")
    if not (np.isfinite(sample.scores).all() and np.isfinite(population).all() and len(population)):
        raise ValueError("every pair of the sample and of the population needs a score")
    weights, predicted, labelled = 1 / probabilities, float(np.mean(population)), int(settled.sum())
    columns = [sample.hits * settled * weights, settled * weights, sample.scores * weights, weights]
    top, bottom, right, drawn = (
        sums_by_question(np.stack(columns, axis=1), sample.clusters).T if len(weights) else np.zeros((4, 0))
    )
    n, n_settled = len(top), int((bottom > 0).sum())
    questions = len(np.unique(np.asarray(sample.questions)[settled]))
    if n_settled < FEW:
        return PoweredRate(None, None, None, questions, labelled, len(population), 0.0, predicted)
    classical = float(top.sum() / bottom.sum())
    labels = (top - classical * bottom) / bottom.sum()  # what each question adds to the error of the rate
    judged = (right - predicted * drawn) / drawn.sum()  # and to the difference of the scores' means
    tuned = _leave_one_out_lambdas(labels, judged)
    value = classical - float(tuned @ judged)
    if not 0 < value < 1 or not 0 < classical < 1:  # no label varies, or the sum is no share: the labels alone
        tuned, value = np.zeros(n), classical
    left = labels - tuned * judged
    left = left * n / (n - 1)  # a question's own part of the rate makes its residual smaller, as in the jackknife
    error = float(np.sqrt(n / (n - 1) * ((left - left.mean()) ** 2).sum()))
    low, high = share_interval(value, error, n_settled - 1, confidence)
    return PoweredRate(
        value, low, high, questions, labelled, len(population), float(tuned.mean()), predicted, units=n_settled
    )


def _leave_one_out_lambdas(labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Return for each question the lambda from 0 to MOST_LAMBDA with the smallest variance over all other questions,
    (q,).
    """
    n = len(labels)

    def leave_one_out_mean(values: np.ndarray) -> np.ndarray:
        mean_of_others: np.ndarray = (values.sum() - values) / (n - 1)
        return mean_of_others

    covariance = leave_one_out_mean(labels * predictions) - leave_one_out_mean(labels) * leave_one_out_mean(predictions)
    variance = leave_one_out_mean(predictions**2) - leave_one_out_mean(predictions) ** 2
    tuned = np.divide(covariance, variance, out=np.zeros(n), where=variance > 1e-18)
    clipped: np.ndarray = np.clip(tuned, 0.0, MOST_LAMBDA)
    return clipped
