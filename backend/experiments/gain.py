"""The gain of labels, with intervals over both the questions and the training seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.crossed import crossed_mean
from blindspot.backend.core.units import Units
from blindspot.backend.text.counting import counted

MIN_SEEDS, LEAST_QUESTIONS = 3, 30
Verdict = Literal["worth it", "not worth it", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of the last labels. before, after: number of labels. difference: of Success@k, in shares of 1, with
    its interval.
    """

    before: int
    after: int
    difference: Estimate
    seeds: int
    unit: str = "question"

    @classmethod
    def of(
        cls, before: int, after: int, found_before: np.ndarray, found_after: np.ndarray, units: Units | None = None
    ) -> Gain:
        """Compute the gain from found (s, q) bool of the same seeds and questions, before and after."""
        found_before, found_after = np.asarray(found_before), np.asarray(found_after)
        if found_before.shape != found_after.shape:
            raise ValueError(
                f"found {found_before.shape} and {found_after.shape} must have the same seeds and questions"
            )
        codes, name = (None, "question") if units is None else (units.codes, units.name)
        gained = crossed_mean(found_after.astype(float) - found_before, codes, signed=True)
        return cls(before, after, gained, len(found_after), name)

    def per_hundred(self, share: float) -> float:
        """Return percentage points for every hundred labels, from a difference in shares of 1."""
        return 100 * share * 100 / (self.after - self.before)

    def verdict(self, worth: float) -> tuple[Verdict, str]:
        """Return (verdict, one sentence).

        The next hundred labels are worth it if the whole interval of the last labels' gain, for every hundred, is at or
        above `worth` percentage points. They are not worth it if the whole interval is below. Otherwise the verdict is
        inconclusive. This assumes that the next labels gain as much as the last labels.
        """
        labels, found = self.after - self.before, self.difference
        if labels < 1:
            return "inconclusive", "Inconclusive: the last two budgets have the same labels."
        few = [
            f"{counted(count, what)} (at least {least} needed)"
            for count, what, least in ((self.seeds, "seed", MIN_SEEDS), (found.n_units, self.unit, LEAST_QUESTIONS))
            if count < least
        ]
        if few:
            return (
                "inconclusive",
                f"Inconclusive: only {' and '.join(few)}.",
            )
        assert (
            found.value is not None and found.low is not None and found.high is not None
        )  # enough seeds and questions
        low, high = self.per_hundred(found.low), self.per_hundred(found.high)
        message = (
            f"the last {labels:,} labels changed Success@k by {100 * found.value:+.1f} points (95%: "
            f"{100 * found.low:+.1f} to {100 * found.high:+.1f}), that is {self.per_hundred(found.value):+.2f} "
            f"points per hundred labels ({low:+.2f} to {high:+.2f}); a gain of {worth:g} is worth it."
        )
        if low >= worth:
            return "worth it", f"The next hundred labels are worth it: {message}"
        if high < worth:
            return "not worth it", f"The next hundred labels are not worth it: {message}"
        return "inconclusive", f"Inconclusive: {message}"
