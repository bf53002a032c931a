"""Exact nearest-neighbour search over stored float16 vectors.

The hits are guaranteed to be those of exact products of the stored float16 vectors, with every score rounded once to
float32 and ties ordered by row, on every device and for every block size. A 16-bit product is used only to select
candidates, whose scores are computed again in float64. If, within the error of the product, a passage outside the
candidates could still be better, the question is searched again exhaustively (`products` contains the error bound and
its proof).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.exact.exhaustive import PassageBlock, search_exhaustively
from blindspot.backend.retrieval.exact.products import RoundedQueries
from blindspot.backend.retrieval.exact.scores import CandidateHits, exact_scores
from blindspot.backend.retrieval.retriever import pad_hits, search_in_blocks
from blindspot.db.errors import Refused
from blindspot.db.records import Hits


class CandidateSource(Protocol):
    """The interface of candidate selection, implemented by `cpu.CPUSearch` for CPUs and `gpu.GPUSearch` for GPUs."""

    questions_per_block: int

    def find_candidates(self, questions: np.ndarray, k: int, progress: Progress | None = None) -> CandidateHits: ...

    def round_questions(self, questions: np.ndarray) -> RoundedQueries: ...

    def blocks(self) -> Iterable[PassageBlock]: ...


def default_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


class ExactSearch:
    """Exact search over all rows of `vectors`.

    Args:
        vectors: (n, d) float16, may be a memory map. GPUs hold the vectors if they fit, and stream them otherwise.
        similarity: "dot" (also for cosine over vectors of unit length) or "l2" (score: minus the squared distance).
        device: "cpu", "cuda" (every GPU, each with a share of the rows) or "cuda:1" (default: GPUs if there are any).
    """

    def __init__(self, vectors: np.ndarray, similarity: str = "dot", device: str | None = None):
        if vectors.ndim != 2 or vectors.dtype != np.float16:
            raise Refused(f"vectors must be (n, d) float16, not {vectors.shape} {vectors.dtype}")
        if similarity not in ("dot", "l2"):
            raise Refused(f"similarity must be dot or l2, not {similarity!r}")
        self.vectors, self.similarity = vectors, similarity
        self.proposer = _candidate_source(vectors, similarity, device or default_device())

    def search(self, questions: np.ndarray, k: int, progress: Progress | None = None) -> Hits:
        """Return the k best rows for each question vector.

        Args:
            questions: (q, d) float32.
            k: hits per question; beyond n the rows are padded with -1.

        Raises Refused for questions of the wrong width, and for questions or stored vectors that are not finite.
        """
        questions = checked_question_vectors(questions, self.vectors.shape[1])
        depth = min(k, len(self.vectors))

        def search_block(block: slice) -> Hits:
            return self._search_block(questions[block], depth, progress)

        if not depth or not len(questions):
            hits = Hits(np.empty((len(questions), 0), np.int32), np.empty((len(questions), 0), np.float32))
        else:
            size = self.proposer.questions_per_block
            hits = search_in_blocks(questions, depth, size, search_block, (progress, "searching the vectors"))
        return hits if hits.k == k else pad_hits(hits, k)

    def score(self, questions: np.ndarray, ordinals: np.ndarray) -> np.ndarray:
        """Return the exact scores (q, m) float32 of the rows `ordinals` (q, m) int32; -inf for -1."""
        return exact_scores(
            self.vectors, checked_question_vectors(questions, self.vectors.shape[1]), ordinals, self.similarity
        )

    def _search_block(self, questions: np.ndarray, k: int, progress: Progress | None) -> Hits:
        proposed = self.proposer.find_candidates(questions, k, progress)
        hits = proposed.hits
        unproven = np.flatnonzero(hits.scores[:, -1] <= proposed.upper_bounds.astype(np.float32))
        if len(unproven):
            doubtful = questions[unproven]
            hits.ordinals[unproven], hits.scores[unproven] = search_exhaustively(
                self.proposer.blocks(),
                self.vectors,
                doubtful,
                self.proposer.round_questions(doubtful),
                k,
                hits.scores[unproven, -1],
            )
        return hits


def checked_question_vectors(questions: np.ndarray, width: int) -> np.ndarray:
    """Return question vectors as (q, d) float32. Raises Refused for vectors of another width than the index, and for
    vectors with NaN or infinity.
    """
    questions = np.ascontiguousarray(questions, dtype=np.float32)
    if questions.ndim != 2 or questions.shape[1] != width:
        raise Refused(f"question vectors have shape {questions.shape}, but the index has {width} dimensions")
    if not np.isfinite(questions).all():
        raise Refused("a question vector contains NaN or infinity; the encoder is broken")
    return questions


def _candidate_source(vectors: np.ndarray, similarity: str, device: str) -> CandidateSource:
    if device == "cpu":
        from blindspot.backend.retrieval.exact.cpu import CPUSearch

        return CPUSearch(vectors, similarity)
    from blindspot.backend.retrieval.exact.gpu import GPUSearch, devices

    return GPUSearch(vectors, similarity, devices(device))
