"""An inverted index of term weights, memory-mapped, with exact scores.

    passages.offsets.npy   (n + 1,) int64     the terms of passage i are at offsets[i]:offsets[i + 1]
    passages.terms.npy     (m,) int32         passages.weights.npy (m,) float32
    terms.offsets.npy      (v + 1,) int64     the passages of term t are at offsets[t]:offsets[t + 1], by row
    postings.rows.npy      (m,) int32         postings.weights.npy (m,) float32

A score is the sum of question weight x passage weight over the shared terms, computed in float64 and rounded once to
float32. A passage that shares no term with the question is never a hit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from blindspot.backend.core.arrays import new_array, open_array
from blindspot.backend.retrieval.retriever import top_k
from blindspot.backend.retrieval.sparse_encoder import TermRows
from blindspot.db.records import Hits


def write_inverted_index(
    folder: Path, blocks: Callable[[], Iterable[TermRows]], term_count: int, passage_count: int
) -> dict[str, int]:
    """Write the index in both directions (passage to terms and term to passages). Return the number of postings and the
    size, {"postings", "bytes"}. Needs memory for one block.

    Args:
        blocks: yields the rows of following passages; it is called twice.
    """
    by_term = np.zeros(term_count + 1, np.int64)
    by_passage = [np.zeros(1, np.int64)]
    for block in blocks():
        by_term[1:] += np.bincount(block.terms, minlength=term_count)
        by_passage.append(block.offsets[1:] + by_passage[-1][-1])
    term_offsets, passage_offsets = np.cumsum(by_term), np.concatenate(by_passage)
    assert len(passage_offsets) == passage_count + 1, "every passage is in one block"
    size = int(term_offsets[-1])
    np.save(folder / "terms.offsets.npy", term_offsets)
    np.save(folder / "passages.offsets.npy", passage_offsets)
    forward_terms = new_array(folder / "passages.terms.npy", np.int32, (size,))
    forward_weights = new_array(folder / "passages.weights.npy", np.float32, (size,))
    rows = new_array(folder / "postings.rows.npy", np.int32, (size,))
    weights = new_array(folder / "postings.weights.npy", np.float32, (size,))
    free, first, written = term_offsets[:-1].copy(), 0, 0  # the next free place of each term
    for block in blocks():
        forward_terms[written : written + len(block.terms)] = block.terms
        forward_weights[written : written + len(block.terms)] = block.weights
        order = np.argsort(block.terms, kind="stable")  # by term, then by row
        terms = block.terms[order]
        counts = np.bincount(terms, minlength=term_count)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        places = free[terms] + np.arange(len(terms)) - starts[terms]
        rows[places] = first + np.repeat(np.arange(len(block)), np.diff(block.offsets))[order]
        weights[places] = block.weights[order]
        free += counts
        first, written = first + len(block), written + len(terms)
    for array in (forward_terms, forward_weights, rows, weights):
        array.flush()
    return {"postings": size, "bytes": sum(path.stat().st_size for path in folder.glob("*.npy"))}


class InvertedIndex:
    """An open index that `write_inverted_index` wrote.

    Args:
        advice: what to do about a damaged file, as the end of a sentence.
    """

    def __init__(self, folder: Path, advice: str):
        def load_array(name: str) -> np.ndarray:
            return open_array(folder / f"{name}.npy", advice)

        self.passages = TermRows(
            load_array("passages.offsets"), load_array("passages.terms"), load_array("passages.weights")
        )
        names = ("terms.offsets", "postings.rows", "postings.weights")
        self._offsets, self._rows, self._weights = map(load_array, names)

    def search(self, questions: TermRows, k: int) -> Hits:
        """Return the k best passages of each question, ties ordered by row, padded with -1."""
        ordinals = np.full((len(questions), k), -1, np.int32)
        scores = np.full((len(questions), k), -np.inf, np.float32)
        sums = np.zeros(len(self.passages), np.float64)
        shares = np.zeros(len(self.passages), bool)
        for i in range(len(questions)):
            sums[:], shares[:] = 0, False
            for term, weight in zip(*(part.tolist() for part in questions.row(i)), strict=True):
                inside = slice(int(self._offsets[term]), int(self._offsets[term + 1]))
                rows = self._rows[inside]
                sums[rows] += weight * self._weights[inside].astype(np.float64)  # a term names a passage once
                shares[rows] = True
            best = _best_rows(np.flatnonzero(shares), sums, k)
            ordinals[i, : len(best[0])], scores[i, : len(best[0])] = best
        return Hits(ordinals, scores)


def _best_rows(rows: np.ndarray, sums: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best rows and their scores. Scores are first rounded to float32, and ties are then
    ordered by row.
    """
    scores = sums[rows].astype(np.float32)
    if len(rows) > k:
        least = np.partition(scores, len(rows) - k)[len(rows) - k]
        rows, scores = rows[scores >= least], scores[scores >= least]
    hits = top_k(rows[None].astype(np.int32), scores[None], min(k, len(rows)))
    return hits.ordinals[0], hits.scores[0]
