"""Maps, their quality, alignment, neighbours and spread, compared with scikit-learn, scipy and figures worked by hand."""

import numpy as np
import pytest

from blindspot.analysis.neighbours import nearest_rows, unit_vectors
from blindspot.analysis.projection import (
    comparable_vectors,
    joint_projection,
    principal_components,
    project,
    projection_quality,
    rotation_onto,
)
from blindspot.analysis.spread import SpreadGroup, group_measurements, pairwise_pseudo_values


def blobs(n=120, d=12, groups=4, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(groups, d)) * 6
    member = np.arange(n) % groups
    return (centres[member] + rng.normal(size=(n, d))).astype(np.float32), member


def random_rotation(d, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]


def test_principal_components_are_scikit_learns_up_to_sign():
    from sklearn.decomposition import PCA

    vectors, _ = blobs()
    ours, theirs = principal_components(vectors, 5), PCA(5, svd_solver="full").fit(vectors)
    scores = theirs.transform(vectors)
    signs = np.sign((ours.values * scores).sum(axis=0))
    np.testing.assert_allclose(ours.values * signs, scores, atol=1e-3)
    assert ours.explained == pytest.approx(theirs.explained_variance_ratio_.sum(), abs=1e-5)


def test_principal_components_of_all_equal_vectors_are_zeros():
    found = principal_components(np.ones((20, 4), np.float32), 2)
    assert not found.values.any() and found.explained == 1.0


@pytest.mark.parametrize("k", [3, 10])
def test_trustworthiness_is_scikit_learns(k):
    from sklearn.manifold import trustworthiness

    vectors, _ = blobs()
    for coordinates in (vectors[:, :2], np.random.default_rng(1).normal(size=(len(vectors), 2))):
        found = projection_quality(vectors, coordinates, k, sampled_rows=10_000)
        assert found.rows == found.points == len(vectors)
        assert found.trustworthiness.value == pytest.approx(
            trustworthiness(vectors, coordinates, n_neighbors=k), abs=1e-6
        )


def test_neighbour_overlap_is_what_scikit_learns_neighbours_give():
    from sklearn.neighbors import NearestNeighbors

    vectors, _ = blobs()
    coordinates, k = vectors[:, :2], 7
    true, seen = (
        NearestNeighbors(n_neighbors=k).fit(points).kneighbors(return_distance=False)
        for points in (vectors, coordinates)
    )
    expected = np.mean([len(set(a) & set(b)) / k for a, b in zip(true, seen, strict=True)])
    found = projection_quality(vectors, coordinates, k, sampled_rows=10_000)
    assert found.overlap.value == pytest.approx(expected)
    assert found.by_chance == pytest.approx(7 / 119)


def test_a_sample_of_rows_measures_the_same_thing():
    vectors, _ = blobs(600)
    coordinates = vectors[:, :2]
    whole, part = (
        projection_quality(vectors, coordinates, 10, sampled_rows=600),
        projection_quality(vectors, coordinates, 10, sampled_rows=300, seed=3),
    )
    assert part.rows == 300 and part.trustworthiness.n == 300
    assert part.trustworthiness.low <= whole.trustworthiness.value <= part.trustworthiness.high
    assert part.overlap.low <= whole.overlap.value <= part.overlap.high


def test_a_map_that_is_the_space_itself_is_perfect():
    plane = np.random.default_rng(0).normal(size=(80, 2)).astype(np.float32)
    found = projection_quality(plane, plane * 3 + 1, 5)
    assert found.trustworthiness.value == 1 and found.overlap.value == 1


def test_quality_refuses_more_neighbours_than_it_can_measure():
    with pytest.raises(ValueError, match="cannot be measured"):
        projection_quality(np.zeros((20, 3)), np.zeros((20, 2)), 10)


def test_the_rotation_is_scipys_and_undoes_a_rotation():
    from scipy.linalg import orthogonal_procrustes

    rng = np.random.default_rng(0)
    first = rng.normal(size=(200, 8)).astype(np.float32)
    noisy = (first @ random_rotation(8) + 0.1 * rng.normal(size=first.shape)).astype(np.float32)
    np.testing.assert_allclose(rotation_onto(noisy, first), orthogonal_procrustes(noisy, first)[0], atol=1e-4)
    turned = first @ random_rotation(8, seed=4).astype(np.float32)
    np.testing.assert_allclose(turned @ rotation_onto(turned, first), first, atol=1e-4)


def test_a_joint_space_of_a_vector_set_and_its_rotation_puts_each_pair_on_one_spot():
    vectors, _ = blobs()
    found, left = joint_projection(vectors, vectors @ random_rotation(12).astype(np.float32), 5)
    np.testing.assert_allclose(found.values[:120], found.values[120:], atol=1e-2)
    assert left == pytest.approx(0, abs=1e-4)
    noise = np.random.default_rng(2).normal(size=vectors.shape).astype(np.float32)
    assert joint_projection(vectors, vectors + noise, 5)[1] > 0.05


def test_different_widths_cannot_be_aligned():
    with pytest.raises(ValueError, match="shapes differ"):
        rotation_onto(np.zeros((5, 3)), np.zeros((5, 4)))


def test_tsne_is_the_same_twice_and_keeps_groups_together():
    vectors, member = blobs()
    points = principal_components(vectors, 5).values
    first, second = (project(points, "tsne", perplexity=10, seed=5) for _ in range(2))
    assert np.array_equal(first, second)
    near = nearest_rows(first, first, 3, "l2", excluded_rows=np.arange(len(first))).rows
    assert (member[near] == member[:, None]).mean() > 0.95
    started = project(points, "tsne", perplexity=10, seed=5, initial_positions=first)
    assert started.shape == (120, 2) and np.isfinite(started).all()


@pytest.mark.slow
def test_umap_is_the_same_twice_and_keeps_groups_together():
    vectors, member = blobs()
    points = principal_components(vectors, 5).values
    first, second = (project(points, "umap", neighbours=10, seed=5) for _ in range(2))
    assert np.array_equal(first, second)
    near = nearest_rows(first, first, 3, "l2", excluded_rows=np.arange(len(first))).rows
    assert (member[near] == member[:, None]).mean() > 0.95
    assert project(points, "umap", seed=5, initial_positions=first).shape == (120, 2)


def test_a_map_of_too_few_points_or_by_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="10 points"):
        project(np.zeros((9, 3)))
    with pytest.raises(ValueError, match="umap, tsne"):
        project(np.zeros((19, 3)), "pacmap")


@pytest.mark.parametrize("similarity, metric", [("cosine", "cosine"), ("l2", "euclidean")])
def test_nearest_is_scikit_learns_over_several_blocks(similarity, metric, monkeypatch):
    from sklearn.neighbors import NearestNeighbors

    monkeypatch.setattr("blindspot.analysis.neighbours._ROWS", 37)
    vectors, _ = blobs(200)
    distances, rows = (
        NearestNeighbors(n_neighbors=6, metric=metric, algorithm="brute").fit(vectors).kneighbors(vectors[:20] + 0.01)
    )
    found = nearest_rows(vectors[:20] + 0.01, vectors, 6, similarity)
    assert np.array_equal(found.rows, rows)
    expected = 1 - distances if similarity == "cosine" else -distances
    np.testing.assert_allclose(found.similarity, expected, atol=2e-3)


def test_nearest_by_product_is_a_plain_product():
    vectors = np.random.default_rng(0).normal(size=(12_000, 8)).astype(np.float16)
    values = vectors.astype(np.float64) @ vectors[7].astype(np.float64)
    values[7] = -np.inf
    found = nearest_rows(vectors[7:8], vectors, 5, "dot", excluded_rows=np.array([7]))
    assert found.rows[0].tolist() == np.argsort(-values)[:5].tolist()
    assert found.similarity[0] == pytest.approx(np.sort(values)[::-1][:5], abs=1e-3)


def test_equal_neighbours_are_ordered_by_row_and_a_row_is_not_its_own():
    vectors = np.tile([[1.0, 0.0]], (6, 1))
    assert nearest_rows(vectors[:1], vectors, 3, excluded_rows=np.array([0])).rows.tolist() == [[1, 2, 3]]
    with pytest.raises(ValueError, match="k is 6; it must be from 1 to 5"):
        nearest_rows(vectors[:1], vectors, 6, excluded_rows=np.array([0]))


def test_the_mean_cosine_of_three_vectors_by_hand():
    vectors = np.array([[1, 0], [0, 1], [1, 0]], np.float32)  # cosines 0, 1, 0
    similarity, nearest, margins = group_measurements(vectors, None, SpreadGroup(np.arange(3), np.arange(0), []))
    assert similarity.mean() == pytest.approx(1 / 3)
    assert nearest.mean() == pytest.approx((1 + 0 + 1) / 3)
    assert margins is None


def test_pseudo_values_are_the_jackknifes():
    rng = np.random.default_rng(0)
    vectors = unit_vectors(rng.normal(size=(40, 6)) + 1).astype(np.float64)

    def statistic(rows):
        cosines = vectors[rows] @ vectors[rows].T
        return cosines[np.triu_indices(len(rows), 1)].mean()

    n, everything = len(vectors), np.arange(len(vectors))
    expected = [n * statistic(everything) - (n - 1) * statistic(np.delete(everything, i)) for i in range(n)]
    np.testing.assert_allclose(pairwise_pseudo_values(vectors), expected, atol=1e-6)  # unit vectors are float32


def test_the_margin_of_two_questions_by_hand():
    passages = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
    questions = np.array([[1, 0], [0, 1]], np.float32)
    # the first: own 0 (cosine 1) against 1 and 2 (0, 0.6): 0.4; the second: own 2 (0.8) against 0 and 1 (0, 1): -0.2
    margins = group_measurements(passages, questions, SpreadGroup(np.arange(3), np.arange(2), [[0], [2]]))[2]
    assert margins.tolist() == pytest.approx([0.4, -0.2])
    shared = SpreadGroup(np.arange(3), np.arange(2), [[0, 1, 2], [0, 1, 2]])
    assert group_measurements(passages, questions, shared)[2] is None, "no passage is another question's"


def test_a_group_that_spread_out_shows_it_in_every_number():
    rng = np.random.default_rng(0)
    clumped = rng.normal(size=(60, 10)) * 0.2 + np.eye(10)[0]
    spread_out = rng.normal(size=(60, 10))
    group = SpreadGroup(np.arange(60), np.arange(60), [[i] for i in range(60)])
    before, after = ([each.mean() for each in group_measurements(v, v, group)] for v in (clumped, spread_out))
    assert before[0] > 0.6 > 0.1 > after[0] and before[1] > after[1] and before[2] < after[2]


def test_geometry_is_unit_length_for_dot_and_untouched_for_l2():
    vectors = np.array([[3, 4], [0, 0]], np.float16)
    np.testing.assert_allclose(comparable_vectors(vectors, "dot"), [[0.6, 0.8], [0, 0]], atol=1e-6)
    assert comparable_vectors(vectors, "l2").tolist() == [[3, 4], [0, 0]]
