"""Success@k as people's labels would give it, estimated from people's labels of a random sample and a judge's scores of
all hits.

The sampling unit is the question. For some questions gold alone gives the result: those with a relevant gold passage
among the first k hits, those whose first k hits are all gold, and those without hits. The other questions are open.
Only the share of successes among the open questions is estimated:

    Success@k = (certain successes + open questions * share of successes among the open questions) / all questions

This share comes from open questions of a random sample for which people saw all of the first k hits.
`blindspot.analysis.audit.rate` estimates it from the labels alone, `blindspot.analysis.prediction_powered.powered_rate`
with a judge. The estimate is unbiased if audits show all pooled passages of a question. If audits show only a part of
them, questions have different weights. The ratio of weighted sums then has a bias of order 1 / n, which is small
compared with the interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb

import numpy as np

from blindspot.analysis.audit import rate
from blindspot.analysis.prediction_powered import DrawnQuestions, ScoredSample, powered_rate

BoundRate = Callable[[np.ndarray], float | None]
"""A function from (n,) successes, all of them settled, to the rate."""


@dataclass(frozen=True, slots=True)
class QuestionCounts:
    """The questions of a run at one cut-off k.

    Attributes:
        all: Every measured question. certain: Successes that gold settles. open: Questions that gold does not settle.
        elsewhere: Open questions that the sample could not have drawn, because another audit took them first. The value
            counts them like the other open questions; the bounds take them as misses, and as successes.
    """

    all: int
    certain: int
    open: int
    elsewhere: int = 0

    def success(self, share: float) -> float:
        """Return Success@k of all questions from the share of successes among the open questions."""
        return (self.certain + self.open * share) / self.all

    def bounds(self, lowest: float, highest: float) -> tuple[float, float]:
        within = self.open - self.elsewhere
        top = self.certain + within * highest + self.elsewhere
        return (self.certain + within * lowest) / self.all, top / self.all


@dataclass(frozen=True, slots=True)
class SuccessShare:
    """Success@k of all questions.

    Attributes:
        value, low, high: None with too few settled questions, see `blindspot.analysis.prediction_powered.FEW` and `blindspot.analysis.audit`.
        lower_bound, upper_bound: The value if every question of the sample that is not settled were a miss, or a success.
        labelled, unsettled: Open questions of the sample with settled labels on all first k hits, and without.
        scored: Open questions with a judge's score on all first k hits; 0 from labels alone.
        weight: Lambda, how much the judge counts. predicted: Success@k if the judge were right, None without a judge.
    """

    value: float | None
    low: float | None
    high: float | None
    lower_bound: float | None
    upper_bound: float | None
    labelled: int
    unsettled: int
    scored: int = 0
    weight: float = 0.0
    predicted: float | None = None


@dataclass(frozen=True)
class SuccessSample(DrawnQuestions):
    """The sample: n open questions drawn at random. By design, people saw every one of their first k hits that is not
    gold.

    Attributes:
        lowest, highest: (n,) bool, success if every hit without a settled label were wrong, or right.
        settled: (n,) bool, every one of the first k hits is settled. A question with an unsettled hit is not settled, even if
            another of its hits is positive: if only those counted, successes would be settled more often than misses.
        bad: (n,) bool, people called the question bad; it enters neither value nor bounds.
        probabilities: (n,) the chance to be drawn and shown completely, up to one factor; see `probability_all_shown`.
        questions: (n,) ids. units: (n,) int, the unit of observation of each; None if each question is its own.
    """

    lowest: np.ndarray
    highest: np.ndarray
    settled: np.ndarray
    bad: np.ndarray
    probabilities: np.ndarray
    questions: np.ndarray
    units: np.ndarray | None = None


def probability_all_shown(pool: int, shown_count: int, needed_count: int) -> float:
    """Return the probability that `shown_count` passages, drawn uniformly from `pool` passages, include `needed_count`
    given ones.
    """
    return comb(shown_count, needed_count) / comb(pool, needed_count)


def expected_success(scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the predicted probability that at least one hit is relevant, 1 - product of (1 - score), as if hits were
    independent. (q,).

    Hits of one question are not independent, so this prediction is biased. The labels correct this bias like any other.

    Args:
        scores: (q, k) probabilities. counts: (q, k) bool; other hits (gold, padding) do not count.
    """
    expected: np.ndarray = 1 - np.prod(np.where(counts, 1 - np.asarray(scores, np.float64), 1.0), axis=1)
    return expected


def labelled_success(sample: SuccessSample, counts: QuestionCounts) -> SuccessShare:
    """Return Success@k from the labels of the sample alone."""
    good = ~sample.bad
    weights, ids, units = sample.probabilities[good], sample.questions[good], sample.clusters[good]
    found = rate(sample.lowest[good], sample.settled[good], weights, ids, units=units)

    def bound(hits: np.ndarray) -> float | None:
        return rate(hits[good], np.ones(int(good.sum()), bool), weights, ids).value

    return _success_of_all_questions(found.value, found.low, found.high, sample, counts, bound)


def powered_success(
    sample: SuccessSample, scores: np.ndarray, population: np.ndarray, counts: QuestionCounts
) -> SuccessShare:
    """Return Success@k from the labels of the sample and a judge's predictions for all questions that could have been
    drawn.

    Args:
        scores: (n,) predictions for the sample. population: (N,) for every open question that the sample was drawn from.

    Raises ValueError as `powered_rate` does.
    """

    def estimate(hits: np.ndarray, settled: np.ndarray) -> ScoredSample:
        return ScoredSample(
            hits, settled & ~sample.bad, scores, sample.probabilities, sample.questions, sample.clusters
        )

    def bound(hits: np.ndarray) -> float | None:
        return powered_rate(estimate(hits, np.ones(len(hits), bool)), population).value

    found = powered_rate(estimate(sample.lowest, sample.settled), population)
    judged = (len(population), found.weight, counts.success(found.predicted))
    return _success_of_all_questions(found.value, found.low, found.high, sample, counts, bound, judged)


def _success_of_all_questions(
    value: float | None,
    low: float | None,
    high: float | None,
    sample: SuccessSample,
    counts: QuestionCounts,
    bound: BoundRate,
    judged: tuple[int, float, float | None] = (0, 0.0, None),
) -> SuccessShare:
    """Turn a share of the open questions into Success@k of all questions. judged: the judge's score, weight and
    prediction of each question.
    """
    good = ~sample.bad
    settled = int((sample.settled & good).sum())
    unsettled = int(good.sum()) - settled
    lowest, highest = (bound(sample.lowest), bound(sample.highest)) if unsettled else (value, value)
    bounds = (None, None) if lowest is None or highest is None else counts.bounds(lowest, highest)
    figures = [None if each is None else counts.success(each) for each in (value, low, high)]
    return SuccessShare(figures[0], figures[1], figures[2], bounds[0], bounds[1], settled, unsettled, *judged)
