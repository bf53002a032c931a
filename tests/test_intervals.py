"""Intervals by unit of observation, compared with published figures, other libraries and simulations."""

import math

import numpy as np
import pytest
import scipy.stats
from scipy.optimize import minimize_scalar

from blindspot.analysis.accuracy import macro_average, mean, mean_difference, proportion
from blindspot.analysis.crossed import crossed_mean
from blindspot.analysis.intervals import mean_interval, renumber_units, t_quantile, tango
from blindspot.analysis.significance import compare, sign_flip


def test_tangos_interval_is_the_published_one():
    """Airway hyper-responsiveness before and after transplantation: Fagerland, Lydersen and Laake (2014), table 5."""
    assert tango(1, 7, 21) == pytest.approx((-0.517, -0.026), abs=5e-4)


@pytest.mark.parametrize(("plus", "minus", "n"), [(1, 7, 21), (0, 0, 44), (5, 5, 60), (3, 0, 10), (12, 30, 400)])
def test_tangos_interval_inverts_the_score_test(plus, minus, n):
    """At both ends the statistic with the numerically maximised likelihood is the normal quantile."""

    def statistic(delta):
        def loss(only_minus):
            chances = only_minus + delta, only_minus, 1 - 2 * only_minus - delta
            counts = plus, minus, n - plus - minus
            return -sum(count * np.log(max(chance, 1e-300)) for count, chance in zip(counts, chances) if count)

        bounds = max(0.0, -delta), (1 - delta) / 2
        best = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
        return (plus - minus - n * delta) / np.sqrt(n * (2 * best + delta * (1 - delta)))

    low, high = tango(plus, minus, n)
    assert (statistic(low), statistic(high)) == pytest.approx((1.95996, -1.95996), abs=0.02)
    assert -1 <= low < (plus - minus) / n < high <= 1


def test_an_interval_is_never_a_point():
    for n in (1, 10, 1000):
        nothing = np.zeros(n)
        assert proportion(nothing.astype(bool)).high > 0 and mean(nothing).high > 0
        low, high = mean_difference(nothing).low, mean_difference(nothing).high
        assert low < 0 < high and low == pytest.approx(-high)
        assert macro_average(nothing, np.arange(n) % 3).high > 0
    assert crossed_mean(np.ones((3, 40))).low < 1
    assert crossed_mean(np.full((3, 40), 7.0)).low is None  # not bounded: too few to say


def test_one_seed_has_the_interval_of_the_questions():
    values = np.random.default_rng(1).random((1, 300)) < 0.3
    ours, plain = crossed_mean(values), mean(values[0])
    assert ours.value == pytest.approx(plain.value) == values.mean()
    assert ours.low == pytest.approx(plain.low, abs=0.001) and ours.high == pytest.approx(plain.high, abs=0.001)
    exact = scipy.stats.ttest_1samp(values[0].astype(float), 0).confidence_interval()
    assert (ours.low, ours.high) == (pytest.approx(exact.low, abs=0.006), pytest.approx(exact.high, abs=0.006))


def test_the_interval_lets_seeds_vary():
    """If all questions of a seed have the same value, they count as one: the interval is Student's over the five
    seeds. The values lie beyond 1, as influences do: the interval is symmetric.
    """
    values = 10 * np.repeat(np.array([[0.2], [0.3], [0.4], [0.5], [0.6]]), 500, axis=1)
    ours, exact = crossed_mean(values), scipy.stats.ttest_1samp(values[:, 0], 0).confidence_interval()
    assert (ours.low, ours.high) == (pytest.approx(exact.low), pytest.approx(exact.high))
    alike = crossed_mean(np.tile(values[:, :1].T, (3, 1)))
    assert (alike.low, alike.high) == (pytest.approx(exact.low), pytest.approx(exact.high)), "seeds that do not differ"


def coverage(rounds, seeds, questions, of_seeds, seed=0, binary=False):
    """Return the share of intervals that contain the true mean 0 of crossed effects; `of_seeds`: standard deviation
    between seeds.
    """
    rng, covered = np.random.default_rng(seed), 0
    for _ in range(rounds):
        shape = (seeds, questions)
        shift = rng.normal(0, of_seeds, (seeds, 1))
        if binary:  # differences of success: -1, 0 or 1
            rate = np.clip(0.3 * rng.random((1, questions)), 0.05, 0.3)
            u = rng.random(shape)
            values = np.where(u < (rate + shift) / 2, 1.0, np.where(u < rate, -1.0, 0.0))
        else:
            values = shift + rng.normal(0, 0.3, (1, questions)) + rng.normal(0, 0.3, shape)
        found = crossed_mean(values, is_signed=binary)
        covered += found.low <= 0 <= found.high
    return covered / rounds


def test_the_interval_covers():
    """19 in 20 intervals contain the truth, even if three seeds vary more than the questions (a bootstrap covered 0.82
    there).
    """
    assert coverage(300, 8, 60, 0.02) >= 0.91
    assert coverage(300, 3, 400, 0.1) >= 0.91


@pytest.mark.slow
@pytest.mark.parametrize("of_seeds", [0, 0.01, 0.02, 0.05, 0.1])
@pytest.mark.parametrize("seeds", [3, 5, 8])
def test_the_interval_covers_in_many_rounds(seeds, of_seeds):
    for questions in (60, 400, 1348):
        assert coverage(2000, seeds, questions, of_seeds, seed=questions) >= 0.935
    # Differences of success on identical questions: the interval is conservative.
    assert coverage(2000, seeds, 400, min(of_seeds, 0.03), seed=1, binary=True) >= 0.935


def test_every_question_twice_says_no_more_than_once():
    """Two copies of each question are one observation: the interval and p of the copies are those of the questions."""
    rng = np.random.default_rng(0)
    a, b = rng.random(226) < 0.6, rng.random(226) < 0.5
    units = np.arange(226)
    once, twice = compare(a, b), compare(np.tile(a, 2), np.tile(b, 2), units=np.tile(units, 2))
    naive = compare(np.tile(a, 2), np.tile(b, 2))
    assert twice.p == pytest.approx(once.p, abs=0.02) and naive.p < once.p / 2
    wide, narrow = (each.estimate.high - each.estimate.low for each in (once, naive))
    assert twice.estimate.high - twice.estimate.low == pytest.approx(wide, rel=0.03) and narrow < 0.75 * wide
    assert (twice.n, twice.units, once.units) == (452, 226, 226)
    share, single = proportion(np.tile(a, 2), np.tile(units, 2)), proportion(a)
    assert (share.low, share.high) == pytest.approx((single.low, single.high), abs=0.002)
    assert twice.p_mcnemar is None and once.p_mcnemar is not None  # the test takes questions as independent


def test_the_signs_of_a_unit_flip_together():
    """Every difference twice: the same p value as once, by enumeration of the units' signs."""
    differences = np.array([1.0, 1.0, 1.0, -1.0, 0.0, 1.0])
    signs = np.array(np.meshgrid(*[(-1, 1)] * 5)).reshape(5, -1).T
    exact = (np.abs(signs @ differences[differences != 0]) >= 3).mean()
    doubled = np.repeat(differences, 2)
    assert sign_flip(doubled, np.repeat(np.arange(6), 2), 20_000) == pytest.approx(exact, abs=0.01)
    assert sign_flip(doubled, resamples=20_000) < exact / 2
    # Differences that cancel within each unit leave nothing to flip.
    assert sign_flip(np.array([0.1, -0.1, 0.3, -0.3]), np.array([0, 0, 1, 1])) == 1.0


def test_units_may_have_any_numbers():
    values = np.random.default_rng(1).random(60) < 0.3
    units = np.repeat(np.arange(20), 3)
    plain = mean_interval(values, units)
    assert mean_interval(values, units * 10**9 + 7) == plain
    shuffled = np.random.default_rng(2).permutation(60)
    moved = mean_interval(values[shuffled], units[shuffled])
    assert (moved.low, moved.high) == pytest.approx((plain.low, plain.high), abs=1e-9)
    assert renumber_units(np.array([7, 2**40, 7])).tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="equal length"):
        mean_interval(values, units[:3])
    with pytest.raises(ValueError, match="from 0 to 1"):
        mean(np.array([0.5, 1.5]))


def test_the_relation_as_the_unit_speaks_of_relations_like_these():
    """Five relations of 200 questions: about other questions of these the interval is narrow, about relations wide."""
    rng = np.random.default_rng(3)
    relation = np.repeat(np.arange(5), 200)
    values = rng.random(1000) < np.array([0.1, 0.3, 0.5, 0.7, 0.9])[relation]
    these, like_these = macro_average(values, relation), macro_average(values, relation, relation)
    assert these.high - these.low < 0.07 and like_these.high - like_these.low > 0.5
    assert (these.units, like_these.units) == (1000, 5)


def covered(draw, truth, rounds, **options):
    rng, hits = np.random.default_rng(11), 0
    for _ in range(rounds):
        values, units = draw(rng)
        found = mean_interval(values, units, **options)
        hits += found.low <= truth <= found.high
    return hits / rounds


@pytest.mark.parametrize("size", [2, 5, 10])
@pytest.mark.parametrize("correlation", [0.5, 1.0])
def test_intervals_cover_with_correlated_groups(size, correlation):
    """With each question as its own unit, groups of ten covered 0.61."""

    def draw(rng):
        shared, own = rng.random(60) < 0.4, rng.random((60, size)) < 0.4
        together = rng.random((60, size)) < np.sqrt(correlation)
        return np.where(together, shared[:, None], own).ravel(), np.repeat(np.arange(60), size)

    assert covered(draw, 0.4, 400) >= 0.925


def test_reciprocal_ranks_with_rare_hits_are_covered():
    """A percentile bootstrap covered 0.33 to 0.87."""
    ranks = 1 / np.arange(1, 11)

    def draw(rng):
        return np.where(rng.random(100) < 0.05, rng.choice(ranks, 100), 0.0), None

    assert covered(draw, 0.05 * ranks.mean(), 400) >= 0.93


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99, 0.999])
def test_the_quantile_of_student_s_t_is_scipy_s(level):
    from scipy.special import stdtrit

    for freedom in (1, 1.3, 2, 2.7, 5, 12.5, 29.9, 60.01, 61, 300, 2_999, 3_001, 22_075, 1e6, 1e9):
        assert t_quantile(freedom, level) == pytest.approx(stdtrit(freedom, (1 + level) / 2), rel=1e-11), freedom
    assert t_quantile(0.2, level) == t_quantile(1, level)
    assert t_quantile(math.inf, level) == pytest.approx(stdtrit(math.inf, (1 + level) / 2), rel=1e-14)
    assert math.isnan(t_quantile(math.nan, level))
