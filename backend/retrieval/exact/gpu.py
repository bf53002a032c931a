"""Select candidates on GPUs. Each GPU holds a part of the rows in float16, or streams them from the host if its memory
is too small.

A block of rows is multiplied with all questions at once (float16 inputs and outputs, sums in float32). Selecting the
best of 21 million columns would cost more than the product, so rows are selected by groups. One pass computes the
maximum score of every 32 rows. The best m rows are in the m groups with the largest maxima, because a row in any other
group is no better than that group's maximum and therefore no better than m other rows. No step loops over questions,
and the host does not wait for the device until the end.

The same code runs on CPU tensors, where the tests compare it with brute force. It has not been measured on a GPU yet.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.exact.exhaustive import PassageBlock
from blindspot.backend.retrieval.exact.products import (
    Extent,
    Precision,
    RoundedQueries,
    disable_reduced_precision,
    extent_of,
    merge_extents,
)
from blindspot.backend.retrieval.exact.scores import CandidateHits, exact_scores
from blindspot.backend.retrieval.exact.staging import Staging
from blindspot.backend.retrieval.retriever import top_k
from blindspot.db.errors import Refused
from blindspot.db.records import Hits

if TYPE_CHECKING:
    import torch

GROUP = 32  # rows in a group
MARGIN = 32  # candidates beyond k to score exactly
SCORES_PER_BLOCK = 1 << 30  # numbers in a product: 2 GiB in float16
ROWS_PER_BLOCK = 1 << 22  # rows in a product with few questions
ROWS_PER_TRANSFER = 1 << 16  # rows copied from the host to the device at once
FACTORS_PER_BLOCK = 1 << 25  # float64 factors at once in exact scoring: 256 MiB
MEMORY_SHARE = 0.8  # share of the free memory for rows
MIN_SCORES = 1 << 20  # minimum scores in a block; if even these do not fit, the rows move to the host


def devices(name: str) -> list[str]:
    """Return the devices that a name stands for: "cuda" is every GPU, "cuda:1" is one GPU. Raises Refused if there is
    no GPU.
    """
    import torch

    if not torch.cuda.is_available():
        raise Refused(f"no GPU found for device {name!r}; omit the device, or use cpu")
    if name != "cuda":
        return [name]
    return [f"cuda:{i}" for i in range(torch.cuda.device_count())]


class GPUSearch:
    """Selects candidates among all rows of `vectors` (n, d) float16, divided among `devices`. similarity: "dot" or
    "l2".
    """

    questions_per_block = 2048

    def __init__(self, vectors: np.ndarray, similarity: str, devices: list[str]):
        self.vectors, self.similarity = vectors, similarity
        bounds = np.linspace(0, len(vectors), min(len(devices), len(vectors)) + 1).astype(int).tolist()
        self._shards = [
            GPUShard(vectors, start, stop, similarity, device)
            for device, start, stop in zip(devices, bounds, bounds[1:], strict=False)
        ]
        self._extent: Extent | None = None
        self._loading = threading.Lock()

    def find_candidates(self, questions: np.ndarray, k: int, progress: Progress | None = None) -> CandidateHits:
        """Return the k best of the candidate rows by exact score.

        Args:
            questions: (q, d) float32, finite.
            k: at most n.
        """
        disable_reduced_precision()
        extent = self._load_shards(progress)
        precision = Precision("float16", "float16" if self.similarity == "dot" else "float32")
        rounded = RoundedQueries(questions, self.similarity, precision, extent, self._shards[0].device)
        parts = self._per_device(lambda shard: shard.find_candidates(questions, rounded, k, progress))
        if len(parts) == 1:
            return parts[0]
        ordinals, scores = (
            np.concatenate([getattr(part.hits, name) for part in parts], 1) for name in ("ordinals", "scores")
        )
        return CandidateHits(top_k(ordinals, scores, k), np.max([part.upper_bounds for part in parts], 0))

    def round_questions(self, questions: np.ndarray) -> RoundedQueries:
        """Return the questions rounded for a product in float32."""
        return RoundedQueries(questions, self.similarity, Precision("float32", "float32"), self._load_shards(None))

    def blocks(self) -> Iterable[PassageBlock]:
        for shard in self._shards:
            yield from shard.blocks(ROWS_PER_TRANSFER)

    def _load_shards(self, progress: Progress | None) -> Extent:
        with self._loading:
            if self._extent is None:
                shared_progress = _JointProgress(progress, len(self.vectors))
                parts = [
                    part
                    for measured in self._per_device(lambda shard: shard.load(shared_progress))
                    for part in measured
                ]
                self._extent = merge_extents(parts, False, self.vectors.shape[1])
        return self._extent

    def _per_device(self, work: Callable[[GPUShard], object]) -> list:
        if len(self._shards) == 1:
            return [work(self._shards[0])]
        with ThreadPoolExecutor(len(self._shards)) as pool:
            return list(pool.map(work, self._shards))


class _JointProgress:
    """Adds up the progress of several shards."""

    def __init__(self, progress: Progress | None, total: int):
        self._progress, self._total, self._rows, self._lock = progress, total, 0, threading.Lock()

    def __call__(self, row_count: int, noun: str = "loading the vectors to the GPU") -> None:
        with self._lock:
            self._rows += row_count
            if self._progress is not None:
                self._progress(self._rows, self._total, noun)


class GPUShard:
    """A range of rows on one device."""

    def __init__(self, vectors: np.ndarray, start: int, end: int, similarity: str, device: str):
        self.device, self.resident = device, False
        self._vectors, self._start, self._stop, self._similarity = vectors, start, end, similarity
        self._rows: torch.Tensor | None = None
        self._squares: torch.Tensor | None = None
        self._scores_per_block = SCORES_PER_BLOCK
        self._busy = threading.Lock()

    def load(self, progress: _JointProgress) -> list[tuple[float, float, np.ndarray]]:
        """Copy the rows to the device if they fit, and return the `extent_of` each block."""
        import torch

        with torch.inference_mode():
            target = self._allocate()
            self.resident = target is not None
            if not self.resident:
                progress(0, self._streaming_message)
            parts, squares = [], []
            for first, rows in self._staging().blocks():
                if target is not None:
                    target[first - self._start : first - self._start + len(rows)] = rows
                norm, lost, extent = extent_of(rows)
                squares.append(extent)
                parts.append((norm, lost, extent.cpu().numpy()))
                progress(len(rows))
            self._rows = target
            self._squares = torch.cat(squares) if self._similarity == "l2" else None
        return parts

    def find_candidates(
        self, questions: np.ndarray, queries: RoundedQueries, k: int, progress: Progress | None
    ) -> CandidateHits:
        """Return the candidates among this device's rows. If the device runs out of memory, smaller blocks are tried,
        and then the rows are streamed from the host.
        """
        import torch

        with self._busy, torch.inference_mode():
            while True:
                try:
                    scores, ordinals = self._best_products(queries, min(k + MARGIN, self._stop - self._start))
                    threshold = scores.min(1).values.float().cpu().numpy()
                    if ordinals.shape[1] == self._stop - self._start:
                        threshold[:] = -np.inf
                    return CandidateHits(
                        self._order_scores(questions, ordinals, k), queries.score_upper_bound(threshold)
                    )
                except torch.OutOfMemoryError as error:
                    self._make_room(error, progress)

    def blocks(self, block_rows: int) -> Iterator[PassageBlock]:
        for first, block in self._read_blocks(block_rows):
            places = slice(first - self._start, first - self._start + len(block))
            yield PassageBlock(first, block, None if self._squares is None else self._squares[places])

    @property
    def _streaming_message(self) -> str:
        return (
            f"rows {self._start:,} to {self._stop:,} do not fit in the memory of {self.device}; every batch of "
            "questions reads them from the host, which is slower"
        )

    def _allocate(self) -> torch.Tensor | None:
        """Allocate device memory for the rows; return None if there is not enough."""
        import torch

        shape = (self._stop - self._start, self._vectors.shape[1])
        if (
            self.device.startswith("cuda")
            and 2 * shape[0] * shape[1] > MEMORY_SHARE * torch.cuda.mem_get_info(self.device)[0]
        ):
            return None
        try:
            return torch.empty(shape, dtype=torch.float16, device=self.device)
        except torch.OutOfMemoryError:
            return None

    def _make_room(self, error: Exception, progress: Progress | None) -> None:
        import torch

        if self._scores_per_block > MIN_SCORES:
            self._scores_per_block //= 4
        elif self.resident:
            self._rows, self.resident, self._scores_per_block = None, False, SCORES_PER_BLOCK
            if progress is not None:
                progress(0, None, self._streaming_message)
        else:
            raise Refused(
                f"{self.device} has too little memory for any search; free some memory, or use device cpu"
            ) from error
        if self.device.startswith("cuda"):
            torch.cuda.empty_cache()

    def _staging(self) -> Staging:
        return Staging(self._vectors, self._start, self._stop, ROWS_PER_TRANSFER, self.device)

    def _read_blocks(self, block_rows: int) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield (first row, rows (m, d) float16 on the device). The next block overwrites the rows."""
        if self._rows is None:
            yield from self._staging().blocks()
            return
        for first in range(0, len(self._rows), block_rows):
            yield self._start + first, self._rows[first : first + block_rows]

    def _best_products(self, queries: RoundedQueries, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the scores and rows (q, count) of the `count` largest products, in no order."""
        import torch

        operand = queries.operand.to(self.device)
        factors = torch.from_numpy(queries.factors).to(self.device)
        best: tuple[torch.Tensor, torch.Tensor] | None = None
        for first, rows in self._read_blocks(
            min(ROWS_PER_BLOCK, max(GROUP, self._scores_per_block // len(operand) // GROUP * GROUP))
        ):
            product = _padded_products(rows, operand, getattr(torch, queries.precision.scores))
            if self._squares is not None:
                places = slice(first - self._start, first - self._start + len(rows))
                product[: len(rows)].mul_(factors).sub_(self._squares[places, None])
            found, where = best_rows(product, min(count, len(rows)))
            where += first
            del product  # free the product before the next one is allocated
            best = (found, where) if best is None else best_of_both(best, (found, where), count)
        assert best is not None, "there is at least one block of rows"
        return best

    def _order_scores(self, questions: np.ndarray, ordinals: torch.Tensor, k: int) -> Hits:
        """Return the k best of the rows `ordinals` (q, m) by exact score, ties ordered by row."""
        ordinals = ordinals.sort(dim=1).values
        scores, order = self._exact_scores(questions, ordinals).sort(dim=1, descending=True, stable=True)
        return Hits(ordinals.gather(1, order)[:, :k].int().cpu().numpy(), scores[:, :k].cpu().numpy())

    def _exact_scores(self, questions: np.ndarray, ordinals: torch.Tensor) -> torch.Tensor:
        """Return the exact scores of rows `ordinals` (q, m), (q, m) float32."""
        import torch

        if self._rows is None:
            scores = exact_scores(self._vectors, questions, ordinals.int().cpu().numpy(), self._similarity)
            return torch.from_numpy(scores).to(self.device)
        asked = torch.from_numpy(questions).to(self.device)
        exact = torch.empty(ordinals.shape, device=self.device)
        per_block = max(1, FACTORS_PER_BLOCK // (ordinals.shape[1] * questions.shape[1]))
        for first in range(0, len(questions), per_block):
            part = slice(first, first + per_block)
            passages, queries = self._rows[ordinals[part] - self._start].double(), asked[part].double()[:, None, :]
            if self._similarity == "dot":
                exact[part] = passages.mul_(queries).sum(2)
            else:
                exact[part] = passages.sub_(queries).square_().sum(2).neg_()
        return exact


def _padded_products(rows: torch.Tensor, questions: torch.Tensor, scores: torch.dtype) -> torch.Tensor:
    """Return the products (m, q) of float16 rows and questions, padded with -inf to whole groups of rows."""
    import torch

    whole = -(-len(rows) // GROUP) * GROUP
    product = torch.empty((whole, len(questions)), dtype=scores, device=rows.device)
    product[len(rows) :] = -torch.inf
    if scores == torch.float16:
        torch.mm(rows, questions.T, out=product[: len(rows)])
    elif rows.is_cuda:
        product[: len(rows)] = torch.mm(rows, questions.T, out_dtype=scores)
    else:
        torch.mm(rows.float(), questions.float().T, out=product[: len(rows)])
    return product


def best_of_both(
    best: tuple[torch.Tensor, torch.Tensor], other_best: tuple[torch.Tensor, torch.Tensor], count: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the `count` best (or all, if there are fewer) of two sets of scores and rows (q, m), in no order."""
    import torch

    scores, rows = torch.cat((best[0], other_best[0]), 1), torch.cat((best[1], other_best[1]), 1)
    if scores.shape[1] > count:
        scores, columns = scores.topk(count, dim=1, sorted=False)
        rows = rows.gather(1, columns)
    return scores, rows


def best_rows(product: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the scores and rows (q, count) of the largest products in each column of `product` (m, q), in no order. m
    must be a multiple of the group size.
    """
    import torch

    groups, questions = len(product) // GROUP, product.shape[1]
    if groups <= count:
        top = product.T.topk(count, dim=1, sorted=False)
        return top.values, top.indices
    chosen = product.view(groups, GROUP, questions).amax(1).T.topk(count, dim=1, sorted=False).indices
    members = (chosen[:, :, None] * GROUP + torch.arange(GROUP, device=product.device)).view(questions, count * GROUP)
    top = product.T.gather(1, members).topk(count, dim=1, sorted=False)
    return top.values, members.gather(1, top.indices)
