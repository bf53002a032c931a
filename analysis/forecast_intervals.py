"""Forecasts of what more labels will change, with 90% intervals, from differences measured with the labels so far.

A step is a difference of outcomes per question: learning with all labels minus learning with half of them, or training
on the cleaned set minus training on the uncleaned set. The effect of the next labels is taken as a multiple of such
steps. The interval covers the value that a later *measurement* would give. It therefore includes the error of the step,
the variation of the new labels, and that of the questions used for measuring.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.intervals import renumber_units, t_quantile, wilson

LEVEL = 0.9
PRIOR_PAIRS = 1.0  # pseudo-counts of right and of wrong gold before any is judged (a flat prior)


@dataclass(frozen=True, slots=True)
class Forecast:
    """An expected value with the ends of its interval."""

    value: float
    low: float
    high: float


def step_forecast(
    steps: np.ndarray, factor: float, prior: tuple[float, float], units: np.ndarray | None = None
) -> Forecast:
    """Return the expected difference of the outcome after `factor` further increases of the labels, each like the
    measured one.

    Args:
        steps: (d, q) differences per question, from -1 to 1, of d draws of labels.
        factor: how many such steps the next labels are; for a learning curve, the doublings of the labels.
        prior: mean and standard deviation of a step on data like these, before it is measured.
        units: (q,) the unit of observation of each question.

    `d_v` is the variance over draws of labels, so a mean over d draws has the variance d_v / d. `q_v` is the variance
    over units of questions. The next labels are a new draw and are measured on other questions. So both variances are
    added once more, multiplied by the number of steps (at most 2).
    """
    draws = len(steps)
    means = steps.mean(axis=1)
    d_v = float(means.var(ddof=1)) if draws > 1 else 0.0
    codes = np.arange(steps.shape[1]) if units is None else renumber_units(units)
    sums, sizes = np.bincount(codes, weights=steps.mean(axis=0)), np.bincount(codes)
    count, size = len(sizes), float(sizes.sum())
    q_v = count / max(count - 1, 1) * float(((sums - means.mean() * sizes) ** 2).sum()) / size**2
    # A single measurement has the noise of one draw on these questions.
    single = np.array([np.bincount(codes, weights=row) for row in steps])
    q_one = count / max(count - 1, 1) * float(((single - means[:, None] * sizes) ** 2).sum(axis=1).mean()) / size**2
    # As if one more question had changed either way, so that no change among few questions is not taken for certain
    # (Agresti and Min 2005 add pseudo-counts to the pairs that differ).
    floor = 2 / steps.shape[1] ** 2
    q_v, q_one = q_v + floor, q_one + floor
    error = d_v / draws + q_v
    share = prior[1] ** 2 / (prior[1] ** 2 + error)
    step = share * float(means.mean()) + (1 - share) * prior[0]
    variance = factor**2 * share * error + min(factor, 2.0) * (d_v + q_one)
    half = t_quantile(max(draws - 1, 4), LEVEL) * math.sqrt(variance)
    return Forecast(factor * step, factor * step - half, factor * step + half)


def half_width_forecast(hits: np.ndarray, further_questions: int, units: np.ndarray | None = None) -> Forecast:
    """Return the half-width of the 95% interval of a share as it is expected after `further_questions` further
    questions.

    Args:
        hits: (q,) bool of the questions measured so far; at least one. units: (q,) their units of observation.
    """
    n, found = len(hits), int(hits.sum())
    count = n if units is None else len(np.unique(units))
    further = count_forecast(found, n, further_questions)
    shares = [(found + each) / (n + further_questions) for each in (further.value, further.low, further.high)]
    if shares[1] < 0.5 < shares[2]:
        shares.append(0.5)  # where an interval is widest
    widths = []
    for share in shares:
        low, high = wilson(share * (n + further_questions) * count / n, (n + further_questions) * count / n)
        assert low is not None and high is not None  # there is a question
        widths.append((high - low) / 2)
    return Forecast(widths[0], min(widths), max(widths))


def count_forecast(hits: int, judged_count: int, further_count: int) -> Forecast:
    """Return how many of the next `further_count` pairs are expected to be hits if `hits` of `judged_count` pairs drawn
    at random were hits (beta-binomial).

    The ends of the interval are quantiles of the predictive distribution (Gelman et al., Bayesian Data Analysis,
    section 2.4).
    """
    from scipy.stats import betabinom

    a, b = hits + PRIOR_PAIRS, judged_count - hits + PRIOR_PAIRS
    low, high = (float(betabinom.ppf(q, further_count, a, b)) for q in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Forecast(further_count * a / (a + b), low, high)
