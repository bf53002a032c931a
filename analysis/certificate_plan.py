"""Plan a certificate: with which weights the pairs are drawn, how many draws it is expected to need, and how many more are
needed after some. Nothing here changes whether the bound of `certificates.py` is valid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from blindspot.analysis.certificates import COEFFICIENTS, LOOK, bet_against_hits, planned_moments, stopping_times
from blindspot.analysis.intervals import LEVEL
from blindspot.analysis.weighted_draws import Cells, log_odds, simulated_draws

UNEXPLAINED = 0.1
"""Share of the hits that the plan assumes to be spread evenly over all pairs, whatever their chances."""
HIGHEST_PLANNED = 0.8
"""The plan assumes at most this share of the target; with more hits no number of draws could meet the target."""
POWER = 0.8
SIMULATED = 64
LONGEST = 2000
ROOM = 1.5
"""The horizon of the stakes, as a multiple of the planned draws: a horizon that is too long costs less than one that is
too short.
"""
FEWEST_PILOT_HITS = 8
UNIFORM = 0.35
"""Share of each weight that is the same for all pairs; the rest is proportional to the square root of the chance, which
is close to the standard deviation of a hit.
"""


@dataclass(frozen=True)
class SamplingPlan:
    """A plan of the draws, and the number of draws that it is expected to need.

    Attributes:
        cells: With the weights to draw with. draws: Number of draws at which `POWER` of the simulated studies meet the
        target, if `enough`; else the most that were tried. median: Draws after which half of them do; None if fewer do.
        rate: Share of hits that the plan expects. capped: Whether the chances promised more than the plan expects.
    """

    cells: Cells
    draws: int
    enough: bool
    median: int | None
    rate: float
    capped: bool

    @property
    def horizon(self) -> int:
        """The horizon of the stakes."""
        return horizon_of(self.draws)


def horizon_of(draws: int) -> int:
    """Return the horizon of the stakes for a planned number of draws."""
    return max(1, math.ceil(ROOM * draws))


def plan(
    cells: Cells, target: float, seed: int = 0, confidence: float = LEVEL, max_draws: int = LONGEST
) -> SamplingPlan:
    """Choose the weights and the number of draws. A normal approximation gives a first number of draws; simulation then
    corrects it.

    Args:
        cells: With the chances that are known; see `pilot_chances`.
        target: Share of hits to certify.
    """
    planned, capped = expected_estimates(cells, target)
    risk = np.sqrt(planned.chances)
    design = replace(planned, weights=UNIFORM + (1 - UNIFORM) * risk / (planned.counts @ risk / planned.size))
    guess = _approximate_draws(design, target)
    max_draws, times = min(max_draws, cells.size), np.full(SIMULATED, np.inf)
    draws = max_draws
    for factor in (0.6, 0.75, 0.9, 1.1, 1.35, 1.7, 2.2, 3.0, 4.0):
        draws = min(max_draws, math.ceil(guess * factor / LOOK) * LOOK)
        times = simulated_stopping_times(design, target, draws, seed, confidence)
        if (times <= draws).mean() >= POWER or draws == max_draws:
            break
    median = float(np.quantile(times, 0.5, method="higher"))
    return SamplingPlan(
        design,
        draws,
        bool((times <= draws).mean() >= POWER),
        None if math.isinf(median) else int(median),
        planned.mean_chance,
        capped,
    )


def expected_estimates(cells: Cells, target: float) -> tuple[Cells, bool]:
    """Return the cells with the chances that the plan assumes, and whether the chances were scaled down.

    Some hits lie where no chance is high. The plan assumes a share of hits of at least half the target. With a smaller
    share it would end too soon if the chances miss hits; a plan that is too long costs little.
    """
    mean = cells.mean_chance
    lowest, highest = target / 2, HIGHEST_PLANNED * target
    shape = cells.chances / mean if mean else np.ones(len(cells.counts))
    chances = min(max(mean, lowest), highest) * ((1 - UNEXPLAINED) * shape + UNEXPLAINED)
    return replace(cells, chances=np.clip(chances, 1e-6, 0.95)), mean > highest


def _approximate_draws(cells: Cells, target: float) -> float:
    """Return roughly how many draws are needed to meet the target, from the variance and the range of the estimates."""
    coefficients = np.array(COEFFICIENTS)
    mean, variance = planned_moments(cells, coefficients)
    best = int(variance.argmin())
    gap = max(target - float(mean[best]), 1e-9)
    largest = float(((1 - coefficients[best] * cells.chances) / cells.weights).max())
    reach = float(mean[best]) + largest * float(cells.counts @ cells.weights) / cells.size
    return max(2.65**2 * float(variance[best]) / gap**2, 3.0 * reach / target)  # 96.5% and 80% of the normal curve


def simulated_stopping_times(
    cells: Cells, target: float, draws: int, seed: int, confidence: float = LEVEL
) -> np.ndarray:
    """Return the number of draws after which each simulated study meets the target, inf if it never does. (SIMULATED,)
    float64.
    """
    rng = np.random.default_rng(seed)
    drawn = simulated_draws(cells, draws, SIMULATED, rng)
    hits = rng.random(drawn.shape) < cells.chances[drawn]
    return stopping_times(
        bet_against_hits(hits, drawn, cells, target, horizon_of(draws), confidence), target, confidence
    )


def fewest_draws(cells: Cells, target: float, confidence: float = LEVEL, seed: int = 0) -> int:
    """Return roughly the minimum number of draws that can meet the target: if no draw is a hit and every stake is the
    largest allowed.
    """
    n = min(cells.size, math.ceil(10 * math.log(1 / (1 - confidence)) / target))
    drawn = simulated_draws(cells, n, 8, np.random.default_rng(seed))
    made = bet_against_hits(np.zeros(drawn.shape), drawn, cells, target, 1, confidence)
    times = stopping_times(made, target, confidence, check_interval=1)
    return int(min(times.min(), cells.size))


def further_draws(
    hits: np.ndarray, draws: np.ndarray, cells: Cells, target: float, horizon: int, confidence: float = LEVEL
) -> int | None:
    """Return how many more draws are needed so that `POWER` of the simulated continuations meet the target; None if no
    number that was tried is enough.

    The chances are first scaled to the number of hits found so far.

    Args:
        hits: (n,) in the order of the draws. draws: (n,) their cells.
    """
    counts = np.maximum(cells.counts - np.bincount(draws, minlength=len(cells.counts)), 0)
    scale = (float(np.sum(hits)) + 1) / (float(cells.chances[draws].sum()) + 1)
    chances = np.clip(cells.chances * scale, 0, 0.95)
    rest = Cells(counts, chances, cells.weights)
    rng = np.random.default_rng(0)
    for more in (25, 50, 100, 200, 400, 800, 1600):
        more = min(more, rest.size)
        after = simulated_draws(rest, more, SIMULATED, rng)
        before = np.repeat(draws[None], SIMULATED, axis=0)
        outcomes = np.concatenate(
            [np.repeat(hits[None], SIMULATED, axis=0), rng.random(after.shape) < chances[after]], axis=1
        )
        made = bet_against_hits(outcomes, np.concatenate([before, after], axis=1), cells, target, horizon, confidence)
        times = np.maximum(stopping_times(made, target, confidence), len(hits)) - len(hits)
        found = float(np.quantile(times, POWER, method="higher"))
        if not math.isinf(found):
            return max(1, int(found))
        if more == rest.size:
            break
    return None


def pilot_chances(
    scores: np.ndarray, answers: np.ndarray, pilot: np.ndarray, hits: np.ndarray
) -> tuple[np.ndarray, bool]:
    """Return each pair's chance, learned on a pilot sample from the judge's score and the answer match, and whether it
    could be learned.

    The pilot need not be a random sample: it can make the plan better or worse, but the bound stays valid. If the pilot
    has fewer than `FEWEST_PILOT_HITS` hits, or fewer than that many other pairs, the judge's scores are used as
    chances.

    Args:
        scores: (n,) float64, NaN where the judge gave none. answers: (n,) float64, 1 where the passage contains an
        answer, 0 where it does not or where that is unknown. pilot: places of the pairs that people settled.
        hits: whether each of these is a hit.
    """
    from sklearn.linear_model import LogisticRegression

    known = np.isfinite(scores)
    filled = np.where(known, scores, float(scores[known].mean()) if known.any() else 0.5)
    if min(int(hits.sum()), int((~hits).sum())) < FEWEST_PILOT_HITS:
        return np.where(known, scores, np.nan), False
    table = np.stack([log_odds(filled), answers], axis=1)
    model = LogisticRegression().fit(table[pilot], hits)
    chances: np.ndarray = model.predict_proba(table)[:, 1]
    return chances, True
