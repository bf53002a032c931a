"""Clusters of passages in the original vector space, and the words that are typical of each cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

Method = Literal["hdbscan", "kmeans"]
METHODS: tuple[str, ...] = ("hdbscan", "kmeans")
NOISE = -1
_WORD = re.compile(r"[^\W\d_]{3,}")


def cluster(points: np.ndarray, method: Method, *, count: int = 20, min_size: int = 30, seed: int = 0) -> np.ndarray:
    """Return the cluster of each point. (n, c) float -> (n,) int32. Clusters are numbered from 0 by decreasing size; -1
    means no cluster (hdbscan only).

    Args:
        points: principal components of the vectors, compared by Euclidean distance.
        count: number of clusters of kmeans.
        min_size: minimum cluster size of hdbscan (Campello et al. 2013). Clusters are the leaves of its tree, because
            selection by stability puts most passages of a real collection into one cluster.

    Raises: ValueError for an unknown method.
    """
    points = np.ascontiguousarray(points, dtype=np.float32)
    if method == "kmeans":
        from sklearn.cluster import KMeans

        labels = KMeans(min(count, len(points)), n_init=4, random_state=seed).fit_predict(points)
    elif method == "hdbscan":
        from sklearn.cluster import HDBSCAN

        size = max(2, min(min_size, len(points) // 2))
        model = HDBSCAN(
            min_cluster_size=size, min_samples=min(5, size), cluster_selection_method="leaf", n_jobs=1, copy=True
        )
        labels = model.fit_predict(points)
    else:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    return renumber_by_size(labels)


def renumber_by_size(labels: np.ndarray) -> np.ndarray:
    """Renumber clusters as 0, 1, ... by decreasing size. Clusters of equal size are ordered by their first point; -1 is
    kept. (n,) int -> (n,) int32.
    """
    labels = np.asarray(labels)
    names, first, sizes = np.unique(labels[labels != NOISE], return_index=True, return_counts=True)
    order = np.lexsort((first, -sizes))
    renumbered = np.full(len(labels), NOISE, np.int32)
    for new, old in enumerate(names[order]):
        renumbered[labels == old] = new
    return renumbered


def distinct_words(text: str) -> set[str]:
    """Return the distinct words of a text: letters only, at least three, case-folded."""
    return set(_WORD.findall(text.casefold()))


def typical_words(
    texts: Sequence[Iterable[str]], labels: np.ndarray, words_per_cluster: int = 5, prior: float = 0.01
) -> dict[int, list[str]]:
    """Return the words that are typical of each cluster, the most typical first.

    Words are ranked by the z-score of their log-odds with an informative Dirichlet prior (Monroe et al. 2008, "Fightin'
    Words", section 3.3.1). A word counts once per passage, so one long passage cannot determine a cluster's words. The
    prior consists of the words of all passages.

    Args:
        texts: the words of each passage (see `distinct_words`). labels: (n,) int; -1 is no cluster and is only part of the rest.
        prior: weight of the prior, as a share of all words.

    Returns: up to `words_per_cluster` words of each cluster, all more frequent in the cluster than elsewhere.
    """
    counts, vocabulary = _document_counts(texts, labels)
    names = [label for label in counts if label != NOISE]
    everything = sum(counts.values(), np.zeros(len(vocabulary)))
    usual = (everything >= 2) & (everything <= 0.6 * len(texts) if len(counts) > 1 else True)
    alpha = prior * everything
    words_by_cluster: dict[int, list[str]] = {}
    for label in sorted(names):
        inside = counts[label]
        z = log_odds_z(inside, everything - inside, alpha)
        z = np.where(usual & (inside > 0) & np.isfinite(z), z, -np.inf)
        order = sorted(
            np.argsort(-z, kind="stable")[: 4 * words_per_cluster].tolist(), key=lambda i: (-z[i], vocabulary[i])
        )
        words_by_cluster[label] = [vocabulary[i] for i in order if z[i] > 0][:words_per_cluster]
    return words_by_cluster


def log_odds_z(inside_counts: np.ndarray, outside_counts: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Return the z-score of Monroe et al.'s equation 22: the difference of a word's log-odds in two bodies of text,
    divided by its standard deviation.

    Args: (w,) counts of each word in the two bodies of text, and the prior's counts. Returns: (w,) float64.
    """
    n_in, n_out, n_prior = inside_counts.sum(), outside_counts.sum(), alpha.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        odds_in = np.log((inside_counts + alpha) / (n_in + n_prior - inside_counts - alpha))
        odds_out = np.log((outside_counts + alpha) / (n_out + n_prior - outside_counts - alpha))
        z: np.ndarray = (odds_in - odds_out) / np.sqrt(1 / (inside_counts + alpha) + 1 / (outside_counts + alpha))
    return z


def _document_counts(texts: Sequence[Iterable[str]], labels: np.ndarray) -> tuple[dict[int, np.ndarray], list[str]]:
    """Return how many passages of each cluster contain each word, and the words."""
    row_of_word: dict[str, int] = {}
    members: dict[int, list[int]] = {}
    for text, label in zip(texts, np.asarray(labels).tolist(), strict=True):
        members.setdefault(label, []).extend(
            row_of_word.setdefault(word, len(row_of_word)) for word in sorted(set(text))
        )
    return {
        label: np.bincount(documents, minlength=len(row_of_word)).astype(float) for label, documents in members.items()
    }, list(row_of_word)
