"""Means over training seeds and questions together, with an interval that covers both sources of variance."""

from __future__ import annotations

import math

import numpy as np

from blindspot.analysis.accuracy import Estimate
from blindspot.analysis.intervals import LEVEL, blended_variance, interval_from_variance, renumber_units, t_quantile


def crossed_mean(
    values: np.ndarray, units: np.ndarray | None = None, confidence: float = LEVEL, is_signed: bool = False
) -> Estimate:
    """Return the mean of the values (s, q) of s training runs on q questions, with an interval over both.

    The interval adds two variances: that of the means of the seeds, and that of the units of questions. Each is
    multiplied by the quantile of Student's t with its own degrees of freedom. With two or three seeds this quantile is
    large, so the interval is wide. `python -m benchmarks.coverage` compares this interval with one that pools both
    variances under Satterthwaite's degrees of freedom. With one seed the interval describes the questions only.

    Values from 0 to 1 get Wilson's interval, and signed values from -1 to 1 (`is_signed`) get Tango's. Both use the
    effective number of questions that follows from this variance. Other values, such as the influence values of a macro
    average, get a symmetric interval, or none if nothing varies.

    Args:
        units: (q,) int, the unit of observation of each question; None if each question is its own.

    Returns an Estimate whose n is the number of questions; its value is None without questions.
    """
    values = np.asarray(values, np.float64)
    seeds, questions = values.shape
    method = f"t interval over {seeds} seeds and the questions, crossed"
    if not values.size:
        return Estimate(None, questions, None, None, method, units=0)
    units = np.arange(questions) if units is None else renumber_units(units)
    mean, n_units = float(values.mean()), int(units.max()) + 1
    share = np.bincount(units) / questions
    of_unit = np.bincount(units, values.mean(axis=0)) / questions / share
    of_seed = values.mean(axis=1)
    bounded = values.max() <= 1 and values.min() >= -float(is_signed)
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
        low, high = interval_from_variance(mean, plus, squares, 1 / float(share @ share), is_signed, confidence)
    elif squares > 1e-18:
        low, high = mean - math.sqrt(squares), mean + math.sqrt(squares)
    else:
        return Estimate(mean, questions, None, None, method, units=n_units)
    return Estimate(mean, questions, low, high, method, units=n_units)
