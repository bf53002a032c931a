"""An upper bound on the share of hits, such as false negatives, in a finite set, valid after any number of labels.

The method is betting (Waudby-Smith and Ramdas 2024, section 4, for sampling without replacement; Shekhar, Xu, Lipton,
Liang and Ramdas 2023, "Risk-limiting financial audits via weighted sampling without replacement"). People judge pairs
one after another. Each pair is drawn with a probability proportional to its weight. To test the hypothesis "the share
is m", an imaginary bettor multiplies their wealth at each draw by 1 + stake * (m - estimate). The bettor chooses the
stake before the draw, and the expected value of the estimate is the true share. If the hypothesis is true, the wealth
is a martingale. By Ville's inequality, the probability that it ever reaches 1 / (1 - level) is then at most 1 - level.
The bound is the smallest share such that this share and every larger one are rejected. The bound holds at all numbers
of draws at once, so people may look at it, stop and continue as they like.

A judge's chances (its probabilities that a pair is a hit) can make the bound tighter. The estimate at a draw of pair i,
given the earlier draws, is

    (known hits + c * chances of the pairs left + (hit_i - c * chance_i) / probability_i) / population

Its expected value is the true share, whatever the chances are. Good chances reduce its variance (as a control variate),
and weights that grow with the chances draw the risky pairs first. Bad chances increase its variance: more labels are
then needed, but the bound stays valid.

Hits that people find are then removed from the set. Let U be the upper bound on the share of hits before the removal.
At most U * population - found hits are then left among the remaining pairs. So the remaining set meets a target if U is
at most `share_at_target(found, target, population)`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.intervals import LEVEL
from blindspot.analysis.weighted_draws import Cells

COEFFICIENTS = (0.0, 0.5, 1.0)
"""The possible values of c, the weight of the chances as a control variate."""
BETTORS = ((0.7, 1), (0.3, 3))
"""For each bettor, the share of the wealth that it starts with, and its horizon as a multiple of the plan's."""
LARGEST_STAKE = 0.98
"""The largest stake, as a share of the stake at which one draw could lose the whole wealth."""
PLAN_WEIGHT = 40
"""The plan counts as this many draws in the variances that determine the stakes."""
LOOK = 10
_BISECTIONS = 40
_HALF_LOG_TAU = 0.9189385332046727


@dataclass(frozen=True)
class Bets:
    """The stakes and estimates of r studies at each of n draws.

    Attributes:
        stakes, estimates: (bettors, r, n) float64. hits: (r, n) float64, hits up to and with each draw.
        population: number of pairs in the set.
    """

    stakes: np.ndarray
    estimates: np.ndarray
    hits: np.ndarray
    population: int

    def log_wealth(self, shares: np.ndarray, n: int | None = None) -> np.ndarray:
        """Return the highest log wealth reached so far in the test of each study's share, after n draws. (r,) -> (r,)."""
        against = np.asarray(shares)[None, :, None]
        factors = 1 + self.stakes[:, :, :n] * (against - self.estimates[:, :, :n])
        logs = np.cumsum(np.log(np.maximum(factors, 1e-300)), axis=2)
        begun = np.log([share for share, _ in BETTORS])[:, None, None]
        combined: np.ndarray = np.logaddexp.reduce(logs + begun, axis=0).max(axis=1, initial=0.0)
        return combined

    def upper_bounds(self, n: int | None = None, confidence: float = LEVEL) -> np.ndarray:
        """Return the upper bound of each study on the share of hits in the whole set after n draws, (r,) float64."""
        needed = math.log(1 / (1 - confidence))
        low, high = np.zeros(self.stakes.shape[1]), np.ones(self.stakes.shape[1])
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            rejected = self.log_wealth(middle, n) >= needed
            low, high = np.where(rejected, low, middle), np.where(rejected, middle, high)
        return high

    def hits_among(self, n: int) -> np.ndarray:
        """Return the number of hits among the first n draws, (r,)."""
        return self.hits[:, n - 1] if n else np.zeros(len(self.hits))


def bet_against_hits(
    hits: np.ndarray, draws: np.ndarray, cells: Cells, target: float, horizon: int, confidence: float = LEVEL
) -> Bets:
    """Test after each draw whether the share of hits is below the target, for several studies at once.

    The stake is the one that hedges a digital option that pays 1 / (1 - level) at the horizon. It rises when the wealth
    is too low shortly before the horizon. It needs about half as many draws as stakes that maximise growth (compare
    Voracek and Orabona 2025, "STaR-Bets"). The coefficient c is the candidate with the smallest variance. Stake and
    coefficient depend only on the plan and on earlier draws, so the bounds are valid for any values of them.

    Args:
        hits: (r, n) bool or 0 and 1, in the order of the draws. draws: (r, n) cell of each draw.
        target: the share that the stakes are best against; the bounds hold for every share.
        horizon: number of draws at which the target is to be met.
    """
    hits = np.asarray(hits, np.float64)
    studies, n = hits.shape
    size = cells.size
    coefficients = np.array(COEFFICIENTS if np.ptp(cells.chances) > 0 else COEFFICIENTS[:1])
    largest = ((1 - coefficients[:, None] * cells.chances) / cells.weights).max(axis=1)  # of (1 - c chance) / weight
    bettors = [
        _Bettor(cells, coefficients, studies, target, horizon * times, share, confidence) for share, times in BETTORS
    ]
    known, rest = np.zeros(studies), np.full(studies, float(cells.counts @ cells.chances))
    weight = np.full(studies, float(cells.counts @ cells.weights))
    stakes, estimates = np.empty((len(bettors), studies, n)), np.empty((len(bettors), studies, n))
    for step in range(n):
        chance, own = cells.chances[draws[:, step]], cells.weights[draws[:, step]]
        base = (known[:, None] + rest[:, None] * coefficients) / size
        most = base + largest * weight[:, None] / size  # no estimate of this draw is above it
        stake = [bettor.next_stakes(step, most) for bettor in bettors]
        estimate = base + (hits[:, step, None] - chance[:, None] * coefficients) * (weight / own)[:, None] / size
        known = known + hits[:, step]
        rest, weight = rest - chance, weight - own
        for place, bettor in enumerate(bettors):
            stakes[place, :, step] = stake[place]
            estimates[place, :, step] = bettor.learn(stake[place], estimate, known)
    return Bets(stakes, estimates, np.cumsum(hits, axis=1), size)


class _Bettor:
    """Chooses the coefficient and the stake of each draw from the plan and the earlier draws."""

    def __init__(
        self,
        cells: Cells,
        coefficients: np.ndarray,
        study_count: int,
        target: float,
        horizon: int,
        share: float,
        confidence: float,
    ):
        self.target, self.horizon, self.size = target, horizon, cells.size
        self.tail = math.log((1 - confidence) * share)  # log of 1 / the wealth that rejects
        mean, variance = planned_moments(cells, coefficients)
        self.sums = np.repeat(PLAN_WEIGHT * mean[None], study_count, axis=0)  # (r, coefficients)
        self.squares = np.repeat(PLAN_WEIGHT * (variance + mean**2)[None], study_count, axis=0)
        self.count = float(PLAN_WEIGHT)
        self.wealth, self.slope = (
            np.zeros(study_count),
            np.zeros(study_count),
        )  # log wealth against the target, its derivative
        self.against = np.full(study_count, target)
        self.rows = np.arange(study_count)
        self.choice = np.zeros(study_count, np.int64)

    def next_stakes(self, step: int, maximum: np.ndarray) -> np.ndarray:
        """Return the stakes of the next draw, (r,). maximum: (r, coefficients), upper bounds of the next estimate."""
        while self.horizon <= step:
            self.horizon *= 2
        variance = np.maximum(self.squares / self.count - (self.sums / self.count) ** 2, 1e-12)
        self.choice = variance.argmin(axis=1)
        spread = np.sqrt(variance[self.rows, self.choice] * (self.horizon - step))
        result: np.ndarray = np.minimum(
            hedge(self.wealth, self.tail, spread), LARGEST_STAKE / maximum[self.rows, self.choice]
        )
        return result

    def learn(self, stakes: np.ndarray, estimate: np.ndarray, label: np.ndarray) -> np.ndarray:
        """Update with a draw and return the estimate that the bet used, (r,). estimate: (r, coefficients). labelled:
        (r,).
        """
        chosen: np.ndarray = estimate[self.rows, self.choice]
        self.sums += estimate
        self.squares += estimate**2
        self.count += 1
        factor = 1 + stakes * (self.against - chosen)
        self.wealth += np.log(factor)
        self.slope += stakes / factor
        now = share_at_target(label, self.target, self.size)
        self.wealth += self.slope * (now - self.against)  # to first order; it steers the stakes alone
        self.against = now
        return chosen


def hedge(wealth: np.ndarray, tail_probability: np.ndarray | float, deviation: np.ndarray) -> np.ndarray:
    """Return the stake that hedges a digital option that pays 1 / (1 - level) at the horizon.

    Args:
        wealth: log of the bettor's wealth, begun at 0. tail_probability: log of 1 / the wealth that rejects. deviation: standard
        deviation of the sum of the estimates from now to the horizon.
    """
    from scipy.special import log_ndtr, ndtri_exp

    z = ndtri_exp(np.minimum(wealth + tail_probability, math.log(0.9)))
    result: np.ndarray = np.exp(-(z**2) / 2 - _HALF_LOG_TAU - log_ndtr(z)) / deviation
    return result


def planned_moments(cells: Cells, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the variance of the first draw's estimate for each coefficient, assuming that the chances are
    right.
    """
    size = cells.size
    total = float(cells.counts @ cells.weights)
    probability = cells.counts * cells.weights / total
    scale = total / (cells.weights * size)
    first, second = np.zeros(len(coefficients)), np.zeros(len(coefficients))
    for hit, chance in ((1, cells.chances), (0, 1 - cells.chances)):
        estimate = coefficients[:, None] * cells.mean_chance + (hit - coefficients[:, None] * cells.chances) * scale
        first += estimate @ (probability * chance)
        second += estimate**2 @ (probability * chance)
    return first, np.maximum(second - first**2, 0.0)


def share_at_target(found_hits: np.ndarray | float, target: float, population: int) -> np.ndarray:
    """Return the share of hits in the whole set at which the share is exactly `target` after the found hits are
    removed.
    """
    return np.asarray((target * (population - found_hits) + found_hits) / population)


def remaining_share(share: float, found_hits: int, population: int) -> float:
    """Return the share of hits, at most 1, that is left when the found hits are removed from a set with this share."""
    left = population - found_hits
    return min(1.0, max(0.0, share * population - found_hits) / left) if left else 0.0


def stopping_times(bets: Bets, target: float, confidence: float = LEVEL, check_interval: int = LOOK) -> np.ndarray:
    """Return the number of draws after which each study's set, without its found hits, meets the target, (r,).

    The bound is checked every `check_interval` draws. The result is inf for a study that never meets the target.
    """
    studies, n = bets.stakes.shape[1:]
    times = np.full(studies, np.inf)
    for seen in [*range(check_interval, n, check_interval), n]:
        waiting = np.flatnonzero(np.isinf(times))
        if not len(waiting):
            break
        part = Bets(bets.stakes[:, waiting], bets.estimates[:, waiting], bets.hits[waiting], bets.population)
        wealth = part.log_wealth(share_at_target(part.hits_among(seen), target, bets.population), seen)
        times[waiting[wealth >= math.log(1 / (1 - confidence))]] = seen
    return times
