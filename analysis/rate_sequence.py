"""An interval of the share of hits, such as false negatives, in a finite set, valid after any number of labels.

Such an interval is a confidence sequence: the intervals after 1, 2, 3 ... labels cover the true share all together with
the stated probability. So people may look after each label and stop when they like; an interval for a fixed sample size
that is looked at again and again covers far less often than it says.

The method is betting (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting", sections
4 and 5; weighted draws: Shekhar, Xu, Lipton, Liang and Ramdas 2023). Pairs are drawn one after another without
replacement, with probabilities proportional to their weights. The estimate at a draw of pair i,

    (known hits + chances of the pairs left + (hit_i - chance_i) / probability_i) / population,

has the true share as its mean, whatever the chances are. Against the hypothesis "the share is m", one bettor multiplies
their wealth by 1 + stake * (m - estimate) at each draw, another by 1 + stake * (estimate - m). If the hypothesis is
true, the mean of their wealth is a martingale, and by Ville's inequality it ever reaches 1 / (1 - level) with a
probability of at most 1 - level. The interval holds the shares that are not rejected.

Chances and stakes of a draw follow from earlier draws alone. The chance of a cell of pairs starts at its suspicion and
moves to the share of hits among the cell's drawn pairs. Good suspicions make intervals shorter; bad ones cost labels
and never validity.

Shares between two points of the grid count as rejected if the bettor against too low a rate, with the stakes of the
point below, and the bettor against too high a rate, with the stakes of the point above, reject them together. Both
wealths are monotone in the share, so this holds for each share in between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.certificates import LARGEST_STAKE, hedge
from blindspot.analysis.exact_bounds import LEVEL
from blindspot.analysis.weighted_draws import Cells

GRID = np.unique(np.concatenate([np.linspace(0, 0.06, 31), np.linspace(0.06, 0.2, 71), np.linspace(0.2, 0.4, 51), np.linspace(0.4, 1, 31)]).round(9))
HORIZONS = ((0.5, 150), (0.5, 300))
"""Share of the wealth that bettors begin with, and the number of labels at which they are best."""
H0=True
EXPECTED, EXPECTED_WEIGHT = 0.08, 10.0
"""The share of hits that is expected before any label, and how many labels that counts as."""
OWN_WEIGHT = 10.0
"""A cell's suspicion counts as much as this many labels of the cell."""


@dataclass(frozen=True)
class RateSequence:
    """The intervals of r studies after each of n draws.

    Attributes:
        low, high: (r, n) float64, the shares that were never rejected so far lie between them. estimate: (r, n)
        float64, within them.
    """

    low: np.ndarray
    high: np.ndarray
    estimate: np.ndarray

    @property
    def half_width(self) -> np.ndarray:
        """(r, n) float64."""
        result: np.ndarray = (self.high - self.low) / 2
        return result


def below_share(m):
    return np.full(len(m), .5)

def rate_sequence(hits: np.ndarray, drawn: np.ndarray, cells: Cells, level: float = LEVEL, horizons=HORIZONS, share_fn=below_share, grid=GRID) -> RateSequence:
    hits = np.asarray(hits, np.float64)
    studies, n = hits.shape
    size = cells.size
    g = grid
    below, above = g[:-1], g[1:]
    a = share_fn((below+above)/2)
    K = len(horizons)
    logw = np.zeros((K, 2, studies, len(below)))
    start = np.log(np.array([[s*a, s*(1-a)] for s, _ in horizons]))  # K,2,G
    tails = math.log(1-level) + start
    counts = np.repeat(cells.counts[None].astype(float), studies, axis=0)
    ncell = len(cells.counts)
    seen = np.zeros((studies, ncell)); found = np.zeros((studies, ncell))
    shape = cells.chances / cells.mean_chance if cells.mean_chance else np.ones(ncell)
    total = np.zeros(studies); kn = np.zeros(studies)
    lo = np.zeros(studies); hi = np.ones(studies)
    low = np.empty((studies, n)); high = np.empty((studies, n)); est = np.empty((studies, n))
    rows = np.arange(studies)
    alive = np.ones((studies, len(below)), bool)
    for t in range(n):
        # chances
        expected_hits = seen @ shape
        rate = (kn + EXPECTED*EXPECTED_WEIGHT) / (expected_hits + EXPECTED_WEIGHT)
        base = np.clip(rate[:, None]*shape, 1e-5, .95)
        chance = (found + OWN_WEIGHT*base)/(seen+OWN_WEIGHT)
        W = counts @ cells.weights
        s = W[:, None]/(cells.weights*size)
        q = counts*cells.weights/W[:, None]
        var = np.maximum((q*s**2*chance*(1-chance)).sum(1), 1e-9)
        centre = (kn + (counts*chance).sum(1))/size
        left = counts > 0
        most = centre + np.where(left, (1-chance)*s, -np.inf).max(1)
        least = centre - np.where(left, chance*s, -np.inf).max(1)
        c = drawn[:, t]
        x = centre + (hits[:, t]-chance[rows, c])*s[rows, c]
        for k, (_, T) in enumerate(horizons):
            while T <= t: T *= 2
            mean = np.clip((counts*chance).sum(1)/counts.sum(1), 1e-4, .999)[:, None]
            mean = mean*(1-mean)
            ratio = lambda m: np.clip(m*(1-m)/mean, .25, 4) if H0 else 1.
            spread = np.sqrt(var*(T-t))[:, None]*np.sqrt(ratio(below))
            st = np.minimum(hedge(logw[k,0], tails[k,0], spread), LARGEST_STAKE/np.maximum(most[:, None]-below, 1e-9))
            logw[k,0] += np.log(1+st*(below-x[:, None]))
            spread = np.sqrt(var*(T-t))[:, None]*np.sqrt(ratio(above))
            st = np.minimum(hedge(logw[k,1], tails[k,1], spread), LARGEST_STAKE/np.maximum(above-least[:, None], 1e-9))
            logw[k,1] += np.log(1+st*(x[:, None]-above))
        kn += hits[:, t]; found[rows, c]+=hits[:, t]; seen[rows, c]+=1; counts[rows, c]-=1
        tot = np.logaddexp.reduce(np.logaddexp.reduce(logw + start[:, :, None, :], axis=0), axis=0)
        alive &= tot < -math.log(1-level)
        first = alive.argmax(1); last = alive.shape[1]-1-alive[:, ::-1].argmax(1)
        low[:, t] = below[first]; high[:, t]=above[last]
        est[:, t] = centre
    return RateSequence(low, high, est)
