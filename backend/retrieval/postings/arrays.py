"""The postings of a BM25 index as memory-mapped arrays, and the search over them.

    postings.documents.npy   (m,) int32       the documents of term t are at offsets[t]:offsets[t + 1], ascending
    postings.pairs.npy       (m,) uint16      the row in `pairs` of each posting
    pairs.npy                (p, 2) int32     the different pairs of a frequency and a norm (Lucene's code of a length)
    terms.offsets.npy        (v + 1,) int64   `offsets` above
    terms.places.npy         (v + 1,) int64   the text of term t is at places[t]:places[t + 1]
    terms.texts.npy          (bytes,) uint8   the terms in UTF-8, in the order of their bytes
    collection.npy           (2,) int64       the number of documents, and of tokens in all of them

The scores are bit-identical to Lucene's: each term's contribution is computed in float32 as in Lucene's BM25Similarity,
and the contributions are added in float64, where such sums are exact, and rounded once. k1 and b are applied at search
time: each posting refers to a pair of frequency and norm, and the contribution of each pair is computed once for each
term of a question.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np

from blindspot.backend.core.arrays import new_array, open_array
from blindspot.backend.core.processor import processors
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.lucene import on_jvm
from blindspot.backend.retrieval.postings.from_lucene import CollectionStatistics, extract, length_table
from blindspot.db.records import Hits

FOLDER = "postings"
POSTINGS_PER_BLOCK = 1 << 22
MOST_PAIRS = 1 << 16
MOST_FREQUENCY = 1 << 16  # limits the table of pairs to 64 MiB
QUESTIONS_PER_CALL = 16
LEAST_SATURATION = 1e-6


@cache
def can_search() -> bool:
    """Return whether the compiled search can be loaded: numba is installed, is compatible with NumPy, and has a folder
    for compiled code.
    """
    try:
        import_module("blindspot.backend.retrieval.postings.kernel")
    except (ImportError, RuntimeError):
        return False
    return True


def write_postings(index: Path, progress: Progress | None = None) -> bool:
    """Write the postings of a Lucene index into its folder. Needs memory for one block of postings and for the distinct
    terms.

    Returns False, and writes nothing, for a collection that the format does not support: more than 65,536 different
    pairs of frequency and length, or a term that occurs more than 65,535 times in one document. Such an index is
    searched with Lucene.
    """
    folder, raw = index / FOLDER, index / "postings.raw"
    folder.mkdir()
    raw.mkdir()
    if progress is not None:
        progress(0, None, "reading Lucene's postings")
    collection: CollectionStatistics = on_jvm(extract, index, raw)
    np.save(folder / "terms.offsets.npy", _piece_bounds(_map_file(raw / "counts", np.dtype("<i4"))))
    np.save(folder / "terms.places.npy", _piece_bounds(_map_file(raw / "lengths", np.dtype("<i4"))))
    np.save(folder / "terms.texts.npy", _map_file(raw / "texts", np.dtype("u1")))
    pairs = _write_documents_and_pairs(raw, folder)
    shutil.rmtree(raw)
    if pairs is None:
        shutil.rmtree(folder)
        return False
    np.save(folder / "pairs.npy", pairs)
    np.save(folder / "collection.npy", np.array(collection, np.int64))
    return True


def _piece_bounds(sizes: np.ndarray) -> np.ndarray:
    """Return the offsets (pieces + 1,) int64 of adjacent pieces with these sizes: the start of each piece, and the end
    of the last one.
    """
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def _map_file(path: Path, dtype: np.dtype) -> np.ndarray:
    """Map a file with extracted Lucene data into memory. For an empty file, which cannot be mapped, return an empty
    array.
    """
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)


def _write_documents_and_pairs(raw: Path, folder: Path) -> np.ndarray | None:
    """Write both arrays of postings (documents and pairs), and return the distinct pairs in the order of their first
    occurrence.
    """
    documents, frequencies = (_map_file(raw / name, np.dtype("<i4")) for name in ("documents", "frequencies"))
    norms = np.fromfile(raw / "norms", np.uint8).astype(np.int64)
    if frequencies.max(initial=0) >= MOST_FREQUENCY:
        return None
    code_of = np.full((int(frequencies.max(initial=0)) + 1) * 256, -1, np.int32)
    known = np.empty(0, np.int64)
    written = new_array(folder / "postings.documents.npy", np.int32, (len(documents),))
    codes = new_array(folder / "postings.pairs.npy", np.uint16, (len(documents),))
    for start in range(0, len(documents), POSTINGS_PER_BLOCK):
        block = slice(start, start + POSTINGS_PER_BLOCK)
        written[block] = documents[block]
        pairs = frequencies[block].astype(np.int64) * 256 + norms[documents[block]]
        fresh = np.unique(pairs[code_of[pairs] < 0])
        code_of[fresh] = np.arange(len(known), len(known) + len(fresh))
        known = np.concatenate([known, fresh])
        if len(known) > MOST_PAIRS:
            return None
        codes[block] = code_of[pairs]
    written.flush()
    codes.flush()
    return np.stack([known // 256, known % 256], axis=1).astype(np.int32)


class Postings:
    """The open postings that `write_postings` wrote.

    Args:
        index: the folder of the index.
        rows: (documents,) int32, the passage row of each document.
    """

    def __init__(self, index: Path, rows: np.ndarray, k1: float, b: float):
        folder, advice = index / FOLDER, "run 'blindspot index bm25' again"

        def load_array(name: str) -> np.ndarray:
            return np.asarray(open_array(folder / f"{name}.npy", advice))

        documents, self._pairs = load_array("postings.documents").view(np.uint32), load_array("postings.pairs")
        self._postings = documents, self._pairs, np.asarray(rows)
        names = ("terms.offsets", "terms.places", "terms.texts")
        self._offsets, self._places, self._texts = map(load_array, names)
        self._collection = CollectionStatistics(*load_array("collection").tolist())
        self._saturation = self._saturations(load_array("pairs"), np.float32(k1), np.float32(b))
        self._descending = np.argsort(-self._saturation, kind="stable")
        self._bounds_k, self._bounds = 0, np.empty(0, np.float32)  # (v, 2) for this k, see `saturation_bounds`

    @property
    def is_exact(self) -> bool:
        """Return whether every posting has a score above 0. In a passage that is millions of times longer than the
        average, Lucene's float32 arithmetic rounds the score of a word to 0.
        """
        return bool(self._saturation.min(initial=1) > LEAST_SATURATION)

    def search(self, questions: Sequence[Sequence[bytes]], k: int) -> Hits:
        """Return the k best passages of each question, ties by row, padded with -1.

        Args:
            questions: the terms of each question, in UTF-8, from Lucene's analysis.
        """
        from blindspot.backend.retrieval.postings.kernel import search

        ends, terms, weights, bounds = self._terms_of(questions, k)
        ranges = np.stack([self._offsets[terms], self._offsets[terms + 1]], axis=1).astype(np.uint64)
        keys = np.zeros((len(questions), k), np.uint64)

        def search_block(start: int) -> None:
            block = slice(start, min(start + QUESTIONS_PER_CALL, len(questions)))
            within = ends[block.start : block.stop + 1]
            search(within, ranges, weights, bounds, self._saturation, self._postings, keys[block])
            keys[block].sort(axis=1)

        with ThreadPoolExecutor(processors()) as pool:
            list(pool.map(search_block, range(0, len(questions), QUESTIONS_PER_CALL)))
        return _hits_from_keys(keys[:, ::-1])

    def find_terms(self, texts: Sequence[bytes]) -> np.ndarray:
        """Return the index of each term, (t,) int64; -1 for a term that does not occur in the collection."""
        from blindspot.backend.retrieval.postings.kernel import find_terms

        starts = _piece_bounds(np.array([len(text) for text in texts], np.int64))
        rows = np.empty(len(texts), np.int64)
        find_terms(self._texts, self._places, np.frombuffer(b"".join(texts), np.uint8), starts, rows)
        return rows

    def _terms_of(self, questions: Sequence[Sequence[bytes]], k: int) -> tuple[np.ndarray, ...]:
        """Return the offsets of the questions' terms (q + 1,), the terms, their weights float32 and their bounds
        (terms, 2) float32. The terms of a question are sorted in ascending order of the maximum that they can add to a
        score.
        """
        from blindspot.backend.retrieval.postings.kernel import saturation_bounds

        counts = [Counter(question) for question in questions]
        number = {text: i for i, text in enumerate(dict.fromkeys(text for each in counts for text in each))}
        rows = self.find_terms(list(number))
        if self._bounds_k != k:
            self._bounds_k, self._bounds = k, np.full((len(self._offsets) - 1, 2), -1, np.float32)
        bounds = self._bounds
        known = rows[rows >= 0]
        saturation_bounds(known, self._offsets, self._pairs, self._descending, self._saturation, k, bounds)
        terms = rows[np.array([number[text] for each in counts for text in each], np.int64)]
        question = np.repeat(np.arange(len(counts)), [len(each) for each in counts])
        known = terms >= 0
        terms, question = terms[known], question[known]
        weights = np.array([times for each in counts for times in each.values()], np.float32)[known] * self._idf(terms)
        order = np.lexsort((weights * (1 - 1 / (1 + bounds[terms, 0])), question))
        ends = _piece_bounds(np.bincount(question, minlength=len(counts)))
        return ends, terms[order], weights[order], bounds[terms[order]]

    def _idf(self, terms: np.ndarray) -> np.ndarray:
        """Return Lucene's inverse document frequency of terms, float32."""
        frequency = (self._offsets[terms + 1] - self._offsets[terms]).astype(np.float64)
        return np.log(1 + (self._collection.documents - frequency + 0.5) / (frequency + 0.5)).astype(np.float32)

    def _saturations(self, pairs: np.ndarray, k1: np.float32, b: np.float32) -> np.ndarray:
        """Return frequency / (k1 * length factor) for each pair, float32, computed in Lucene's order of operations."""
        one = np.float32(1)
        average = np.float32(self._collection.tokens / max(1, self._collection.documents))
        with np.errstate(divide="ignore"):
            inverse = one / (k1 * ((one - b) + b * on_jvm(length_table) / average))
        return pairs[:, 0].astype(np.float32) * inverse[pairs[:, 1]]


def _hits_from_keys(keys: np.ndarray) -> Hits:
    """Convert keys (see `kernel.search`), (q, k) uint64, to hits, best first. A key of 0 means no hit."""
    scores = (keys >> np.uint64(32)).astype(np.uint32).view(np.float32)
    rows = (~keys.astype(np.uint32)).astype(np.int32)
    return Hits(np.where(keys == 0, -1, rows).astype(np.int32), np.where(keys == 0, -np.inf, scores).astype(np.float32))
