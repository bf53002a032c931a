"""Select candidates on CPUs: compute 16-bit products for blocks of rows, and drop the rows that can no longer be among
the best.

Each block is converted just before it is used, so memory holds the vectors only once, in the format on disk. A single
question is multiplied with the stored vectors directly, because reading the vectors dominates its time.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from blindspot.backend.retrieval.exact.candidate_table import CandidateTable
from blindspot.backend.retrieval.exact.exhaustive import PassageBlock
from blindspot.backend.retrieval.exact.products import (
    Extent,
    Precision,
    RoundedQueries,
    disable_reduced_precision,
    extent_of,
    merge_extents,
)
from blindspot.backend.retrieval.exact.scores import CandidateHits, exact_best
from blindspot.backend.retrieval.exact.workers import run_in_threads, threads

if TYPE_CHECKING:
    import torch

BYTES_PER_BLOCK = 5 << 20  # of converted rows and their products: small blocks fit the cache, large ones need few calls
BYTES_PER_FACTOR, BYTES_PER_PRODUCT = 4 + 2, 2  # float32 and bfloat16; bfloat16
ROWS_PER_READING = 8192  # minimum rows per block for one question
READINGS = 4  # blocks per thread for one question, if the blocks are not too long
ROWS_IN_SAMPLE = 2048  # their products give the first floors
GROUPS = 8  # groups of sampled rows per hit


class CPUSearch:
    """Selects candidates among all rows of `vectors` (n, d) float16. similarity: "dot" or "l2"."""

    questions_per_block = 2048

    def __init__(self, vectors: np.ndarray, similarity: str):
        import torch

        self.vectors, self.similarity = vectors, similarity
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the memory map is read-only; this code never writes to it
            self._rows = torch.from_numpy(vectors)

    def find_candidates(self, questions: np.ndarray, k: int, progress=None) -> CandidateHits:
        """Return the k best of the candidate rows by exact score.

        Args:
            questions: (q, d) float32, finite.
            k: at most n.
        """
        disable_reduced_precision()
        precision = self._choose_precision(len(questions))
        rounded = RoundedQueries(questions, self.similarity, precision, self._score_extent)
        rows = self._rows_together(precision, len(questions))
        table = CandidateTable(rounded, k, rows)
        workers = 1 if precision.operands == "float32" else threads()  # OpenBLAS computes float32 in its own threads
        table.set_floors(self._sample_products(rounded, k, rows, workers))

        def add_candidates(starts: Iterable[int]) -> None:
            product = _Product(self._rows, self._score_extent.squares, rounded, rows)
            for start in starts:
                table.add(start, product(start, min(start + rows, len(self.vectors))))

        run_in_threads(range(0, len(self.vectors), rows), add_candidates, workers)
        ordinals, threshold = table.result()
        hits = exact_best(self.vectors, questions, ordinals, self.similarity, k)
        return CandidateHits(hits, rounded.score_upper_bound(threshold))

    def _sample_products(self, queries: RoundedQueries, k: int, row_count: int, workers: int) -> np.ndarray:
        """Return the largest product of each group of sampled rows, (q, groups) float32.

        The sample consists of blocks of rows at equal distances, so that it represents the whole collection.
        """
        import torch

        row_count = min(row_count, ROWS_IN_SAMPLE)
        starts = range(0, len(self.vectors), row_count)
        sampled = starts[:: -(-len(starts) * row_count // ROWS_IN_SAMPLE)]
        per_group = max(1, min(row_count, ROWS_IN_SAMPLE // (GROUPS * k)))
        maxima: list[torch.Tensor] = []

        def measure(row_ranges: Iterable[int]) -> None:
            product = _Product(self._rows, self._score_extent.squares, queries, row_count)
            for start in row_ranges:
                products = product(start, min(start + row_count, len(self.vectors)))
                maxima.append(_group_maxima(products, per_group))

        run_in_threads(sampled, measure, workers)
        return torch.cat(maxima, 1).float().numpy()

    def round_questions(self, questions: np.ndarray) -> RoundedQueries:
        """Return the questions rounded for a product in float32."""
        return RoundedQueries(questions, self.similarity, Precision("float32", "float32"), self._score_extent)

    def blocks(self) -> Iterable[PassageBlock]:
        import torch

        for start in range(0, len(self.vectors), self._rows_per_block):
            rows, squares = self._rows[start : start + self._rows_per_block], self._score_extent.squares
            yield PassageBlock(
                start, rows, None if squares is None else torch.from_numpy(squares[start : start + len(rows)])
            )

    @property
    def _rows_per_block(self) -> int:
        return _power_of_two(BYTES_PER_BLOCK // (BYTES_PER_FACTOR * self.vectors.shape[1]))

    def _rows_together(self, precision: Precision, question_count: int) -> int:
        if precision.operands != "float16":
            bytes_per_row = BYTES_PER_FACTOR * self.vectors.shape[1] + BYTES_PER_PRODUCT * question_count
            return _power_of_two(BYTES_PER_BLOCK // bytes_per_row)
        return min(max(ROWS_PER_READING, len(self.vectors) // (READINGS * threads())), 8 * ROWS_PER_READING)

    def _choose_precision(self, question_count: int) -> Precision:
        if self.similarity == "dot" and question_count == 1:
            return Precision("float16", "float16")
        if self.similarity == "dot" and multiplies_bfloat16():
            return Precision("bfloat16", "bfloat16")
        return Precision("float32", "float32")

    @cached_property
    def _score_extent(self) -> Extent:
        starts = range(0, len(self.vectors), self._rows_per_block)
        parts: dict[int, tuple] = {}

        def measure(row_ranges: Iterable[int]) -> None:
            for start in row_ranges:
                norm, lost, squares = extent_of(self._rows[start : start + self._rows_per_block])
                parts[start] = norm, lost, squares.numpy()

        run_in_threads(starts, measure, threads())
        return merge_extents([parts[start] for start in starts], self.similarity == "l2", self.vectors.shape[1])


def multiplies_bfloat16() -> bool:
    """Return whether this processor has hardware instructions for bfloat16 products, which are at least twice as fast
    as float32.
    """
    import torch

    capabilities: dict[str, bool] = getattr(torch.cpu, "get_capabilities", dict)()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


class _Product:
    """Products of a batch of questions with blocks of rows, in buffers that one thread reuses."""

    def __init__(self, stored: torch.Tensor, squares: np.ndarray | None, queries: RoundedQueries, row_count: int):
        import torch

        self._stored, self._squares, self._rounded, self._rows = stored, squares, queries, row_count
        self._operand = queries.operand
        precision, width = queries.precision, stored.shape[1]
        self._scores = torch.empty((len(self._operand), row_count), dtype=getattr(torch, precision.scores))
        if precision.operands != "float16":
            self._wide = torch.empty((row_count, width))
            self._narrow = (
                torch.empty((row_count, width), dtype=torch.bfloat16) if precision.operands == "bfloat16" else None
            )

    def __call__(self, start: int, end: int) -> torch.Tensor:
        """Return the products (q, rows) with the rows from `start` to `end`. The next call overwrites them."""
        import torch

        rows, count = self._stored[start:end], end - start
        scores = (
            self._scores if count == self._rows else torch.empty((len(self._operand), count), dtype=self._scores.dtype)
        )
        with torch.inference_mode():
            if self._rounded.precision.operands == "float16":
                return torch.mm(self._operand, rows.T, out=scores)
            block = self._wide[:count].copy_(rows)
            if self._narrow is not None:
                return torch.mm(self._operand, self._narrow[:count].copy_(block).T, out=scores)
            np.matmul(self._operand.numpy(), block.numpy().T, out=scores.numpy())
            if self._squares is not None:
                scores.mul_(torch.from_numpy(self._rounded.factors)[:, None]).sub_(
                    torch.from_numpy(self._squares[start:end])
                )
            return scores


def _group_maxima(products: torch.Tensor, per_group: int) -> torch.Tensor:
    """Return the maximum over each group of about `per_group` columns of the products (q, m), as (q, groups)."""
    groups = max(1, products.shape[1] // per_group)
    per_group = products.shape[1] // groups
    return products[:, : groups * per_group].unflatten(1, (per_group, groups)).amax(1)


def _power_of_two(row_count: int) -> int:
    """Round down to a power of two, at least 64."""
    return 1 << max(6, row_count.bit_length() - 1)
