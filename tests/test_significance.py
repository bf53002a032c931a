"""Paired tests, against scipy's own and by simulation."""

import numpy as np
import pytest
import scipy.stats

from analysis.significance import difference, holm, mcnemar, sign_flip


def scipys_p(differences):
    done = scipy.stats.permutation_test((differences, np.zeros_like(differences)), lambda a, b, axis: (a - b).mean(axis=axis), vectorized=True,
                                        permutation_type="samples", n_resamples=20_000, rng=1)
    return done.pvalue


@pytest.mark.parametrize("seed", range(4))
def test_sign_flip_equals_scipys_permutation_test(seed):
    rng = np.random.default_rng(seed)
    for differences in (rng.normal(0.15, 1, 60), rng.choice([-1.0, 0, 0, 0, 1, 1], 80)):
        assert sign_flip(differences, 20_000) == pytest.approx(scipys_p(differences), abs=0.015)


def test_sign_flip_by_hand():
    assert sign_flip(np.zeros(10)) == 1.0
    assert sign_flip(np.ones(40)) == pytest.approx(1 / 10_001)  # never 0
    assert sign_flip(np.array([1.0])) == 1.0  # one question proves nothing


def test_under_no_difference_about_five_per_cent_are_rejected():
    rng = np.random.default_rng(0)
    rejected = [sign_flip(rng.choice([-1.0, 0, 1], 400), 1000, seed) <= 0.05 for seed in range(400)]
    assert 0.02 <= np.mean(rejected) <= 0.08


def test_intervals_of_a_difference_cover_it():
    rng, truth, covered = np.random.default_rng(1), 0.2, 0
    for seed in range(200):
        a, b = rng.random(150) < 0.6, rng.random(150) < 0.4
        estimate = difference(a, b, resamples=500, seed=seed)
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
