"""What more labels are expected to change: from steps that were measured with the labels at hand, with 90% intervals.

A step is a difference of outcomes per question between learning with and without some of the labels: the full set less
half of it, or clean training less noisy. The next labels are a factor of such steps. The interval covers what one would
then *measure*: the error of the step, and the noise of the new labels and of the questions that measure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from blindspot.analysis.intervals import compact, t_quantile, wilson

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
    """Return the expected difference after `factor` steps like the measured ones.

    Args:
        steps: (d, q) differences per question, from -1 to 1, of d draws of labels.
        factor: how many such steps the next labels are; for a learning curve, the doublings of the labels.
        prior: mean and standard deviation of a step on data like these, before it is measured.
        units: (q,) the unit of observation of each question.

    Variances: of a mean over draws, d_v / d; over units of questions, q_v. The change of the next labels has new draws
    and is measured on other questions, each by a variance that grows with the number of steps.
    """
    draws = len(steps)
    means = steps.mean(axis=1)
    d_v = float(means.var(ddof=1)) if draws > 1 else 0.0
    codes = np.arange(steps.shape[1]) if units is None else compact(units)
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


def half_width_forecast(hits: np.ndarray, more: int, units: np.ndarray | None = None) -> Forecast:
    """Return the half-width of the 95% interval of a share as it is expected after `more` further questions.

    Args:
        hits: (q,) bool of the questions measured so far; at least one. units: (q,) their units of observation.
    """
    n, found = len(hits), int(hits.sum())
    count = n if units is None else len(np.unique(units))
    further = count_forecast(found, n, more)
    shares = [(found + each) / (n + more) for each in (further.value, further.low, further.high)]
    if shares[1] < 0.5 < shares[2]:
        shares.append(0.5)  # where an interval is widest
    widths = []
    for share in shares:
        low, high = wilson(share * (n + more) * count / n, (n + more) * count / n)
        assert low is not None and high is not None  # there is a question
        widths.append((high - low) / 2)
    return Forecast(widths[0], min(widths), max(widths))


def count_forecast(hits: int, judged: int, further: int) -> Forecast:
    """Return how many of the next `further` are expected to be found, given `hits` of `judged` at random: beta-binomial.

    The ends are quantiles of the predictive distribution (Gelman et al., Bayesian Data Analysis, section 2.4).
    """
    from scipy.stats import betabinom

    a, b = hits + PRIOR_PAIRS, judged - hits + PRIOR_PAIRS
    low, high = (float(betabinom.ppf(q, further, a, b)) for q in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return Forecast(further * a / (a + b), low, high)
