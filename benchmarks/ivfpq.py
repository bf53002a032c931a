"""Training an IVF-PQ index: FAISS's own numbers of rounds and training vectors beside ours, on the same vectors.

    python -m benchmarks.ivfpq STUDY [--encoder minilm] [--code-bytes 48]

The study needs a dense index. Prints the seconds of training, the ratio to FAISS's own settings in the same run, and the
recall of the exact top 20, for the vectors of up to 500 questions (else of passages).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.machine import machine
from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.approximate import POINTS_PER_CENTROID, ROUNDS, FaissOptions, train_ivfpq
from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.question_vectors import question_vectors

FAISS_ROUNDS, FAISS_POINTS = 25, 256
QUESTIONS, K = 500, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--code-bytes", type=int, default=48)
    given = parser.parse_args()
    study = Study.open(given.study)
    dense = Dense(study, given.encoder)
    queries = queries_of(study, dense)
    exact = dense.search_vectors(queries, K).ordinals
    print(f"{machine()}; {len(dense.vectors):,} vectors, {len(queries)} queries")
    seconds = {}
    for rounds, points in ((FAISS_ROUNDS, FAISS_POINTS), (ROUNDS, POINTS_PER_CENTROID)):
        started = time.monotonic()
        options = FaissOptions(code_bytes=given.code_bytes)
        index = train_ivfpq(dense, options, rounds=rounds, points=points)
        seconds[rounds] = time.monotonic() - started
        index.add(np.asarray(dense.vectors, np.float32))
        index.nprobe = FaissOptions().probes
        found = index.search(queries, K)[1]
        recall = np.mean([len(set(ours) & set(best)) / K for ours, best in zip(found, exact, strict=True)])
        ratio = seconds[FAISS_ROUNDS] / seconds[rounds]
        print(
            f"{rounds} rounds, {points} vectors a code word: {seconds[rounds]:.1f} s, {ratio:.1f} times, recall {recall:.3f}"
        )


def queries_of(study: Study, dense: Dense) -> np.ndarray:
    """Return vectors (q, d) to search with: those of the first 500 questions, else of passages."""
    questions = study.questions.all()[:QUESTIONS]
    if not questions:
        return np.asarray(dense.vectors[:QUESTIONS], np.float32)
    return question_vectors(study, dense, [question.text for question in questions])


if __name__ == "__main__":
    main()
