"""Estimates of shares as percentages in text."""

from __future__ import annotations

from blindspot.analysis.accuracy import Estimate
from blindspot.backend.evaluation.latex import ABSENT

TOO_FEW = "too few to say"
"""Stands in the place of an interval where none can be given."""


def percent(estimate: Estimate | None) -> str:
    """Return the value in percent: "61.2"; a dash if there is none."""
    return ABSENT if estimate is None or estimate.value is None else f"{100 * estimate.value:.1f}"


def percent_with_interval(estimate: Estimate | None) -> str:
    """Return the value in percent with its interval: "61.2 [58.0–64.1]"; a dash if there is none.

    A narrow terminal would break the line at a space inside the brackets.
    """
    if estimate is None or estimate.value is None:
        return ABSENT
    if estimate.low is None:
        return f"{percent(estimate)} [{TOO_FEW}]"
    value, low, high = estimate.percent
    return f"{value:.1f} [{ends(low, high)}]"


def ends(low: float, high: float) -> str:
    """Return the ends of an interval in percent: "58.0–64.1"."""
    places = _places(low, high)
    return f"{low:.{places}f}\N{EN DASH}{high:.{places}f}"


def signed_ends(low: float, high: float, between: str = " to ") -> str:
    """Return the ends of an interval of a difference in points: "+1.1 to +7.1". An interval is never shown as one point:
    ends that one decimal place would make equal have more.
    """
    places = _places(low, high)
    return f"{low:+z.{places}f}{between}{high:+z.{places}f}"


def _places(low: float, high: float) -> int:
    different = (places for places in range(1, 6) if f"{low:z.{places}f}" != f"{high:z.{places}f}")
    return next(different, 1)
