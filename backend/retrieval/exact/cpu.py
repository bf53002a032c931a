"""Candidates on CPUs: blocks of rows go through a 16-bit product, and a sieve drops the rows that can no longer be
among the best.

A block is converted where it is used, so memory holds the vectors only once, as they are on disk. A single question is
multiplied with the stored vectors directly, because reading them dominates its time.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from backend.retrieval.exact.candidates import CandidateHits
from backend.retrieval.exact.exhaustive import PassageBlock
from backend.retrieval.exact.products import Extent, Precision, RoundedQueries, extent_of, joined, keep_products_plain
from backend.retrieval.exact.scores import exact_scores
from backend.retrieval.exact.workers import share_out, threads
from backend.retrieval.retriever import top_k

if TYPE_CHECKING:
    import torch

FACTORS_PER_BLOCK = 1 << 19  # numbers in a block of rows; a converted block fits the processor's cache
ROWS_PER_READING = 8192  # minimum rows per block for one question
ROWS_TO_BEGIN = 2048  # number of first rows; their k-th score is the sieve's first floor
READINGS = 4  # blocks per thread, if the blocks are not too long
CANDIDATES = 4  # limits of the candidates kept: in units of k, and
MORE_CANDIDATES = 256


class Sieve:
    """Candidates among all rows of `vectors` (n, d) float16; similarity "dot" or "l2"."""

    questions_per_block = 2048

    def __init__(self, vectors: np.ndarray, similarity: str):
        import torch

        self.vectors, self.similarity = vectors, similarity
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # the memory map is read-only, and this code never writes to it
            self._rows = torch.from_numpy(vectors)

    def propose(self, questions: np.ndarray, k: int, progress=None) -> CandidateHits:
        """Return the k best of the candidate rows by exact score.

        Args:
            questions: (q, d) float32, finite.
            k: at most n.
        """
        keep_products_plain()
        precision = self._precision(len(questions))
        rounded = RoundedQueries(questions, self.similarity, precision, self._extent)
        caught, rows = _SharedCandidates(rounded, k), self._rows_together(precision)
        n_first = min(rows, ROWS_TO_BEGIN, len(self.vectors))
        first = _Product(self._rows, self._extent.squares, rounded, n_first)(0, n_first)
        caught.begin(first)
        caught.add(0, first)

        def sift(starts: Iterable[int]) -> None:
            product = _Product(self._rows, self._extent.squares, rounded, rows)
            for start in starts:
                caught.add(start, product(start, min(start + rows, len(self.vectors))))

        # OpenBLAS computes float32 products with its own threads.
        share_out(range(n_first, len(self.vectors), rows), sift, 1 if precision.operands == "float32" else threads())
        ordinals, threshold = caught.result()
        scores = exact_scores(self.vectors, questions, ordinals, self.similarity)
        return CandidateHits(top_k(ordinals, scores, k), rounded.at_most(threshold))

    def rounded(self, questions: np.ndarray) -> RoundedQueries:
        """Return the questions rounded for a product in float32."""
        return RoundedQueries(questions, self.similarity, Precision("float32", "float32"), self._extent)

    def blocks(self) -> Iterable[PassageBlock]:
        import torch

        for start in range(0, len(self.vectors), self._rows_per_block):
            rows, squares = self._rows[start : start + self._rows_per_block], self._extent.squares
            yield PassageBlock(
                start, rows, None if squares is None else torch.from_numpy(squares[start : start + len(rows)])
            )

    @property
    def _rows_per_block(self) -> int:
        return 1 << max(6, (FACTORS_PER_BLOCK // self.vectors.shape[1]).bit_length() - 1)

    def _rows_together(self, precision: Precision) -> int:
        if precision.operands != "float16":
            return self._rows_per_block
        return min(max(ROWS_PER_READING, len(self.vectors) // (READINGS * threads())), 8 * ROWS_PER_READING)

    def _precision(self, questions: int) -> Precision:
        if self.similarity == "dot" and questions == 1:
            return Precision("float16", "float16")
        if self.similarity == "dot" and multiplies_bfloat16():
            return Precision("bfloat16", "bfloat16")
        return Precision("float32", "float32")

    @cached_property
    def _extent(self) -> Extent:
        starts = range(0, len(self.vectors), self._rows_per_block)
        parts: dict[int, tuple] = {}

        def measure(some: Iterable[int]) -> None:
            for start in some:
                norm, lost, squares = extent_of(self._rows[start : start + self._rows_per_block])
                parts[start] = norm, lost, squares.numpy()

        share_out(starts, measure, threads())
        return joined([parts[start] for start in starts], self.similarity == "l2", self.vectors.shape[1])


def multiplies_bfloat16() -> bool:
    """Return whether this processor multiplies bfloat16 in hardware, at least twice as fast as float32."""
    import torch

    capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


class _Product:
    """Products of a batch of questions with blocks of rows, in buffers that one thread reuses."""

    def __init__(self, stored: torch.Tensor, squares: np.ndarray | None, rounded: RoundedQueries, rows: int):
        import torch

        self._stored, self._squares, self._rounded, self._rows = stored, squares, rounded, rows
        self._operand = rounded.operand
        precision, width = rounded.precision, stored.shape[1]
        self._scores = torch.empty((len(self._operand), rows), dtype=getattr(torch, precision.scores))
        if precision.operands != "float16":
            self._wide = torch.empty((rows, width))
            self._narrow = (
                torch.empty((rows, width), dtype=torch.bfloat16) if precision.operands == "bfloat16" else None
            )

    def __call__(self, start: int, stop: int) -> torch.Tensor:
        """Return the products (q, rows) with the rows from start to stop. The next call overwrites them."""
        import torch

        rows, count = self._stored[start:stop], stop - start
        scores = (
            self._scores if count == self._rows else torch.empty((len(self._operand), count), dtype=self._scores.dtype)
        )
        with torch.inference_mode():
            if self._rounded.precision.operands == "float16":
                torch.mv(rows, self._operand[0], out=scores[0])
                return scores
            block = self._wide[:count].copy_(rows)
            if self._narrow is not None:
                return torch.mm(self._operand, self._narrow[:count].copy_(block).T, out=scores)
            np.matmul(self._operand.numpy(), block.numpy().T, out=scores.numpy())
            if self._squares is not None:
                scores.mul_(torch.from_numpy(self._rounded.factors)[:, None]).sub_(
                    torch.from_numpy(self._squares[start:stop])
                )
            return scores


class _SharedCandidates:
    """The candidates of all threads so far. For each question, no row outside the candidates has a product above the
    question's floor.
    """

    def __init__(self, rounded: RoundedQueries, k: int):
        import torch

        self._rounded, self._k, self._most = rounded, k, CANDIDATES * k + MORE_CANDIDATES
        self._dtype = getattr(torch, rounded.precision.scores)
        self._lock, self._sorting = threading.Lock(), threading.Lock()
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._waiting, self._budget = 0, max(4096, len(rounded.operand) * k)
        self._set_floor(np.full(len(rounded.operand), -np.inf, np.float32))

    def begin(self, products: torch.Tensor) -> None:
        """Set the first floors from the products (q, m) of some rows."""
        if products.shape[1] >= self._k:
            self._raise(_kth_largest(products.float().numpy(), self._k))

    def add(self, start: int, products: torch.Tensor) -> None:
        """Add the products (q, m) with m rows from row `start` on."""
        index = np.flatnonzero(self._passes(products))
        if not len(index):
            return
        questions, columns = np.divmod(
            index.astype(np.uint32) if products.numel() < 1 << 32 else index, np.uint32(products.shape[1])
        )
        scores = products.view(-1)[_tensor(index)].float().numpy()
        with self._lock:
            self._parts.append((questions.astype(np.int32), columns.astype(np.int32) + start, scores))
            self._waiting += len(scores)
            full = self._waiting > self._budget
        if full and self._sorting.acquire(blocking=False):
            try:
                self._sort()
            finally:
                self._sorting.release()

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the candidates (q, m) int32, padded with -1, and the floors (q,) float32."""
        self._sort()
        questions, ordinals, _ = self._parts[0]
        counts = np.bincount(questions, minlength=len(self._floor))
        candidates = np.full((len(self._floor), counts.max(initial=1)), -1, np.int32)
        candidates[questions, _places(counts)] = ordinals
        return candidates, self._floor

    def _sort(self) -> None:
        """Merge the candidates into one part ordered by question, raise the floors, and drop the candidates below
        them.
        """
        with self._lock:
            parts, self._parts, self._waiting = self._parts, [], 0
        questions, ordinals, scores = (np.concatenate(part) for part in zip(*parts))
        order = np.argsort(questions, kind="stable")  # a merge sort: each part is already in order
        questions, scores = questions[order], scores[order]
        self._raise(_kth_of_each(questions, scores, len(self._floor), self._k))
        above = np.flatnonzero(scores >= self._floor[questions])
        crowded = _kth_of_each(questions[above], scores[above], len(self._floor), self._most + 1)
        if np.isfinite(crowded).any():
            self._set_floor(np.maximum(self._floor, crowded))
            above = above[_best_of_each(questions[above], scores[above], crowded, self._most)]
        with self._lock:
            self._parts.insert(0, (questions[above], ordinals[order[above]], scores[above]))

    def _raise(self, kth: np.ndarray) -> None:
        """Raise the floors, given the k-th best products so far, `kth` (q,). A row whose score is lower by more than
        the rounding errors of both rows is dropped.
        """
        self._set_floor(np.maximum(self._floor, self._rounded_down(kth - 2 * self._rounded.slack(kth))))

    def _rounded_down(self, floor: np.ndarray) -> np.ndarray:
        """Round the floors down to representable products, so that a product equal to its floor compares as equal."""
        import torch

        nearest = torch.from_numpy(floor).to(self._dtype).double().numpy()
        step = 2.0**-6 * np.abs(np.where(np.isfinite(floor), floor, 0)) + 2.0**-24
        lower = torch.from_numpy(floor - step).to(self._dtype).double().numpy()
        return np.where(nearest <= floor, nearest, lower).astype(np.float32)

    def _set_floor(self, floor: np.ndarray) -> None:
        """Set the floors (q,) and their form for comparison."""
        import torch

        narrow = torch.from_numpy(floor).to(self._dtype)
        sixteen = self._dtype != torch.float32 and bool((floor > 0).all())
        self._floor, self._compared = floor, (narrow.view(torch.int16).numpy() if sixteen else None, narrow)

    def _passes(self, products: torch.Tensor) -> np.ndarray:
        """Return which products pass the floors, (q, m) bool. Positive 16-bit floats have the order of their bits read
        as integers, which compare faster.
        """
        import torch

        bits, floor = self._compared
        if bits is not None:
            return products.view(torch.int16).numpy() > bits[:, None]
        if products.dtype == torch.float32:
            return products.numpy() > floor.numpy()[:, None]
        return (products > floor[:, None]).numpy()


def _kth_largest(scores: np.ndarray, k: int) -> np.ndarray:
    """Return the k-th largest value of each row, (q,)."""
    return np.partition(scores, scores.shape[1] - k, axis=1)[:, -k]


def _kth_of_each(questions: np.ndarray, scores: np.ndarray, count: int, k: int) -> np.ndarray:
    """Return the k-th largest score of each question, (count,) float32; -inf for a question with fewer scores.
    `questions` (m,) is sorted.

    Questions with similar numbers of scores are laid out as rows of one matrix, so that one question with very many
    scores does not widen all rows.
    """
    counts = np.bincount(questions, minlength=count)
    kth, places, fewest = np.full(count, -np.inf, np.float32), _places(counts), k
    while fewest <= counts.max(initial=0):
        chosen = (counts >= fewest) & (counts < 2 * fewest)
        if chosen.any():
            here, row = chosen[questions], np.cumsum(chosen) - 1
            table = np.full((row[-1] + 1, counts[chosen].max()), -np.inf, np.float32)
            table[row[questions[here]], places[here]] = scores[here]
            kth[chosen] = _kth_largest(table, k)
        fewest *= 2
    return kth


def _best_of_each(questions: np.ndarray, scores: np.ndarray, limit: np.ndarray, most: int) -> np.ndarray:
    """Return a mask (m,) of the scores above their question's limit, plus as many of the equal scores as `most`
    allows.
    """
    above, equal = scores > limit[questions], np.flatnonzero(scores == limit[questions])
    room = most - np.bincount(questions[above], minlength=len(limit))
    above[equal[_places(np.bincount(questions[equal], minlength=len(limit))) < room[questions[equal]]]] = True
    return above


def _places(counts: np.ndarray) -> np.ndarray:
    """Return 0, 1, ... within each run of `counts`."""
    return np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)


def _tensor(index: np.ndarray) -> torch.Tensor:
    import torch

    return torch.from_numpy(index)
