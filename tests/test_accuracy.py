"""Accuracy measures, compared with ir_measures, statsmodels and scipy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from blindspot.analysis import accuracy
from blindspot.analysis.buckets import bucket_group, bucket_order, frequency_group
from blindspot.analysis.intervals import wilson
from blindspot.analysis.relations import RELATIONS, relation_name, relation_order, value_table


def some_run(seed: int, q: int = 60, k: int = 30):
    """Random relevance with questions that have none, and more relevant passages than were retrieved."""
    rng = np.random.default_rng(seed)
    relevant = rng.random((q, k)) < rng.choice([0, 0.02, 0.2], size=(q, 1))
    return relevant, relevant.sum(axis=1) + rng.integers(0, 3, q)


def by_ir_measures(relevant, n_relevant, measure) -> np.ndarray:
    """Compare per question. Scores decrease strictly, because ir_measures breaks ties differently in Success and RR."""
    import ir_measures

    q, k = relevant.shape
    qrels = [ir_measures.Qrel(str(i), f"{i}-{j}", 1) for i in range(q) for j in np.flatnonzero(relevant[i])]
    missed = [(i, j) for i in range(q) for j in range(n_relevant[i] - relevant[i].sum())]
    qrels += [ir_measures.Qrel(str(i), f"{i}-missed-{j}", 1) for i, j in missed]
    qrels += [ir_measures.Qrel(str(i), "judged and not relevant", 0) for i in range(q)]
    run = [ir_measures.ScoredDoc(str(i), f"{i}-{j}", float(k - j)) for i in range(q) for j in range(k)]
    found = {m.query_id: m.value for m in ir_measures.iter_calc([ir_measures.parse_measure(measure)], qrels, run)}
    return np.array([found[str(i)] for i in range(q)])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [1, 5, 20, 30])
def test_success_reciprocal_rank_and_recall_equal_ir_measures(seed, k):
    relevant, n_relevant = some_run(seed)
    assert np.array_equal(accuracy.success_at(relevant, k), by_ir_measures(relevant, n_relevant, f"Success@{k}"))
    assert np.array_equal(
        accuracy.success_from_ranks(accuracy.first_hit(relevant), k), accuracy.success_at(relevant, k)
    )
    assert np.allclose(accuracy.reciprocal_rank(relevant, k), by_ir_measures(relevant, n_relevant, f"RR@{k}"))
    assert (n_relevant == 0).any()
    assert np.allclose(accuracy.recall_at(relevant, n_relevant, k), by_ir_measures(relevant, n_relevant, f"R@{k}"))


def test_first_hit_by_hand():
    relevant = np.array([[0, 0, 1], [1, 0, 1], [0, 0, 0]], dtype=bool)
    first = accuracy.first_hit(relevant)
    assert first.tolist() == [3, 1, 0] and first.dtype == np.int32
    assert accuracy.reciprocal_rank(relevant, 2).tolist() == [0, 1, 0]
    assert accuracy.first_hit(np.zeros((2, 0), dtype=bool)).tolist() == [0, 0]
    assert accuracy.first_hit(np.zeros((0, 3), dtype=bool)).shape == (0,)
    with pytest.raises(ValueError, match="k is 0"):
        accuracy.success_at(relevant, 0)


@pytest.mark.parametrize(("successes", "n"), [(0, 1), (1, 1), (0, 20), (20, 20), (3, 7), (619, 1348), (1, 10_000)])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.99])
def test_wilson_equals_statsmodels(successes, n, level):
    from statsmodels.stats.proportion import proportion_confint

    ours = wilson(successes, n, level)
    assert ours == pytest.approx(proportion_confint(successes, n, alpha=1 - level, method="wilson"), abs=1e-12)
    assert 0 <= ours[0] <= successes / n <= ours[1] <= 1


def test_nothing_counted_has_no_figure():
    assert wilson(0, 0) == (None, None)
    nothing = accuracy.proportion(np.zeros(0, dtype=bool))
    assert (nothing.value, nothing.n, nothing.low, nothing.high) == (None, 0, None, None)
    nothing = accuracy.macro_average(np.zeros(0), np.zeros(0, dtype=str))
    assert (nothing.value, nothing.n, nothing.n_groups, nothing.low) == (None, 0, 0, None)
    with pytest.raises(ValueError, match="3 successes of 2"):
        wilson(3, 2)


def test_wilson_covers_as_often_as_it_says():
    """Compute the exact coverage by summing the binomial: Brown, Cai and DasGupta (2001) show it near 95% at such n."""
    from scipy.stats import binom

    for n, p in [(30, 0.3), (100, 0.1), (400, 0.6)]:
        inside = [low <= p <= high for low, high in (wilson(x, n) for x in range(n + 1))]
        assert 0.92 < binom.pmf(np.arange(n + 1), n, p)[inside].sum() < 0.97


def test_macro_average_is_the_mean_of_the_groups_means():
    """By hand: a relation without hits counts as 0."""
    values = np.array([1, 0, 1, 1, 0, 0, 0], dtype=bool)
    groups = np.array(["P19"] * 4 + ["P50"] * 2 + ["P17"])
    found = accuracy.macro_average(values, groups)
    assert found.value == pytest.approx((3 / 4 + 0 + 0) / 3)
    assert (found.n, found.n_groups) == (7, 3)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.units == 7


@pytest.mark.parametrize("kind", ["success", "reciprocal rank"])
def test_macro_interval_equals_scipys_stratified_bootstrap(kind):
    from scipy.stats import bootstrap

    rng = np.random.default_rng(5)
    groups = np.repeat(["a", "b", "c"], [150, 400, 600])
    values = rng.random(1150) < 0.4 if kind == "success" else rng.choice([0, 0.1, 0.25, 0.5, 1], 1150)
    ours = accuracy.macro_average(values, groups)
    samples = tuple(values[groups == name].astype(float) for name in "abc")
    theirs = bootstrap(
        samples,
        lambda *drawn, axis: np.mean([d.mean(axis=axis) for d in drawn], axis=0),
        n_resamples=20_000,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(2),
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.003)


def test_macro_interval_covers_about_as_often_as_it_says():
    rng = np.random.default_rng(3)
    groups, chance = np.repeat(np.arange(5), 60), np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    covered = 0
    for _ in range(300):
        found = accuracy.macro_average(rng.random(300) < chance[groups], groups)
        covered += found.low <= 0.5 <= found.high
    assert 0.90 < covered / 300 < 0.985


def test_value_table_by_hand():
    first = {"bm25": np.array([1, 0, 6, 2]), "dense": np.array([0, 1, 1, 0])}
    found = {run: {k: accuracy.success_from_ranks(ranks, k) for k in (1, 5)} for run, ranks in first.items()}
    rows = value_table(found, ["P50", "P19", "P50", None])
    assert [(row.group, row.n) for row in rows] == [("P50", 2), ("P19", 1)]
    assert rows[0].success["bm25"][1].value == 0.5 and rows[0].success["bm25"][5].value == 0.5
    assert rows[0].success["dense"][1].value == 0.5 and rows[1].success["dense"][1].value == 1
    with pytest.raises(ValueError, match="different questions"):
        value_table(found, ["P50"])


def test_relation_names_and_order():
    assert relation_name("P19") == "P19 place of birth" and relation_name("born_in") == "born_in"
    assert len(RELATIONS) == 24 and all("[X]" in relation.template for relation in RELATIONS.values())
    assert sorted(["x", "P106", "P19", "P", "P²"], key=relation_order) == ["P19", "P106", "P", "P²", "x"]


def test_frequency_groups_and_their_order():
    assert [frequency_group(n) for n in (0, 1, 2, 3, 4, 9, 10, 29, 30, 99, 100, 5000)] == [
        "<=1",
        "<=1",
        "2-3",
        "2-3",
        "4-9",
        "4-9",
        "10-29",
        "10-29",
        "30-99",
        "30-99",
        "100+",
        "100+",
    ]
    labels = [bucket_group(None, n) for n in (1, 2, 5, 10, 30, 200)]
    in_order = ["bucket 0", "bucket 7", *labels, "frequency unknown"]
    assert bucket_group(7, 3) == "bucket 7" and bucket_group(None, None) == "frequency unknown"
    shuffled = in_order[3:] + in_order[:3]
    assert sorted(shuffled, key=bucket_order) == in_order


def test_mean_equals_scipys_bootstrap():
    values = np.random.default_rng(3).choice([0, 1 / 3, 1 / 2, 1], size=1200)
    ours = accuracy.mean(values)
    peer = scipy.stats.bootstrap((values,), np.mean, n_resamples=10_000, method="BCa", rng=5).confidence_interval
    assert ours.value == pytest.approx(values.mean()) and ours.n == 1200
    assert (ours.low, ours.high) == pytest.approx((peer.low, peer.high), abs=0.002)
    assert accuracy.mean(np.array([])).value is None


def macro_coverage(sizes, rounds, seed=0):
    """Return the share of intervals of the macro average that contain its true value, for groups of these sizes."""
    rng = np.random.default_rng(seed)
    groups, rates = np.repeat(np.arange(len(sizes)), sizes), rng.uniform(0.2, 0.8, len(sizes))
    covered = 0
    for _ in range(rounds):
        found = accuracy.macro_average(rng.random(len(groups)) < rates[groups], groups)
        covered += found.low <= rates.mean() <= found.high
    return covered / rounds


@pytest.mark.parametrize("sizes", [[2] * 40, [5] * 24, [1] * 10 + [20] * 10, [1, 2, 5, 30, 300]])
def test_macro_intervals_cover_with_small_groups(sizes):
    """A percentile bootstrap within groups covered 0.83, 0.90 and 0.29."""
    assert macro_coverage(sizes, 400) >= 0.93


def test_a_macro_interval_stays_within_the_values():
    found = accuracy.macro_average(np.array([True, True, True, False, True, True]), np.array([0, 0, 1, 1, 2, 2]))
    assert 0 <= found.low <= found.value <= found.high <= 1
