"""Exact nearest-neighbour search over stored float16 vectors: blocked product, running top-k, exact re-scoring.

The promise: the hits are those of the stored float16 vectors' true products, every score rounded once to float32, ties by
ordinal, whatever the device or the block size. The blocked float32 product only proposes candidates; their scores are computed
again in float64, and a question whose candidates could hide a better passage within the product's rounding error is searched
again without a cut.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from backend.retrieval.retriever import pad, top_k
from db.errors import Refused
from db.records import Hits

if TYPE_CHECKING:
    import torch

Progress = Callable[[int, "int | None", str], None]

MARGIN = 32                  # candidates beyond k that are scored exactly
QUESTIONS_PER_BLOCK = 2048   # so that a block of passages is widened to float32 for many questions at once
ROWS_PER_BLOCK = 4096        # on a CPU: what is widened to float32 at once stays near the processor
SCORES_PER_BLOCK = 1 << 25   # on a GPU: float32 scores held at once, 128 MiB
RESCORED_PER_BLOCK = 1 << 21  # float64 factors held at once: 16 MiB, so that they stay near the processor


def default_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


class ExactSearch:
    """Search over all rows of `vectors`.

    Args:
        vectors: (n, d) float16, may be a memory map; on a GPU they are held there when they fit, else streamed.
        similarity: "dot" (also for cosine over vectors of unit length) or "l2" (score: minus the squared distance).
        device: "cpu", "cuda", "cuda:1"; default: a GPU if there is one.
    """

    def __init__(self, vectors: np.ndarray, similarity: str = "dot", device: str | None = None):
        if vectors.ndim != 2 or vectors.dtype != np.float16:
            raise Refused(f"vectors must be (n, d) float16, not {vectors.shape} {vectors.dtype}")
        if similarity not in ("dot", "l2"):
            raise Refused(f"similarity must be dot or l2, not {similarity!r}")
        self.vectors, self.similarity, self.device = vectors, similarity, device or default_device()
        self._resident: torch.Tensor | None = None
        self._largest_norm: float | None = None

    def search(self, questions: np.ndarray, k: int, progress: Progress | None = None) -> Hits:
        """The k best rows for each question vector.

        Args:
            questions: (q, d) float32.
            k: hits per question; beyond n the rows are padded with -1.
        """
        questions = self._checked(questions)
        wanted = min(k, len(self.vectors))
        ordinals = np.empty((len(questions), wanted), np.int32)
        scores = np.empty((len(questions), wanted), np.float32)
        for start in range(0, len(questions), QUESTIONS_PER_BLOCK):
            rows = slice(start, start + QUESTIONS_PER_BLOCK)
            hits = self._search_block(questions[rows], wanted)
            ordinals[rows], scores[rows] = hits.ordinals, hits.scores
            if progress is not None:
                progress(min(rows.stop, len(questions)), len(questions), "searching the vectors")
        hits = Hits(ordinals, scores)
        return hits if wanted == k else pad(hits, k)

    def score(self, questions: np.ndarray, ordinals: np.ndarray) -> np.ndarray:
        """Exact scores (q, m) float32 of the rows `ordinals` (q, m) int32; -inf for -1."""
        import torch

        questions = self._checked(questions)
        exact = np.empty(ordinals.shape, np.float32)
        per_block = max(1, RESCORED_PER_BLOCK // max(1, ordinals.shape[1] * questions.shape[1]))
        for start in range(0, len(questions), per_block):
            rows = slice(start, start + per_block)
            found = torch.from_numpy(self.vectors[ordinals[rows]]).double()
            wanted = torch.from_numpy(questions[rows]).double()[:, None, :]
            products = (found @ wanted.mT)[:, :, 0] if self.similarity == "dot" else -(found - wanted).square().sum(2)
            exact[rows] = products.numpy()
        return np.where(ordinals < 0, -np.inf, exact).astype(np.float32)

    def _checked(self, questions: np.ndarray) -> np.ndarray:
        questions = np.ascontiguousarray(questions, dtype=np.float32)
        if questions.ndim != 2 or questions.shape[1] != self.vectors.shape[1]:
            raise Refused(f"question vectors are {questions.shape}, the index holds {self.vectors.shape[1]} dimensions")
        if not np.isfinite(questions).all():
            raise Refused("a question vector holds NaN or infinity; the encoder is broken")
        return questions

    def _search_block(self, questions: np.ndarray, k: int) -> Hits:
        import torch

        with torch.inference_mode():
            wanted = torch.from_numpy(questions).to(self.device)
            approximate, candidates = self._propose(wanted, min(k + MARGIN, len(self.vectors)))
        hits = top_k(candidates, self.score(questions, candidates), k)
        if candidates.shape[1] < len(self.vectors):
            # What was left out scored at most the worst candidate, give or take the product's rounding.
            reachable = approximate[:, -1] + self._rounding(questions)
            for row in np.flatnonzero(hits.scores[:, -1] <= reachable):
                whole = self._search_uncut(questions[row:row + 1], k, float(hits.scores[row, -1]))
                hits.ordinals[row], hits.scores[row] = whole.ordinals[0], whole.scores[0]
        return hits

    def _propose(self, wanted: torch.Tensor, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Running top-`count` of the blocked float32 product: scores and ordinals (q, count), best first."""
        best = _Best(len(wanted), count, self.device)
        for start, scores in self._blocks(wanted):
            best.add(start, scores)
        found, where = best.result()
        if self.similarity == "l2":
            found = found - wanted.square().sum(1, keepdim=True)
        return found.cpu().numpy(), where.int().cpu().numpy()

    def _blocks(self, wanted: torch.Tensor):
        """(first ordinal, scores (q, rows) float32) of every block; for l2 without the question's own norm.

        The scores of a block lie where those of the next will be: use them before asking for more.
        """
        import torch

        rows = min(ROWS_PER_BLOCK if self.device == "cpu" else max(1024, SCORES_PER_BLOCK // max(1, len(wanted))), len(self.vectors))
        scores = torch.empty((len(wanted), rows), device=self.device)
        widened = torch.empty((rows, self.vectors.shape[1]), device=self.device)
        for start in range(0, len(self.vectors), rows):
            count = min(rows, len(self.vectors) - start)
            block = widened[:count]
            block.copy_(self._block(start, start + count))
            product = torch.mm(wanted, block.T, out=scores) if count == rows else wanted @ block.T
            if self.similarity == "l2":
                product.mul_(2).sub_(block.square().sum(1))
            yield start, product

    def _block(self, start: int, stop: int) -> torch.Tensor:
        """Rows start to stop as they are stored."""
        import torch

        if self._resident is None and self.device != "cpu" and self._fits():
            self._resident = torch.from_numpy(np.ascontiguousarray(self.vectors)).to(self.device)
        if self._resident is not None:
            return self._resident[start:stop]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the memory map is read-only, and nothing here writes to it
            return torch.from_numpy(self.vectors[start:stop])

    def _fits(self) -> bool:
        import torch

        free, _ = torch.cuda.mem_get_info(self.device)
        return self.vectors.nbytes < 0.8 * free

    def _rounding(self, questions: np.ndarray) -> np.ndarray:
        """(q,) bound on twice the error of a float32 product of these vectors: 2 d u |q| |p|, u = 2^-24 (Higham 2002, 3.1)."""
        if self._largest_norm is None:
            blocks = (self.vectors[i:i + 65536].astype(np.float32) for i in range(0, len(self.vectors), 65536))
            self._largest_norm = max(float(np.sqrt(np.square(block).sum(1).max())) for block in blocks)
        norms = np.linalg.norm(questions, axis=1)
        bound = 2 * questions.shape[1] * 2.0 ** -24 * norms * self._largest_norm
        return bound if self.similarity == "dot" else 2 * bound + 2 ** -22 * (norms ** 2 + self._largest_norm ** 2)

    def _search_uncut(self, question: np.ndarray, k: int, kth_score: float) -> Hits:
        """Score exactly every row that could reach the k-th score: the case of many equal or nearly equal vectors."""
        import torch

        with torch.inference_mode():
            wanted = torch.from_numpy(question).to(self.device)
            own = float(wanted.square().sum()) if self.similarity == "l2" else 0.0
            least = kth_score - float(self._rounding(question)[0]) + own
            rows = [(scores[0] >= least).nonzero()[:, 0].cpu().numpy() + start for start, scores in self._blocks(wanted)]
        candidates = np.concatenate(rows).astype(np.int32)[None, :]
        return top_k(candidates, self.score(question, candidates), k)


class _Best:
    """The best `count` scores of each question over the blocks seen so far: `result` gives both (q, m), best first."""

    def __init__(self, questions: int, count: int, device: str):
        import torch

        self._scores = torch.empty((questions, 0), device=device)
        self._ordinals = torch.empty((questions, 0), dtype=torch.int64, device=device)
        self._count = count
        # Selecting costs a CPU more than comparing: once there is a score to beat, only what beats it is looked at.
        self._sieve = device == "cpu"
        self._caught: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []

    def add(self, start: int, scores: torch.Tensor) -> None:
        """A block of scores (q, rows), the first of them that of ordinal `start`."""
        if not self._sieve or self._scores.shape[1] < self._count:
            block, columns = scores.topk(min(self._count, scores.shape[1]), dim=1)
            self._merge(block, columns + start)
            return
        rows, columns = (scores > self._scores[:, -1:]).nonzero(as_tuple=True)
        self._caught.append((rows, columns + start, scores[rows, columns]))
        if sum(len(caught[0]) for caught in self._caught) > len(scores) * self._count // 2:
            self._take_in()

    def result(self) -> tuple[torch.Tensor, torch.Tensor]:
        self._take_in()
        return self._scores, self._ordinals

    def _take_in(self) -> None:
        """Merge what was caught since the last time, as rows padded with -inf."""
        import torch

        if not self._caught:
            return
        rows, ordinals, scores = (torch.cat(part) for part in zip(*self._caught, strict=True))
        self._caught = []
        rows, order = rows.sort(stable=True)
        counts = torch.bincount(rows, minlength=len(self._scores))
        slots = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[rows]
        shape = (len(self._scores), int(counts.max()))
        found, where = torch.full(shape, -torch.inf), torch.zeros(shape, dtype=torch.int64)
        found[rows, slots], where[rows, slots] = scores[order], ordinals[order]
        self._merge(found, where)

    def _merge(self, scores: torch.Tensor, ordinals: torch.Tensor) -> None:
        import torch

        self._scores, self._ordinals = torch.cat((self._scores, scores), 1), torch.cat((self._ordinals, ordinals), 1)
        if self._scores.shape[1] > self._count:
            self._scores, kept = self._scores.topk(self._count, dim=1)
            self._ordinals = self._ordinals.gather(1, kept)
