"""The rule by which one training set is said to be better than another, written down before anything was trained.

- Measured is Success@1 over held-out questions: in collections this small, 5 and 20 leave few questions to gain (on the encyclopedia
  of seed 0 the start model finds 94% at 5 before any training).
- A difference is paired: the same questions, the same seeds of training, and its interval lets both vary (t quantiles of both).
- An order of several sets is several claims, so their intervals are at 1 - 0.05 / claims (Bonferroni).
- With fewer than 3 seeds there is NO CLAIM, whatever the figures.
- "shows": the whole interval lies above 0. "does not show": the whole interval lies below 1 percentage point, so that a gain worth
  having is ruled out. Else "cannot tell".
- An order shows where all of its claims do; it does not show where one of them does not; else one cannot tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from analysis.accuracy import Estimate
from backend.experiments.gain import LEAST_SEEDS, crossed_mean

K = 1
WORTH = 0.01
ALPHA = 0.05
Verdict = Literal["shows", "does not show", "cannot tell", "no claim"]


@dataclass(frozen=True, slots=True)
class Claim:
    """That training on `better` gives more than on `worse`. difference: of Success, in shares of 1."""

    worse: str
    better: str
    difference: Estimate
    verdict: Verdict


def claims(order: Sequence[tuple[str, str]], found: Mapping[str, np.ndarray]) -> list[Claim]:
    """Judge each pair (worse, better). found: by training set (s, q) bool, of the same seeds and questions everywhere."""
    made = []
    for worse, better in order:
        before, after = (np.asarray(found[name], np.float64) for name in (worse, better))
        if before.shape != after.shape:
            raise ValueError(
                f"{worse} {before.shape} and {better} {after.shape} must be of the same seeds and questions"
            )
        difference = crossed_mean(after - before, level=1 - ALPHA / len(order))
        made.append(Claim(worse, better, difference, verdict(difference, len(after))))
    return made


def verdict(difference: Estimate, seeds: int) -> Verdict:
    if seeds < LEAST_SEEDS or difference.value is None:
        return "no claim"
    if difference.low > 0:
        return "shows"
    return "does not show" if difference.high < WORTH else "cannot tell"


def of_order(made: Sequence[Claim]) -> Verdict:
    found = {claim.verdict for claim in made}
    if "no claim" in found or not found:
        return "no claim"
    if found == {"shows"}:
        return "shows"
    return "does not show" if "does not show" in found else "cannot tell"
