"""Maps: projections of vectors to a plane, measures of a map's quality, and a common plane for two encoders.

A map keeps neighbouring points close together, as far as two dimensions allow. Distances between far groups, the sizes
of groups and the empty space between them mean nothing (McInnes et al. 2018, UMAP; van der Maaten and Hinton 2008,
t-SNE; Wattenberg et al. 2016).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from blindspot.analysis.accuracy import Estimate, mean
from blindspot.analysis.neighbours import unit_vectors

Method = Literal["umap", "tsne"]
METHODS: tuple[str, ...] = ("umap", "tsne")
DETERMINISM = "Computed with one thread and a fixed seed. The same input, versions and kind of processor give the same picture; another seed gives another picture of the same neighbourhoods."
_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Components:
    """Principal components: values (n, c) float32, and the share of the variance that each explains."""

    values: np.ndarray
    explained: float


@dataclass(frozen=True, slots=True)
class ProjectionQuality:
    """How well a map preserves the neighbourhoods of the original vector space.

    Attributes:
        k: number of neighbours.
        points: number of points on the map.
        rows: number of measured points (a seeded sample); each is compared with all points.
        trustworthiness: 1 if every neighbour on the map is also near in the original space (Venna and Kaski 2001).
        overlap: the share of a point's k nearest neighbours in the original space that are also among its k nearest on
            the map.
        by_chance: the overlap expected for random points.
    """

    k: int
    points: int
    rows: int
    trustworthiness: Estimate
    overlap: Estimate
    by_chance: float


def principal_components(vectors: np.ndarray, count: int = 50) -> Components:
    """Return the first `count` principal components, from the covariance's eigenvectors, with fixed signs. (n, d) ->
    (n, c) float32.
    """
    vectors = np.asarray(vectors, dtype=np.float32)
    centred = vectors - vectors.mean(axis=0)
    covariance = np.asarray(centred.T @ centred, dtype=np.float64)
    values, axes = np.linalg.eigh(covariance)
    count = min(count, len(values))
    axes, axes_and_variances = axes[:, ::-1][:, :count], values[::-1][:count]
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(count)] < 0, -1, 1)
    total = float(np.maximum(values, 0).sum())
    explained = float(np.maximum(axes_and_variances, 0).sum() / total) if total > 0 else 1.0
    return Components((centred @ axes.astype(np.float32)).astype(np.float32), min(explained, 1.0))


def project(
    points: np.ndarray,
    method: Method = "umap",
    *,
    neighbours: int = 15,
    min_dist: float = 0.1,
    perplexity: float = 30.0,
    seed: int = 0,
    initial_positions: np.ndarray | None = None,
) -> np.ndarray:
    """Project points to a plane, by Euclidean distance. (n, c) float -> (n, 2) float32.

    Args:
        points: for example principal components; at least 10 rows.
        neighbours, min_dist: for umap.
        perplexity: for tsne; lowered to the maximum for n.
        initial_positions: (n, 2) initial positions, such as another map of the same points (default: spectral for umap, the first
            two principal components for tsne).

    Raises: ValueError for too few points or an unknown method.
    """
    points = np.ascontiguousarray(points, dtype=np.float32)
    if len(points) < 10:
        raise ValueError(f"a map needs at least 10 points, not {len(points)}")
    if method == "umap":
        return _umap(points, min(neighbours, len(points) - 1), min_dist, seed, initial_positions)
    if method == "tsne":
        return _tsne(points, min(perplexity, (len(points) - 1) / 3), seed, initial_positions)
    raise ValueError(f"method must be one of {', '.join(METHODS)}, not {method!r}")


def _umap(
    points: np.ndarray, neighbours: int, min_dist: float, seed: int, initial_positions: np.ndarray | None
) -> np.ndarray:
    from umap import UMAP

    first = "spectral" if initial_positions is None else np.asarray(initial_positions, dtype=np.float32)
    model = UMAP(n_neighbors=neighbours, min_dist=min_dist, init=first, random_state=seed, n_jobs=1)
    return np.asarray(model.fit_transform(points), dtype=np.float32)


def _tsne(points: np.ndarray, perplexity: float, seed: int, initial_positions: np.ndarray | None) -> np.ndarray:
    from openTSNE import TSNE
    from openTSNE.initialization import rescale

    first = "pca" if initial_positions is None else rescale(np.array(initial_positions, dtype=np.float64))
    model = TSNE(perplexity=perplexity, initialization=first, random_state=seed, n_jobs=1, metric="euclidean")
    return np.asarray(model.fit(points.astype(np.float64)), dtype=np.float32)


def rotation_onto(vectors: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the rotation (or reflection) that brings `vectors` closest to `target`: orthogonal Procrustes (Schoenemann
    1966).

    Nothing is translated or scaled, so all lengths, cosines and distances among the vectors stay the same.

    Args: both (n, d), with the same item in row i. Returns: (d, d) float64 R; `vectors @ R` is aligned.
    """
    if vectors.shape != target.shape:
        raise ValueError(f"{vectors.shape} and {target.shape} cannot be aligned: their shapes differ")
    product = np.asarray(vectors, np.float32).T @ np.asarray(target, np.float32)
    left, _, right = np.linalg.svd(np.asarray(product, np.float64))
    rotation: np.ndarray = left @ right
    return rotation


def projection_quality(
    original: np.ndarray, coordinates: np.ndarray, k: int = 15, sampled_rows: int = 1000, seed: int = 0
) -> ProjectionQuality:
    """Return the trustworthiness and the neighbour overlap of a map.

    Args:
        original: (n, d) vectors, all their dimensions, compared by Euclidean distance (for unit vectors the order of
            cosines).
        coordinates: (n, 2).
        sampled_rows: number of points to measure, drawn with `seed`, each compared with all; more than n means all.

    The rank of a point is one more than the number of strictly nearer points, also with ties. The intervals are over
    the measured points. Raises: ValueError unless n > 2k; trustworthiness is undefined otherwise.
    """
    n = len(original)
    if n != len(coordinates) or not 1 <= k < n / 2:
        raise ValueError(f"{k} neighbours cannot be measured on {n} points and {len(coordinates)} coordinates")
    measured = (
        np.arange(n)
        if sampled_rows >= n
        else np.sort(np.random.default_rng(seed).choice(n, sampled_rows, replace=False))
    )
    original, coordinates = np.asarray(original, np.float32), np.asarray(coordinates, np.float32)
    strangers, shared = np.empty(len(measured)), np.empty(len(measured))
    for start in range(0, len(measured), _BLOCK):
        block = measured[start : start + _BLOCK]
        far, seen = _squared_distances(original, block), _squared_distances(coordinates, block)
        on_map = np.argpartition(seen, k - 1, axis=1)[:, :k]
        to = np.take_along_axis(far, on_map, 1)
        ranks = np.stack([1 + (far < to[:, j : j + 1]).sum(axis=1) for j in range(k)], axis=1)
        strangers[start : start + len(block)] = np.maximum(ranks - k, 0).sum(axis=1)
        truth = np.argpartition(far, k - 1, axis=1)[:, :k]
        shared[start : start + len(block)] = (truth[:, :, None] == on_map[:, None]).any(axis=2).mean(axis=1)
    trust = 1 - 2 * strangers / (k * (2 * n - 3 * k - 1))
    return ProjectionQuality(k, n, len(measured), mean(trust), mean(shared), k / (n - 1))


def _squared_distances(points: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return squared distances of some rows to all rows; the distance of a row to itself is infinite. (n, d), (b,) ->
    (b, n) float32."""
    squares = np.einsum("ij,ij->i", points, points)
    distances: np.ndarray = squares[rows, None] + squares[None] - 2 * points[rows] @ points.T
    distances[np.arange(len(rows)), rows] = np.inf
    return distances


def joint_projection(
    first_vectors: np.ndarray, second_vectors: np.ndarray, count: int = 50
) -> tuple[Components, float]:
    """Put two encoders' vectors of the same items into one space: rotate the second encoder's vectors onto the first's,
    and return principal components of both.

    Args: both (n, d), already at unit length for cosines. Returns: components of the 2n rows, the first encoder's
    first; and the residual after the rotation, which is the root of sum |a - bR|^2 / sum |a - mean a|^2. The residual
    is 0 if one space is a pure rotation of the other, and 1 if a point is as far from its counterpart as from the mean.
    """
    turned = np.asarray(second_vectors, np.float32) @ rotation_onto(second_vectors, first_vectors).astype(np.float32)
    residual = float(
        np.linalg.norm(first_vectors - turned)
        / max(float(np.linalg.norm(first_vectors - first_vectors.mean(axis=0))), 1e-12)
    )
    return principal_components(np.concatenate([first_vectors, turned]), count), residual


def comparable_vectors(vectors: np.ndarray, similarity: str) -> np.ndarray:
    """Return vectors as a map compares them: at unit length (cosine) for dot and cosine encoders, unchanged for l2. (n,
    d) float32.
    """
    return np.asarray(vectors, np.float32) if similarity == "l2" else unit_vectors(vectors)
