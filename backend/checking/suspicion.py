"""Score how likely each negative pair is to be a false negative ("suspicion"), without a GPU and without labels.

The suspicion is the mean rank of the pair over the available signals: the share of the question's words in the passage,
the overlap of the passage with the positive, the file's own score, and the similarity of the vectors. The suspicion
decides only how often pairs are drawn. The estimate corrects for it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from blindspot.analysis.weighted_draws import Cells
from blindspot.backend.checking.building import CheckedStudy, question_id
from blindspot.backend.checking.pairs import FEATURES, NegativePairs, negative_pairs
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import encoder_settings
from blindspot.backend.retrieval.encoder import load_encoder

EDGES = np.array([0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98])
"""Quantiles of suspicion that separate the cells; the most suspicious 2% are one cell."""
SEPARATION = 1.3
"""The assumed distance between the suspicions of false and of true negatives, in standard deviations (an AUC of 0.82).
"""
EXPECTED = 0.08
UNIFORM = 0.65
"""Share of each weight that is the same for all pairs; the rest is proportional to the standard deviation of a cell's
pairs.
"""
BLOCK = 512  # passages encoded at a time; questions are encoded once
WEIGHTS: Mapping[str, float] = {"overlap": 1.0, "shared": 0.5, "similar": 0.5, "score": 2.0, "vectors": 2.0}


def suspicion(pairs: NegativePairs, similarity: np.ndarray | None = None) -> tuple[np.ndarray, list[str]]:
    """Return the suspicion of each pair, (m,) float64, and the names of the signals used.

    Args:
        similarity: (m,) of the vectors of question and passage (`pair_similarity`).
    """
    parts = {name: pairs.features[:, place].astype(np.float64) for place, name in enumerate(FEATURES)}
    parts["score"] = pairs.score.astype(np.float64)
    if similarity is not None:
        parts["vectors"] = similarity
    total, used = np.zeros(len(pairs)), []
    for name, values in parts.items():
        known = np.isfinite(values)
        if known.any() and np.ptp(values[known]) > 0:
            total += WEIGHTS[name] * _ranks(np.where(known, values, np.median(values[known])))
            used.append(name)
    return total, used


def cells_by_suspicion(suspicions: np.ndarray) -> tuple[Cells, np.ndarray]:
    """Divide the pairs into strata ("cells") of equal draw probability. Returns the cells, and each pair's cell, (m,)
    int64.
    """
    from scipy.stats import norm

    size = len(suspicions)
    if size < 2 or np.ptp(suspicions) == 0:
        return Cells(np.array([size]), np.array([EXPECTED]), np.ones(1)), np.zeros(size, np.int64)
    placed = np.searchsorted(EDGES, _ranks(suspicions))
    _, member, counts = np.unique(placed, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts) / size
    middle = ends - counts / size / 2
    ratios = np.exp(SEPARATION * norm.ppf(middle))
    chances = np.clip(EXPECTED * ratios / (ratios @ counts / size), 1e-3, 0.9)
    spread = np.sqrt(chances * (1 - chances))
    weights = UNIFORM + (1 - UNIFORM) * spread / (spread @ counts / size)
    return Cells(counts.astype(np.int64), chances, weights), member


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the rank of each value, scaled to 0..1. Equal values get the mean of their ranks."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    result: np.ndarray = (ends - (counts - 1) / 2 - 0.5)[place] / len(values)
    return result


def pair_similarity(checked_study: CheckedStudy, name: str, progress: Progress | None = None) -> np.ndarray:
    """Return the cosine similarity of question and passage, (m,) float64, in the order of `negative_pairs`.

    Args:
        name: An encoder of the study, such as minilm.

    Raises Missing if the study has no such encoder.
    """
    encoder = load_encoder(encoder_settings(checked_study.study, name))
    pairs = negative_pairs(checked_study.occurrences)
    asked, of_question = np.unique(pairs.question, return_inverse=True)
    texts = [question.text for question in checked_study.study.questions.with_ids(map(question_id, asked.tolist()))]
    questions = _unit(encoder.encode_questions(texts))
    found = np.empty(len(pairs))
    order = np.argsort(pairs.passage, kind="stable")
    passages, begins = np.unique(pairs.passage[order], return_index=True)
    ends = np.append(begins[1:], len(order))
    for start in range(0, len(passages), BLOCK):
        block = passages[start : start + BLOCK]
        vectors = _unit(encoder.encode_passages(checked_study.study.corpus.passages(block.tolist())))
        rows = order[begins[start] : ends[min(start + BLOCK, len(passages)) - 1]]
        own = vectors[np.searchsorted(block, pairs.passage[rows])]
        found[rows] = np.einsum("nd,nd->n", questions[of_question[rows]], own)
        if progress is not None:
            progress(min(start + BLOCK, len(passages)), len(passages), f"encoding with {name}")
    return found


def _unit(vectors: np.ndarray) -> np.ndarray:
    result: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return result
