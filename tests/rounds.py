"""Simulations in a quarter of their rounds, and in all of them in the soak: the bound of fewer rounds is as wide as chance asks for."""

from __future__ import annotations

import pytest
from scipy.stats import binom


def in_rounds(full: int) -> pytest.MarkDecorator:
    """Run a test of `rounds` rounds with a quarter of them, and with all of them in the soak."""
    return pytest.mark.parametrize("rounds", [full // 4, pytest.param(full, marks=pytest.mark.slow)])


def most(rounds: int, bound: int, full: int, rate: float) -> int:
    """Return how many of the rounds may have what happens at this rate: by chance more have it as rarely as more than
    `bound` of the full number.
    """
    return bound if rounds == full else int(binom.isf(binom.sf(bound, full, rate), rounds, rate))


def least(rounds: int, bound: int, full: int, rate: float) -> int:
    """Return how many of the rounds must have it: as rarely as fewer than `bound` of the full number, fewer do by chance."""
    return rounds - most(rounds, full - bound, full, 1 - rate)
