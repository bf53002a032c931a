"""Rows of Markdown tables, and figures with their intervals."""

from __future__ import annotations

import numpy as np

from blindspot.analysis.crossed import crossed_mean


def row(*cells: object) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def percent(values: np.ndarray, units: np.ndarray, signed: bool = False) -> str:
    """Return the mean in % of values (seeds, questions), with its interval if there is one."""
    found = crossed_mean(values.astype(float), units, is_signed=signed)
    assert found.value is not None
    ends = "" if found.low is None or found.high is None else f" ({100 * found.low:.1f} to {100 * found.high:.1f})"
    return f"{100 * found.value:.1f}{ends}"
