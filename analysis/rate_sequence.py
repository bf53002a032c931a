"""A confidence interval for the share of hits, such as false negatives, in a finite set, valid after any number of
labels.

This is a confidence sequence: with the stated probability, all the intervals after 1, 2, 3 ... labels contain the true
share. People may therefore look at the interval after each label and stop when they like. An interval for a fixed
sample size, looked at again and again, would contain the true share far less often than it claims.

The method is betting (Waudby-Smith and Ramdas 2024, "Estimating means of bounded random variables by betting", sections
4 and 5; weighted draws: Shekhar, Xu, Lipton, Liang and Ramdas 2023). People judge pairs one after another. Pairs are
drawn without replacement, each with a probability proportional to its weight. The estimate at a draw of pair i,

    (known hits + chances of the pairs left + (hit_i - chance_i) / probability_i) / population,

has the true share as its expected value, whatever the chances (predicted probabilities of a hit) are. To test the
hypothesis "the share is m", one imaginary bettor multiplies their wealth by 1 + stake * (m - estimate) at each draw,
and another by 1 + stake * (estimate - m). If the hypothesis is true, the mean of the two wealths is a martingale. By
Ville's inequality, the probability that it ever reaches 1 / (1 - level) is then at most 1 - level. The interval
contains the shares that are not rejected.

The chances and the stakes of a draw depend on earlier draws only. The chance of a cell of pairs starts at the value
given for it. With each draw from the cell it moves towards the share of hits among the cell's drawn pairs. Good
starting values make the intervals shorter. Bad ones make more labels necessary, but the interval stays valid.

Only the shares on a grid are tested. A share between two grid points is rejected if two bettors together reject it: the
one who bets that the share is lower, with the stakes of the lower grid point, and the one who bets that it is higher,
with the stakes of the higher grid point. Both wealths are monotone in the share, so this rejects every share in
between.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.intervals import LEVEL
from blindspot.analysis.weighted_draws import Cells

GRID = np.unique(
    np.concatenate(
        [np.linspace(0, 0.06, 31), np.linspace(0.06, 0.2, 71), np.linspace(0.2, 0.4, 51), np.linspace(0.4, 1, 31)]
    ).round(9)
)
HORIZONS = ((0.45, 150), (0.55, 300))
"""For each horizon, the share of the wealth that its bettors start with, and the number of labels for which their
stakes are best.
"""
CLEAN, AGAINST_CLEAN = 0.03, 0.85
"""For shares up to `CLEAN`, this much of the wealth bets that the share is lower; a statement such as "at most 2%"
needs it.
"""
EXPECTED, EXPECTED_WEIGHT = 0.08, 10.0
"""The share of hits by which the first draws are bet on, and the number of labels that this assumption counts as. The
estimate does not use it: with it, shares of 20% and 40% came out 1 and 5 points low after 100 labels.
"""
OWN_WEIGHT = 10.0
"""The starting chance of a cell counts as much as this many labels of the cell."""
SIMULATED = 60
"""Simulated studies of a forecast."""
_SPREADS = (0.25, 4.0)  # limits of a hypothesis's variance, in multiples of the estimated one
_LEAST_VARIANCE = 1e-9
LARGEST_STAKE = 0.98
"""The largest stake, as a share of the stake at which one draw could lose the whole wealth."""
_HALF_LOG_TAU = 0.9189385332046727


@dataclass(frozen=True)
class RateSequence:
    """The intervals of r studies after each of n draws.

    Attributes:
        low, high: (r, n) float64; between them lie the shares that were never rejected so far.
        estimate: (r, n) float64, the share of hits among the draws of each cell, weighted by the cell's pairs (cells
            without a draw are left out); within the interval.
    """

    low: np.ndarray
    high: np.ndarray
    estimate: np.ndarray

    @property
    def half_width(self) -> np.ndarray:
        """Half the length of each interval, (r, n) float64."""
        result: np.ndarray = (self.high - self.low) / 2
        return result


def rate_sequence(hits: np.ndarray, draws: np.ndarray, cells: Cells, confidence: float = LEVEL) -> RateSequence:
    """Return the interval after each draw, for several studies at once.

    Args:
        hits: (r, n) bool or 0 and 1, in the order of the draws. draws: (r, n) cell of each draw, drawn with the weights
        of `cells`, as `blindspot.analysis.weighted_draws.draw_order` draws.
        cells: The whole set, before any draw. Its chances tell which cells are suspicious; their level is learned.
    """
    hits = np.asarray(hits, np.float64)
    studies, n = hits.shape
    states, bettors = _Cells(cells, studies), _Bettors(studies, confidence)
    low, high, estimate = (np.empty((studies, n)) for _ in range(3))
    for step in range(n):
        outlook = states.next_estimate()
        bettors.set_stakes(step, outlook)
        bettors.learn(states.learn(hits[:, step], draws[:, step]))
        low[:, step], high[:, step] = bettors.interval()
        # Known hits, and drawn pairs that are none, leave only so much room.
        low[:, step] = np.maximum(low[:, step], states.known / cells.size)
        high[:, step] = np.minimum(high[:, step], 1 - (step + 1 - states.known) / cells.size)
        estimate[:, step] = states.weighted_share()
    return RateSequence(low, high, np.clip(estimate, low, high))


def expected_half_widths(
    hits: np.ndarray,
    draws: np.ndarray,
    further_draws: np.ndarray,
    cells: Cells,
    confidence: float = LEVEL,
) -> np.ndarray:
    """Return half-widths (SIMULATED, m) after each of m further draws, in simulated studies that begin as this one did.

    Each simulated study draws the share of hits, and then the rates of its cells, from what the labels so far leave open
    (beta distributions around the share of the draws, and around the chances that follow from it), and the further
    labels from these rates.

    Args:
        hits, draws: (n,) as for `rate_sequence`. further_draws: (m,) cell of each further draw.
    """
    rng, kinds, shape, known = np.random.default_rng(0), len(cells.counts), relative_chances(cells), float(np.sum(hits))
    seen, found = (np.bincount(draws, weights, kinds) for weights in (None, np.asarray(hits, np.float64)))
    share = rng.beta(known + 0.5, len(hits) - known + 0.5, SIMULATED) * len(hits) / (seen @ shape)
    suspected = np.clip(share[:, None] * shape, 1e-5, 0.95)
    weight = OWN_WEIGHT + seen
    chances = (found + OWN_WEIGHT * suspected) / weight
    rates = rng.beta(np.maximum(chances * weight, 1e-6), np.maximum((1 - chances) * weight, 1e-6))
    further = rng.random((SIMULATED, len(further_draws))) < rates[:, further_draws]
    both = np.concatenate([np.tile(np.asarray(hits, bool), (SIMULATED, 1)), further], axis=1)
    order = np.tile(np.concatenate([draws, further_draws]), (SIMULATED, 1))
    return rate_sequence(both, order, cells, confidence).half_width[:, len(hits) :]


def relative_chances(cells: Cells) -> np.ndarray:
    """Return the chance of each cell in multiples of the mean over all pairs, (c,); 1 where all are 0."""
    mean = cells.mean_chance
    return cells.chances / mean if mean else np.ones(len(cells.counts))


def hedge(wealth: np.ndarray, tail_probability: np.ndarray | float, deviation: np.ndarray) -> np.ndarray:
    """Return the stake that hedges a digital option that pays 1 / (1 - level) at the horizon. It needs about half as
    many draws as stakes that maximise growth (compare Voracek and Orabona 2025, "STaR-Bets").

    Args:
        wealth: log of the bettor's wealth, begun at 0. tail_probability: log of 1 / the wealth that rejects. deviation:
        standard deviation of the sum of the estimates from now to the horizon.
    """
    from scipy.special import log_ndtr, ndtri_exp

    z = ndtri_exp(np.minimum(wealth + tail_probability, math.log(0.9)))
    result: np.ndarray = np.exp(-(z**2) / 2 - _HALF_LOG_TAU - log_ndtr(z)) / deviation
    return result


@dataclass(frozen=True)
class _NextEstimate:
    """The mean, the variance and the bounds of the next estimate, given the probabilities of the next draw; (r,) each."""

    mean: np.ndarray
    variance: np.ndarray
    minimum: np.ndarray
    maximum: np.ndarray


class _Cells:
    """The number of undrawn pairs in each cell, and the probability of each cell in the next draw."""

    def __init__(self, cells: Cells, study_count: int):
        self.size, self.weights = cells.size, cells.weights
        self.shape = relative_chances(cells)
        self.counts = cells.counts
        self.left = np.repeat(cells.counts[None].astype(np.float64), study_count, axis=0)
        self.seen, self.found = np.zeros_like(self.left), np.zeros_like(self.left)
        self.known = np.zeros(study_count)
        self.rows = np.arange(study_count)
        self.chances = self._chances()

    def next_estimate(self) -> _NextEstimate:
        """Return the mean, the variance and the bounds of the next estimate."""
        self.chances = self._chances()
        weight = (self.left @ self.weights)[:, None]
        self.scale = weight / (self.weights * self.size)  # 1 / (population * probability) of each cell's pairs
        self.base = self.expected_share()
        own = self.chances * (1 - self.chances)
        variance = (self.left * self.weights / weight * self.scale**2 * own).sum(axis=1)
        is_left = self.left > 0
        least = self.base - np.where(is_left, self.chances * self.scale, 0.0).max(axis=1)
        most = self.base + np.where(is_left, (1 - self.chances) * self.scale, 0.0).max(axis=1)
        return _NextEstimate(self.base, np.maximum(variance, _LEAST_VARIANCE), least, most)

    def learn(self, hits: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Update the cells with a draw, and return its estimate, (r,)."""
        estimate: np.ndarray = self.base + (hits - self.chances[self.rows, draws]) * self.scale[self.rows, draws]
        self.known = self.known + hits
        self.found[self.rows, draws] += hits
        self.seen[self.rows, draws] += 1
        self.left[self.rows, draws] -= 1
        return estimate

    def expected_share(self) -> np.ndarray:
        """Return the expected share of hits, from the known hits and the chances of the pairs left, (r,)."""
        result: np.ndarray = (self.known + (self.left * self.chances).sum(axis=1)) / self.size
        return result

    def weighted_share(self) -> np.ndarray:
        """Return the share of hits among the draws, each cell weighted by its pairs, (r,)."""
        of_seen = np.where(self.seen > 0, self.counts, 0.0)
        result: np.ndarray = (of_seen * self.found / np.maximum(self.seen, 1)).sum(axis=1) / of_seen.sum(axis=1)
        return result

    def _chances(self) -> np.ndarray:
        rate = (self.known + EXPECTED * EXPECTED_WEIGHT) / (self.seen @ self.shape + EXPECTED_WEIGHT)
        suspected = np.clip(rate[:, None] * self.shape, 1e-5, 0.95)
        chances: np.ndarray = (self.found + OWN_WEIGHT * suspected) / (self.seen + OWN_WEIGHT)
        return chances


class _Bettors:
    """Two bettors for each horizon and each piece of the grid (the range between two grid points), and the pieces that
    they have rejected.

    Only pieces that are not yet rejected are computed, those of all studies in one array.
    """

    def __init__(self, study_count: int, confidence: float):
        pieces = len(GRID) - 1
        self.needed = -math.log(1 - confidence)
        self.is_open = np.ones((study_count, pieces), bool)
        self.study, self.piece = np.divmod(np.arange(study_count * pieces), pieces)
        self.horizons = [horizon for _, horizon in HORIZONS]
        against = np.where(GRID[1:] <= CLEAN, AGAINST_CLEAN, 0.5)  # wealth that bets on a lower share
        begun = np.log([share for share, _ in HORIZONS])[:, None, None] + np.log(np.stack([against, 1 - against]))
        self.begun = begun[:, :, self.piece]  # (horizons, 2, open pieces)
        self.wealth = np.zeros_like(self.begun)
        self.stakes = np.zeros_like(self.begun)

    def set_stakes(self, step: int, next_estimate: _NextEstimate) -> None:
        """Choose the stakes of the next draw: they hedge a digital option that pays 1 / (1 - level) at the horizon."""
        low, high = GRID[self.piece], GRID[self.piece + 1]
        estimated = np.clip(next_estimate.mean, 1e-4, 0.999)[self.study]
        variance = next_estimate.variance[self.study]
        sides = (
            (low, LARGEST_STAKE / np.maximum(next_estimate.maximum[self.study] - low, 1e-9)),
            (high, LARGEST_STAKE / np.maximum(high - next_estimate.minimum[self.study], 1e-9)),
        )
        for side, (share, largest) in enumerate(sides):
            # Under the hypothesis the variance is that of its share, not of the estimated one.
            ratio = np.clip(share * (1 - share) / (estimated * (1 - estimated)), *_SPREADS)
            for place, horizon in enumerate(self.horizons):
                while horizon <= step:
                    horizon *= 2
                spread = np.sqrt(variance * (horizon - step) * ratio)
                tail = self.begun[place, side] - self.needed
                self.stakes[place, side] = np.minimum(hedge(self.wealth[place, side], tail, spread), largest)

    def learn(self, estimate: np.ndarray) -> None:
        """Update the wealth of all bettors with the estimate of a draw."""
        drawn = estimate[self.study]
        gains = np.stack([GRID[self.piece] - drawn, drawn - GRID[self.piece + 1]])
        self.wealth += np.log1p(self.stakes * gains)
        logs = (self.wealth + self.begun).reshape(-1, len(self.piece))
        kept = np.logaddexp.reduce(logs, axis=0) < self.needed
        if not kept.all():
            self.is_open[self.study[~kept], self.piece[~kept]] = False
            self.study, self.piece = self.study[kept], self.piece[kept]
            self.begun, self.wealth, self.stakes = (
                values[:, :, kept] for values in (self.begun, self.wealth, self.stakes)
            )

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and the highest end of the pieces that are not rejected, (r,) each; the whole range if all
        are rejected.
        """
        first, last = self.is_open.argmax(axis=1), self.is_open.shape[1] - 1 - self.is_open[:, ::-1].argmax(axis=1)
        return GRID[first], GRID[last + 1]
