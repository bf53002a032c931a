"""Draw pairs one after another without replacement, each with a probability proportional to its weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Cells:
    """A finite population of pairs, grouped into cells; all pairs of a cell have the same probability of being drawn.

    Attributes:
        counts: (c,) int64, pairs. chances: (c,) float64 from 0 to 1, how probable the plan takes a hit to be; also the
        control variate. weights: (c,) float64 above 0, the weight of each pair of the cell.
    """

    counts: np.ndarray
    chances: np.ndarray
    weights: np.ndarray

    @property
    def size(self) -> int:
        return int(self.counts.sum())

    @property
    def mean_chance(self) -> float:
        return float(self.counts @ self.chances / self.counts.sum())


def draw_keys(weights: np.ndarray, seed: int) -> np.ndarray:
    """Return a key for each pair, (population,) float64; pairs are drawn in the order of their keys.

    The keys are the exponential times of Efraimidis and Spirakis (2006): each next pair is drawn with a probability
    proportional to its weight among those left.
    """
    keys: np.ndarray = np.random.default_rng(seed).exponential(size=len(weights)) / weights
    return keys


def draw_order(weights: np.ndarray, seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw n pairs. A longer sample with the same seed and weights begins with the shorter one.

    Args:
        weights: (population,) float64 above 0.

    Returns: the places of the drawn pairs in the order of the draws, (n,) int64, and the probability of each draw among
    the pairs then left, (n,) float64.
    """
    keys = draw_keys(weights, seed)
    n = min(n, len(weights))
    first = np.argpartition(keys, n - 1)[:n] if n < len(keys) else np.arange(n)
    order = first[np.argsort(keys[first], kind="stable")]
    drawn = weights[order]
    return order, drawn / (weights.sum() - np.concatenate([[0.0], np.cumsum(drawn)[:-1]]))
