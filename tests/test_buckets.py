"""Frequency buckets: hand-made cases, properties, and the official buckets of the real data."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blindspot.analysis.buckets import (
    FEW,
    GROUPS,
    cumulative_buckets,
    frequency_group,
    in_training,
    mention_groups,
    subject_key,
    value_curves,
)
from blindspot.analysis.intervals import wilson


def test_eight_equal_masses_by_hand():
    # 8 x 64 = one subject of 64, two of 32, four of 16, ... each value holds an eighth of all mentions
    frequency = np.concatenate([np.full(2**i, 2 ** (7 - i)) for i in range(8)])
    assert cumulative_buckets(frequency).tolist() == np.repeat(np.arange(8), 2 ** np.arange(8)).tolist()


def test_equal_frequencies_stay_together_and_the_rare_end_is_long():
    buckets = cumulative_buckets(np.array([100] + [1] * 100), count=2)
    assert buckets[0] == 0 and set(buckets[1:].tolist()) == {1}


def test_zero_and_unknown_stand_apart():
    assert cumulative_buckets(np.array([0, -1, 5])).tolist() == [
        8,
        -1,
        4,
    ]  # one value: the middle of its mass is in bucket 4
    assert cumulative_buckets(np.array([0, 0])).tolist() == [8, 8]
    assert cumulative_buckets(np.zeros(0, int)).tolist() == []


def test_each_relation_is_cut_by_itself():
    frequency, groups = np.array([8, 1, 800, 100]), np.array(["x", "x", "y", "y"])
    assert cumulative_buckets(frequency, groups, count=2).tolist() == [0, 1, 0, 1]


@given(st.lists(st.integers(-1, 500), min_size=1, max_size=200), st.integers(2, 8))
def test_more_frequent_is_never_in_a_rarer_bucket(values, count):
    frequency = np.array(values)
    buckets = cumulative_buckets(frequency, count=count)
    counted = frequency > 0
    order = np.argsort(-frequency[counted], kind="stable")
    assert (np.diff(buckets[counted][order].astype(int)) >= 0).all()
    assert ((buckets >= 0) & (buckets < count) == counted).all()
    total, largest = (
        frequency[counted].sum(),
        max(
            [
                0,
                *np.unique(frequency[counted], return_counts=True)[0]
                * np.unique(frequency[counted], return_counts=True)[1],
            ]
        ),
    )
    for bucket in range(count):  # a bucket holds an eighth, give or take the mass of the values at its borders
        assert frequency[buckets == bucket].sum() <= total / count + largest


def test_curves_carry_n_interval_and_range():
    found = {"one": np.array([True, False, True, False]), "two": np.array([False, False, False, True])}
    made = value_curves(found, np.array([0, 0, 1, -1]), np.array([9, 7, -1, 3]))
    a, b = made["one"]
    assert (a.bucket, a.n, a.success.value, a.min_frequency, a.max_frequency) == (0, 2, 0.5, 7, 9)
    assert (a.success.low, a.success.high) == wilson(1, 2)
    assert (b.bucket, b.n, b.success.value, b.min_frequency) == (1, 1, 1.0, None) and b.has_few_questions
    assert [point.success.value for point in made["two"]] == [0.0, 0.0]
    many = value_curves({"r": np.ones(FEW, bool)}, np.zeros(FEW, int))["r"][0]
    assert not many.has_few_questions


def test_subjects_seen_in_training():
    known = {subject_key(name) for name in ("Arve  Furset", "OSLO")}
    assert in_training(["arve furset", "Oslo", "Bergen", None], known).tolist() == [True, True, False, False]


@pytest.mark.parametrize("relation", ["P19", "P170"])
def test_mention_counts_fall_along_the_official_buckets(real_data, relation):
    """The medians of the mention counts fall from official bucket 0 to 7."""
    from tests.real import questions

    asked = [q for q in questions(real_data, "common-random-buckets") if q["relation"] == relation]
    medians = [np.median([q["subject_mentions"] for q in asked if q["bucket"] == bucket]) for bucket in range(8)]
    assert medians == sorted(medians, reverse=True) and medians[0] > 10 * medians[7]


@pytest.mark.parametrize("relation", ["P19", "P170"])
def test_our_cut_agrees_with_the_order_of_the_official_one(real_data, relation):
    from scipy.stats import spearmanr

    from tests.real import questions

    asked = [q for q in questions(real_data, "common-random-buckets") if q["relation"] == relation]
    ours = cumulative_buckets(np.array([q["subject_mentions"] for q in asked]))
    found = spearmanr(ours, [q["bucket"] for q in asked])
    assert found.statistic > 0.2 and found.pvalue < 1e-6


def test_mention_groups_are_those_of_frequency_group():
    frequency = np.array([-1, *range(150)])
    assert [None if g < 0 else GROUPS[g] for g in mention_groups(frequency).tolist()] == [
        None,
        *(frequency_group(f) for f in range(150)),
    ]
