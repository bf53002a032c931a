"""Compute the similarity of each negative pair with an encoder of the study, as one signal of the suspicion."""

from __future__ import annotations

import numpy as np

from blindspot.backend.checking.building import CheckedStudy, question_id
from blindspot.backend.checking.pairs import negative_pairs
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import encoder_settings
from blindspot.backend.retrieval.encoder import load_encoder

BLOCK = 512  # passages encoded at a time; questions are encoded once


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
