"""Paired tests, compared with scipy's and with simulations."""

import numpy as np
import pytest
import scipy.stats

from blindspot.analysis.accuracy import proportion
from blindspot.analysis.intervals import wilson
from blindspot.analysis.significance import (
    compare,
    compare_groups,
    difference,
    holm,
    mcnemar,
    sign_flip,
    sign_flip_macro,
    weighted_sum,
)


def scipys_p(differences):
    done = scipy.stats.permutation_test(
        (differences, np.zeros_like(differences)),
        lambda a, b, axis: (a - b).mean(axis=axis),
        vectorized=True,
        permutation_type="samples",
        n_resamples=20_000,
        rng=1,
    )
    return done.pvalue


@pytest.mark.parametrize("seed", range(4))
def test_sign_flip_equals_scipys_permutation_test(seed):
    rng = np.random.default_rng(seed)
    for differences in (rng.normal(0.15, 1, 60), rng.choice([-1.0, 0, 0, 0, 1, 1], 80)):
        assert sign_flip(differences, resamples=20_000) == pytest.approx(scipys_p(differences), abs=0.015)


def test_sign_flip_by_hand():
    assert sign_flip(np.zeros(10)) == 1.0
    assert sign_flip(np.ones(40)) == pytest.approx(1 / 10_001)  # never 0
    assert sign_flip(np.array([1.0])) == 1.0  # one question proves nothing


def test_under_no_difference_about_five_per_cent_are_rejected():
    rng = np.random.default_rng(0)
    rejected = [sign_flip(rng.choice([-1.0, 0, 1], 400), None, 1000, seed) <= 0.05 for seed in range(400)]
    assert 0.02 <= np.mean(rejected) <= 0.08


def test_intervals_of_a_difference_cover_it():
    rng, truth, covered = np.random.default_rng(1), 0.2, 0
    for _ in range(200):
        a, b = rng.random(150) < 0.6, rng.random(150) < 0.4
        estimate = difference(a, b)
        covered += estimate.low <= truth <= estimate.high
    assert 0.90 <= covered / 200 <= 0.99


def test_macro_difference_is_that_of_the_macro_averages():
    a, b = np.array([1, 1, 0, 1]), np.array([0, 1, 0, 0])
    groups = np.array(["x", "x", "x", "y"])
    assert difference(a, b, groups).value == pytest.approx((2 / 3 + 1) / 2 - (1 / 3 + 0) / 2)


def test_mcnemar_and_holm():
    from statsmodels.stats.contingency_tables import mcnemar as peer

    assert mcnemar(505, 62) == pytest.approx(peer([[619, 505], [62, 162]], exact=True).pvalue)
    assert mcnemar(3, 9) == pytest.approx(peer([[5, 3], [9, 5]], exact=True).pvalue)
    assert mcnemar(0, 0) == 1.0
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert len(holm([])) == 0


def test_macro_sign_flip_equals_a_plain_permutation():
    rng = np.random.default_rng(5)
    differences, groups = rng.choice([-1.0, 0, 0, 1, 1], 40), rng.choice(["x", "y", "z"], 40)
    weights = np.array([1 / (groups == group).sum() for group in groups])
    signs = np.random.default_rng(1).choice((-1.0, 1.0), (20_000, 40))
    plain = (np.abs(signs @ (differences * weights)) >= abs((differences * weights).sum()) - 1e-12).mean()
    assert sign_flip_macro(differences, groups, resamples=20_000) == pytest.approx(plain, abs=0.015)
    assert sign_flip_macro(np.zeros(0), np.zeros(0)) == 1.0


@pytest.mark.parametrize("seed", range(3))
def test_holms_correction_equals_that_of_statsmodels(seed):
    from statsmodels.stats.multitest import multipletests

    p = np.random.default_rng(seed).random(30) ** 3
    p[3] = p[4]
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])


def test_a_difference_carries_everything():
    a, b = np.array([1, 1, 1, 0, 0], bool), np.array([1, 0, 0, 1, 0], bool)
    found = compare(a, b)
    assert (found.only_a, found.only_b, found.n, found.p_adjusted) == (2, 1, 5, None)
    assert (
        found.estimate.value == pytest.approx(0.2)
        and found.p == sign_flip(a.astype(float) - b)
        and found.p_mcnemar == mcnemar(2, 1)
    )
    macro = compare(a, b, np.array(["x", "x", "y", "y", "y"]))
    assert macro.estimate.value == pytest.approx((0.5 + 0.0) / 2) and macro.p_mcnemar is None
    with pytest.raises(ValueError, match="different questions"):
        compare(a, b[:3])


def test_a_family_is_adjusted_together():
    rng = np.random.default_rng(0)
    a, b = rng.random(300) < 0.7, rng.random(300) < 0.5
    members = {"x": np.arange(100), "y": np.arange(300) >= 100}
    found = compare_groups(a, b, members)
    assert [found[name].p for name in members] == [compare(a[rows], b[rows]).p for rows in members.values()]
    assert [found[name].p_adjusted for name in members] == pytest.approx(holm([found[name].p for name in members]))
    assert compare_groups(a, b, {}) == {}


def simulated(rounds: int, seed: int) -> tuple[float, float]:
    """Return the share of rejections without a difference, and of 95% macro intervals that contain the true
    difference.
    """
    rng, rejected, covered = np.random.default_rng(seed), 0, 0
    groups = np.repeat(["w", "x", "y", "z"], (40, 60, 80, 120))
    for each in range(rounds):
        hard = rng.random(300)  # questions differ in difficulty, so the two runs' successes are correlated
        a, b = rng.random(300) < hard, rng.random(300) < hard
        rejected += sign_flip_macro(a.astype(float) - b, groups, None, 1000, each) <= 0.05
        better = rng.random(300) < 0.1 + 0.8 * hard + 0.1 * (
            groups == "x"
        )  # ahead by 0.1 on average over x alone: 0.025 macro
        estimate = difference(better, rng.random(300) < 0.1 + 0.8 * hard, groups)
        covered += estimate.low <= 0.025 <= estimate.high
    return rejected / rounds, covered / rounds


def test_macro_tests_and_intervals_hold_their_level():
    rejected, covered = simulated(250, 0)
    assert 0.02 <= rejected <= 0.09 and 0.91 <= covered <= 0.985


@pytest.mark.slow
def test_macro_tests_and_intervals_hold_their_level_in_many_rounds():
    rejected, covered = simulated(4000, 1)
    assert 0.04 <= rejected <= 0.06 and 0.935 <= covered <= 0.965


def test_a_macro_difference_of_zero_has_p_one():
    """Weights 1/3 and 1/7 leave a rounding error of 1e-17 where the groups cancel; that is no difference."""
    groups = np.repeat(["x", "y"], (3, 7))
    a = np.array([1, 1, 1] + [0] * 7, bool)
    b = np.array([0, 0, 0] + [1] * 7, bool)
    found = compare(a, b, groups)
    assert found.estimate.value == pytest.approx(0, abs=1e-12) and found.p == 1.0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(2, 12, 5)
        groups = np.repeat(np.arange(5), sizes)
        shift = np.zeros(len(groups))
        for group, size in enumerate(sizes):
            shift[np.flatnonzero(groups == group)[: int(rng.integers(1, size + 1))]] = rng.choice([-1, 1])
        values = np.concatenate([shift, -shift])  # every group and its mirror image: the macro difference is 0
        assert sign_flip_macro(values, np.concatenate([groups, groups + 5]), resamples=500) == 1.0


def test_wilson_equals_statsmodels():
    from statsmodels.stats.proportion import proportion_confint

    for successes, n in ((0, 5), (3, 10), (10, 10), (121, 1348)):
        assert wilson(successes, n) == pytest.approx(proportion_confint(successes, n, method="wilson"), abs=1e-12)


def test_a_weighted_sum_of_shares_has_a_width_also_where_all_are_one():
    """By hand: the interval of 1 - 1 reaches as far as each share's own does; two halves weigh half each."""
    few, many = (proportion(np.ones(n, dtype=bool)) for n in (36, 109))
    found = weighted_sum([(1.0, few), (-1.0, many)])
    assert (found.value, found.n) == (0.0, 145)
    assert found.low == pytest.approx(few.low - 1) and found.high == pytest.approx(1 - many.low)
    half = proportion(np.array([True, False] * 20))
    mixed = weighted_sum([(0.5, few), (0.5, half), (-1.0, many)])
    assert mixed.value == pytest.approx(0.5 + 0.25 - 1)
    assert mixed.low == pytest.approx(mixed.value - np.hypot((1 - few.low) / 2, (0.5 - half.low) / 2))
    assert weighted_sum([(1.0, few), (-1.0, proportion(np.zeros(0, dtype=bool)))]).value is None
