"""Intervals by unit of observation, compared with published figures, statsmodels and simulations."""


def test_tangos_interval_is_the_published_one():
    """Tango (1998), table II: the airway data (b = 12, c = 2 of 14 + ... = 44 pairs is Newcombe's; n = 21, 44, 1, 3)."""
