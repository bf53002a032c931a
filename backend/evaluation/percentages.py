"""Estimates of shares as percentages in text."""

from __future__ import annotations

from blindspot.analysis.accuracy import Estimate
from blindspot.backend.evaluation.latex import ABSENT


def percent(estimate: Estimate | None) -> str:
    """Return the value in percent: "61.2"; a dash if there is none."""
    return ABSENT if estimate is None or estimate.value is None else f"{100 * estimate.value:.1f}"


def percent_with_interval(estimate: Estimate | None) -> str:
    """Return the value in percent with its interval: "61.2 [58.0–64.1]"; a dash if there is none.

    A narrow terminal would break the line at a space inside the brackets.
    """
    if estimate is None or estimate.value is None:
        return ABSENT
    value, low, high = estimate.percent
    return f"{value:.1f} [{low:.1f}\N{EN DASH}{high:.1f}]"
