"""The confidence sequence of a rate: it covers at all stops together, and needs few labels."""

import numpy as np
import pytest

from blindspot.analysis.rate_sequence import rate_sequence
from blindspot.analysis.weighted_draws import Cells, draw_order
from blindspot.backend.checking.suspicion import cells_by_suspicion

RUNS = 120
# With a true coverage of 95%, a share of 120 runs falls below 88% in one of a thousand simulations.
LEAST = 0.88


def population(rate, separation, size=6000, seed=0):
    rng = np.random.default_rng(seed)
    false = np.arange(size) < round(rate * size)
    if separation is None:
        return false, Cells(np.array([size]), np.array([0.08]), np.ones(1)), np.zeros(size, np.int64)
    return (false, *cells_by_suspicion(rng.normal(size=size) + separation * false))


def studied(false, cells, member, draws, runs=RUNS):
    orders = np.array([draw_order(cells.weights[member], seed, draws)[0] for seed in range(runs)])
    return rate_sequence(false[orders], member[orders], cells)


@pytest.mark.parametrize(("rate", "separation"), [(0.1, None), (0.1, 1.2), (0.3, 1.2), (0.02, 1.2), (0.1, -1.2)])
def test_the_intervals_cover_at_every_stop_together(rate, separation):
    """Also where suspicion points the wrong way."""
    false, cells, member = population(rate, separation)
    found = studied(false, cells, member, 200)
    inside = (found.low <= false.mean() + 1e-12) & (found.high >= false.mean() - 1e-12)
    assert inside.all(axis=1).mean() >= LEAST


def test_a_fixed_interval_that_is_looked_at_again_and_again_covers_far_less_often():
    """The control: what the confidence sequence is for."""
    from blindspot.analysis.intervals import wilson

    false, cells, member = population(0.1, None)
    orders = np.array([draw_order(cells.weights[member], seed, 200)[0] for seed in range(RUNS)])
    hits = np.cumsum(false[orders], axis=1)
    misses = 0
    for run in range(RUNS):
        intervals = [wilson(int(hits[run, n - 1]), n) for n in range(10, 201, 5)]
        misses += any(not low <= 0.1 <= high for low, high in intervals)
    assert 1 - misses / RUNS < 0.85


def test_intervals_never_grow_and_hold_the_estimate():
    false, cells, member = population(0.1, 1.2)
    found = studied(false, cells, member, 120, 10)
    assert (np.diff(found.low, axis=1) >= 0).all() and (np.diff(found.high, axis=1) <= 0).all()
    assert ((found.estimate >= found.low) & (found.estimate <= found.high)).all()


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.4])
def test_the_estimate_is_right_on_average(rate):
    """After 100 labels, whatever share the bets began with. Of 120 runs the mean is within four standard errors."""
    false, cells, member = population(rate, 1.2)
    estimates = studied(false, cells, member, 100).estimate[:, -1]
    assert abs(estimates.mean() - false.mean()) < 4 * estimates.std(ddof=1) / np.sqrt(RUNS)
    assert abs(estimates.mean() - false.mean()) < 0.02


def test_few_labels_are_enough():
    """Half-widths at the median: about 5 points in 150 labels and 3.5 in 300, at 10% with a good suspicion."""
    false, cells, member = population(0.1, 1.8)
    found = studied(false, cells, member, 300, 60)
    widths = np.median(found.half_width, axis=0)
    assert widths[149] <= 0.055 and widths[299] <= 0.035
    assert widths[299] < np.median(studied(*population(0.1, None), 300, 60).half_width, axis=0)[299]


@pytest.mark.parametrize("separation", [None, 1.2])
def test_a_clean_file_is_proved_to_have_at_most_two_percent_in_200_labels(separation):
    false, cells, member = population(0.0, separation, 20_000)
    found = studied(false, cells, member, 200, 20)
    assert (found.high[:, -1] <= 0.02 + 1e-12).mean() >= 0.5
    assert (found.high[:, 147] > 0.02).all()  # without any false one, 149 labels are the least


def test_a_census_knows():
    false, cells, member = population(0.25, 1.2, 40)
    found = studied(false, cells, member, 40, 5)
    assert np.allclose(found.low[:, -1], 0.25) and np.allclose(found.high[:, -1], 0.25)
