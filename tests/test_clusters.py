"""Clusters of points and their characteristic words."""

import math

import numpy as np
import pytest

from blindspot.analysis.clusters import cluster, distinct_words, log_odds_z, renumber_by_size, typical_words


def two_blobs():
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(size=(70, 4)) - 8, rng.normal(size=(40, 4)) + 8]).astype(np.float32)


@pytest.mark.parametrize("settings", [{"method": "kmeans", "count": 2}, {"method": "hdbscan", "min_size": 10}])
def test_two_groups_far_apart_are_two_clusters_the_larger_first(settings):
    labels = cluster(two_blobs(), seed=1, **settings)
    assert set(labels[:70].tolist()) - {-1} == {0} and set(labels[70:].tolist()) - {-1} == {1}
    assert (labels == -1).mean() < 0.2
    assert np.array_equal(labels, cluster(two_blobs(), seed=1, **settings))


def test_no_more_clusters_than_points():
    assert sorted(cluster(np.eye(3), "kmeans", count=9).tolist()) == [0, 1, 2]
    with pytest.raises(ValueError, match="hdbscan, kmeans"):
        cluster(np.eye(3), "dbscan")


def test_clusters_are_named_by_falling_size():
    assert renumber_by_size(np.array([5, 5, 2, 2, 2, -1, 9])).tolist() == [1, 1, 0, 0, 0, -1, 2]
    assert renumber_by_size(np.array([4, 3])).tolist() == [0, 1], "of equals the one that comes first"
    assert renumber_by_size(np.array([-1, -1])).tolist() == [-1, -1]


def test_words_are_letters_folded_and_once():
    assert distinct_words("The SKI-jump of Åmot, 1994: ski of a STRASSE straße") == {
        "the",
        "ski",
        "jump",
        "åmot",
        "strasse",
    }


def test_the_z_score_by_hand():
    """A word 3 times of 4 in one body, 1 of 4 in the other, with 1 of 2 in the prior: odds 4/2 and 2/4."""
    z = log_odds_z(np.array([3.0, 1.0]), np.array([1.0, 3.0]), np.array([1.0, 1.0]))
    expected = (math.log(4 / 2) - math.log(2 / 4)) / math.sqrt(1 / 4 + 1 / 2)
    assert z.tolist() == pytest.approx([expected, -expected])


def test_each_cluster_is_named_by_its_own_word():
    texts = [{"ski"}, {"ski"}, {"ski"}, {"sea"}, {"sea"}, {"sea"}, {"sea"}, {"ski"}]
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    assert typical_words(texts, labels, prior=0.5) == {0: ["ski"], 1: ["sea"]}
    assert typical_words(texts[:4] * 2, labels, prior=0.5) == {0: [], 1: []}, (
        "no word is more usual in one than in the other"
    )


def test_a_word_of_every_passage_and_a_word_of_one_name_nothing():
    texts = [{"common", "born", f"only{i}"} if i < 6 else {"common", "river"} for i in range(12)]
    named = typical_words(texts, np.array([0] * 6 + [1] * 6))
    assert named == {0: ["born"], 1: ["river"]}


def test_points_of_no_cluster_have_no_name_but_count_as_the_rest():
    texts = [{"born"}] * 4 + [{"river"}] * 4
    named = typical_words(texts, np.array([0] * 4 + [-1] * 4))
    assert named == {0: ["born"]}
