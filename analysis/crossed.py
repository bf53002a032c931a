"""Means over training seeds and questions together, with an interval over both."""

from __future__ import annotations

import math

import numpy as np

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.intervals import LEVEL, blended_variance, compact, interval_from_variance, t_quantile


def crossed_mean(
    values: np.ndarray, units: np.ndarray | None = None, confidence: float = LEVEL, signed: bool = False
) -> Estimate:
    """Return the mean of (s, q) values of s trainings on q questions, with an interval over both.

    The variance of the means of the seeds and that of the units of questions each have the quantile of Student's t with
    their own degrees of freedom, and are added. With two or three seeds the quantile is large, and so is the interval.
    `python -m benchmarks.coverage` compares it with pooling the two under Satterthwaite's degrees of freedom. With one
    seed the interval describes the questions only.

    Values from 0 to 1 (from -1 to 1 if `signed`) have Wilson's (Tango's) interval with the effective number of questions
    that this variance leaves. Other values, such as the influences behind a macro average, have a symmetric interval; none
    if nothing varies.

    Args:
        units: (q,) int, the unit of observation of each question; None if each question is its own.

    Returns an Estimate whose n is the number of questions; value None if there are none.
    """
    values = np.asarray(values, np.float64)
    seeds, questions = values.shape
    method = f"t interval over {seeds} seeds and the questions, crossed"
    if not values.size:
        return Estimate(None, questions, None, None, method, units=0)
    units = np.arange(questions) if units is None else compact(units)
    mean, n_units = float(values.mean()), int(units.max()) + 1
    share = np.bincount(units) / questions
    of_unit = np.bincount(units, values.mean(axis=0)) / questions / share
    of_seed = values.mean(axis=1)
    bounded = values.max() <= 1 and values.min() >= -float(signed)
    plus = float(np.maximum(values, 0).mean())
    largest = max(2 * plus - mean - mean * mean, 0.0) if bounded else 0.0
    squares = 0.0
    if n_units > 1:
        squares = t_quantile(n_units - 1, confidence) ** 2 * blended_variance(of_unit, share, largest)
    elif bounded:
        squares = t_quantile(1, confidence) ** 2 * largest
    if seeds > 1:
        squares += t_quantile(seeds - 1, confidence) ** 2 * float(of_seed.var(ddof=1)) / seeds
    if bounded:
        low, high = interval_from_variance(mean, plus, squares, 1 / float(share @ share), signed, confidence)
    elif squares > 1e-18:
        low, high = mean - math.sqrt(squares), mean + math.sqrt(squares)
    else:
        return Estimate(mean, questions, None, None, method, units=n_units)
    return Estimate(mean, questions, low, high, method, units=n_units)
