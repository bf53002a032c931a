"""The rule that decides whether one training set is better than another, fixed before the first training.

- The measure is Success@1 over held-out questions. In collections this small, 5 and 20 leave few questions to gain (on
  the encyclopedia of seed 0 the start model finds 94% at 5 before any training).
- A difference is paired: the same questions and the same training seeds. Its interval lets both vary (t quantiles of
  both).
- An order of several sets is several claims, so their intervals are at 1 - 0.05 / claims (Bonferroni).
- With fewer than 3 seeds there is NO CLAIM, whatever the figures.
- "supported": the whole interval is above 0. "not supported": the whole interval is below 1 percentage point, which
  rules out a gain worth having. Otherwise "inconclusive".
- An order is supported if all its claims are; it is not supported if one of them is not; otherwise it is inconclusive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.crossed import crossed_mean
from blindspot.backend.experiments.plan import MIN_SEEDS

K = 1
WORTH = 0.01
ALPHA = 0.05
Verdict = Literal["supported", "not supported", "inconclusive", "no claim"]


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim that training on `better` gives higher success than training on `worse`. difference: of success, in
    shares of 1.
    """

    worse: str
    better: str
    difference: Estimate
    verdict: Verdict


def claims(order: Sequence[tuple[str, str]], found: Mapping[str, np.ndarray]) -> list[Claim]:
    """Judge each pair (worse, better).
    found: by training set (s, q) bool, of the same seeds and questions everywhere."""
    made = []
    for worse, better in order:
        before, after = (np.asarray(found[name], np.float64) for name in (worse, better))
        if before.shape != after.shape:
            raise ValueError(
                f"{worse} {before.shape} and {better} {after.shape} must have the same seeds and questions"
            )
        difference = crossed_mean(after - before, confidence=1 - ALPHA / len(order))
        made.append(Claim(worse, better, difference, verdict(difference, len(after))))
    return made


def verdict(difference: Estimate, seeds: int) -> Verdict:
    if seeds < MIN_SEEDS or difference.value is None:
        return "no claim"
    if difference.low > 0:
        return "supported"
    return "not supported" if difference.high < WORTH else "inconclusive"


def of_order(made: Sequence[Claim]) -> Verdict:
    found = {claim.verdict for claim in made}
    if "no claim" in found or not found:
        return "no claim"
    if found == {"supported"}:
        return "supported"
    return "not supported" if "not supported" in found else "inconclusive"
