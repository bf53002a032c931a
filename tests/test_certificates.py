"""Certificates: exact bounds against scipy's intervals and brute force, bets that hold for biased judges and any look."""

from math import comb

import numpy as np
import pytest

from benchmarks.simple_samples import hypergeometric_upper, sample_size_alone
from blindspot.analysis.certificate_plan import pilot_chances, plan
from blindspot.analysis.certificates import bet_against_hits, remaining_share, share_at_target, stopping_times
from blindspot.analysis.weighted_draws import draw_order, group_into_cells, simulated_draws

POPULATION, TARGET = 3000, 0.06


@pytest.fixture(scope="module")
def world():
    """Pairs with calibrated chances: (hits, chances)."""
    rng = np.random.default_rng(3)
    chances = 1 / (1 + np.exp(9 - 4 * rng.normal(size=POPULATION)))
    chances *= 0.03 / chances.mean()
    return rng.random(POPULATION) < chances, np.minimum(chances, 0.99)


def studies(hits, cells, member, target, draws, seeds, horizon=None):
    """The bets of one study for each seed."""
    weights = cells.weights[member]
    orders = [draw_order(weights, seed, draws)[0] for seed in seeds]
    return bet_against_hits(hits[orders], member[orders], cells, target, horizon or draws)


def test_the_hypergeometric_bound_is_the_largest_count_that_the_sample_does_not_reject():
    population, n = 12, 5
    for hits in range(n + 1):
        kept = [
            total
            for total in range(hits, population - (n - hits) + 1)
            if sum(comb(total, k) * comb(population - total, n - k) for k in range(hits + 1)) / comb(population, n)
            > 0.05
        ]
        assert hypergeometric_upper(hits, n, population) == max(kept)
    with pytest.raises(ValueError, match="cannot be"):
        hypergeometric_upper(6, 5, 12)


def test_the_sample_size_alone_has_its_power():
    from scipy.stats import hypergeom

    n = sample_size_alone(0.01, 0.03, 2000)
    right = [k for k in range(n + 1) if hypergeometric_upper(k, n, 2000) - k <= 0.03 * (2000 - k)]
    assert hypergeom.cdf(max(right), 2000, 20, n) >= 0.8
    assert sample_size_alone(0.05, 0.03, 400) > 200  # nearly a census, because the found hits must be taken out


def test_a_longer_sample_begins_with_the_shorter_one_and_follows_the_weights():
    weights = np.repeat([1.0, 9.0], 50)
    short, long = draw_order(weights, 5, 10), draw_order(weights, 5, 40)
    assert long[0][:10].tolist() == short[0].tolist() and long[1][:10].tolist() == short[1].tolist()
    assert short[1][0] == pytest.approx(weights[short[0][0]] / 500)
    firsts = [draw_order(weights, seed, 1)[0][0] >= 50 for seed in range(400)]
    assert 0.85 < np.mean(firsts) < 0.95
    assert sorted(draw_order(weights, 1, 100)[0].tolist()) == list(range(100))


def test_simulated_draws_take_no_pair_twice():
    cells, _ = group_into_cells(np.repeat([0.01, 0.5], [90, 10]))
    drawn = simulated_draws(cells, 100, 5, np.random.default_rng(0))
    assert (np.sort(drawn, axis=1) == np.repeat([0, 1], [90, 10])).all()


def test_each_estimate_has_the_true_share_as_its_mean():
    """Over all pairs that a draw can be, weighted by their probability, whatever the chances are."""
    hits = np.array([1, 0, 0, 1, 0, 0, 0, 0])
    cells, member = group_into_cells(np.array([0.9, 0.9, 0.1, 0.1, 0.1, 0.1, 0.4, 0.4]))
    cells = plan(cells, 0.5).cells
    weights = cells.weights[member]
    first = 6
    means = []
    for before in ([], [first]):
        left = [i for i in range(8) if i not in before]
        orders = np.array([[*before, i] for i in left])
        made = bet_against_hits(hits[orders], member[orders], cells, 0.5, 4)
        means.append(made.estimates[:, :, -1] @ (weights[left] / weights[left].sum()))
    assert np.allclose(means, hits.mean())


@pytest.mark.parametrize("bias", [1.0, 5.0, 0.2, "reversed"])
def test_a_biased_judge_breaks_no_bound(world, bias):
    """The bound covers at all looks together; a good judge needs fewer labels than none."""
    hits, chances = world
    scores = 1 - chances if bias == "reversed" else np.clip(chances * bias, 0, 0.99)
    cells, member = group_into_cells(scores)
    made = plan(cells, hits.mean() * 1.05)
    tried = studies(hits, made.cells, member, hits.mean() * 1.05, 300, range(200), 150)
    assert (tried.upper_bounds() >= hits.mean()).mean() >= 0.94


def test_a_good_judge_saves_labels(world):
    hits, chances = world
    alone = sample_size_alone(hits.mean(), 0.045, POPULATION)
    cells, member = group_into_cells(chances)
    made = plan(cells, 0.045)
    times = stopping_times(studies(hits, made.cells, member, 0.045, 3 * alone, range(40), made.horizon), 0.045)
    assert np.quantile(times, 0.8, method="higher") < 0.75 * alone


def test_more_labels_keep_the_bound_or_lower_it(world):
    hits, chances = world
    cells, member = group_into_cells(chances)
    made = studies(hits, plan(cells, TARGET).cells, member, TARGET, 200, range(3))
    bounds = [made.upper_bounds(n) for n in (20, 80, 140, 200)]
    assert all((after <= before + 1e-9).all() for before, after in zip(bounds, bounds[1:], strict=False))
    assert made.hits_among(0).tolist() == [0, 0, 0]


def test_the_plan_says_when_a_judge_promises_more_than_the_target():
    cells, _ = group_into_cells(np.full(500, 0.2))
    made = plan(cells, 0.02)
    assert made.capped and made.rate < 0.02
    assert plan(group_into_cells(np.full(500, 0.001))[0], 0.02, max_draws=10).enough is False


def test_found_hits_are_taken_out():
    assert remaining_share(0.03, 10, 1000) == pytest.approx(20 / 990)
    assert remaining_share(float(share_at_target(10, 0.02, 1000)), 10, 1000) == pytest.approx(0.02)
    assert remaining_share(1.0, 1000, 1000) == 0.0


def test_a_pilot_teaches_what_answer_match_is_worth():
    rng = np.random.default_rng(0)
    answers = (rng.random(400) < 0.2).astype(float)
    hits = (answers == 1) & (rng.random(400) < 0.7)
    scores = np.full(400, 0.1)
    scores[:5] = np.nan
    pilot = np.arange(200)
    chances, learned = pilot_chances(scores, answers, pilot, hits[pilot])
    assert learned and chances[answers == 1].mean() > 0.4 > 0.1 > chances[answers == 0].mean()
    few, learned = pilot_chances(scores, answers, pilot[:5], hits[:5])
    assert not learned and np.isnan(few[0]) and few[10] == 0.1


def test_the_benchmark_runs_small(tmp_path, monkeypatch, capsys):
    """The same study with invented pairs: every judge's intervals and certificates are reported with their coverage."""
    from benchmarks import certificates as benchmark

    rng = np.random.default_rng(4)
    n = 1200
    chances = np.clip(rng.beta(0.3, 6, n), 1e-3, 0.95)
    pairs = benchmark.TruePairs(
        rng.random(n) < chances,
        chances,
        (rng.random(n) < chances).astype(float),
        np.tile(np.arange(1, 31), 40),
        np.repeat(np.arange(40), 30),
        np.arange(n) < 200,
    )
    monkeypatch.setattr(benchmark, "SETS", (("none", 1, 0.15),))
    monkeypatch.setattr(benchmark, "AUDITS", (15,))
    monkeypatch.setattr(benchmark, "LONGEST", 150)
    assert benchmark.report_certificates([{"none": pairs}] * 2, 10) >= 0.7
    assert benchmark.report_intervals([{"none": pairs}] * 2, 10) >= 0.7
    printed = capsys.readouterr().out
    assert "reversed, pilot, answers" in printed and "% of no judge" in printed and "lambda" in printed


def test_what_the_benchmark_says_any_judge_could_save():
    """Scores that say nothing leave the whole variance of a simple random sample, and the truth itself leaves none."""
    from benchmarks.certificates import TruePairs, variance_left

    false = np.arange(2000) % 10 == 0
    same, nothing = np.full(2000, 0.1), np.zeros(2000)

    def pairs(scores, answers):
        return TruePairs(false, scores, answers, nothing, nothing, nothing > 0)

    assert variance_left(pairs(same, nothing), False) == pytest.approx(1.0)
    assert variance_left(pairs(false * 0.3 + 0.1, nothing), False) == pytest.approx(0.0)
    assert variance_left(pairs(same, false.astype(float)), False) == pytest.approx(1.0)
    assert variance_left(pairs(same, false.astype(float)), True) == pytest.approx(0.0)
