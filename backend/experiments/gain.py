"""What was gained, and whether it is more than chance, where both the questions and the seeds of training are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.accuracy import Estimate

RESAMPLES = 2000
VALUES_PER_BLOCK = 1 << 22
LEAST_SEEDS, LEAST_QUESTIONS = 3, 30
Verdict = Literal["worth it", "not worth it", "inconclusive"]


def crossed_mean(values: np.ndarray, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0) -> Estimate:
    """Mean of (s, q) values of s trainings on q questions, with an interval that lets both vary.

    The pigeonhole bootstrap (Owen 2007): seeds and questions are each drawn again, and a value counts as often as its
        seed times
    its question was drawn. It is careful: on average its variance is somewhat too large, never too small by much. With
    one seed the interval knows of the questions alone.

    Returns: an Estimate whose n is the questions; value None where there are none.
    """
    values = np.asarray(values, np.float64)
    seeds, questions = values.shape
    method = f"pigeonhole bootstrap over {seeds} seeds and the questions, {resamples} resamples, seed {seed}"
    if not values.size:
        return Estimate(None, questions, None, None, method)
    rng = np.random.default_rng(seed)
    block = max(1, VALUES_PER_BLOCK // questions)
    drawn = []
    for start in range(0, resamples, block):
        count = min(block, resamples - start)
        of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), count) / seeds
        of_questions = rng.multinomial(questions, np.full(questions, 1 / questions), count) / questions
        drawn.append(((of_seeds @ values) * of_questions).sum(axis=1))
    low, high = np.quantile(np.concatenate(drawn), [(1 - level) / 2, (1 + level) / 2])
    return Estimate(float(values.mean()), questions, float(low), float(high), method)


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of the last labels. before, after: number of labels. difference: of Success@k, in shares of 1, with
    its interval.
    """

    before: int
    after: int
    difference: Estimate
    seeds: int

    @classmethod
    def of(cls, before: int, after: int, found_before: np.ndarray, found_after: np.ndarray) -> Gain:
        """From found (s, q) bool of the same seeds and questions, before and after."""
        found_before, found_after = np.asarray(found_before), np.asarray(found_after)
        if found_before.shape != found_after.shape:
            raise ValueError(
                f"found {found_before.shape} and {found_after.shape} must be of the same seeds and questions"
            )
        return cls(before, after, crossed_mean(found_after.astype(float) - found_before), len(found_after))

    def per_hundred(self, share: float) -> float:
        """Percentage points for every hundred labels, from a difference in shares of 1."""
        return 100 * share * 100 / (self.after - self.before)

    def verdict(self, worth: float) -> tuple[Verdict, str]:
        """(verdict, one sentence).

        The next hundred labels are worth it if the whole interval of the last labels' gain, for every hundred, is at
        or above `worth` percentage points. They are not worth it if the whole interval is below. Otherwise the verdict
        is inconclusive. This assumes that the next labels gain as much as the last did.
        """
        labels, found = self.after - self.before, self.difference
        if labels < 1:
            return "inconclusive", "Inconclusive: the last two budgets hold the same labels."
        few = [
            f"{count:,} {what} of at least {least}"
            for count, what, least in ((self.seeds, "seeds", LEAST_SEEDS), (found.n, "questions", LEAST_QUESTIONS))
            if count < least
        ]
        if few:
            return (
                "inconclusive",
                f"Whether the next hundred labels are worth it is inconclusive: there are {' and '.join(few)}.",
            )
        low, high = self.per_hundred(found.low), self.per_hundred(found.high)
        said = (
            f"the last {labels:,} labels changed it by {100 * found.value:+.1f} points (95%: {100 * found.low:+.1f} to "
            f"{100 * found.high:+.1f}), that is {self.per_hundred(found.value):+.2f} for a hundred ({low:+.2f} to {high:+.2f}), and "
            f"{worth:g} would be worth it."
        )
        if low >= worth:
            return "worth it", f"The next hundred labels are worth it: {said}"
        if high < worth:
            return "not worth it", f"The next hundred labels are not worth it: {said}"
        return "inconclusive", f"Whether the next hundred labels are worth it is inconclusive: {said}"
