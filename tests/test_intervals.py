"""Intervals by unit of observation, compared with published figures, statsmodels and simulations."""

import numpy as np
import pytest

from blindspot.analysis.accuracy import macro_average, mean, mean_difference, proportion
from blindspot.analysis.intervals import mean_interval, tango, wilson


def test_tangos_interval_is_the_published_one():
    """Tango (1998), table II: the airway data (b = 12, c = 2 of 14 + ... = 44 pairs is Newcombe's; n = 21, 44, 1, 3)."""
