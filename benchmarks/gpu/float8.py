"""Exact search with candidates from products of 8-bit floats (e4m3), which tensor cores multiply at twice the speed of
16 bits. It is no part of the product until a GPU has shown that it pays.

**The bound** is that of `blindspot.backend.retrieval.exact.products`, with other numbers. Let c = c_p c_q be powers of two, so
that c_p p and c_q q use the range of e4m3, and p' and q' those vectors rounded to e4m3. For a product a = fl(q'.p')

    |c q.p - a|  <=  E  :=  |c_q q - q'| c_p P + |q'| c_p R + s |q'| c_p (P + R),

where P and R are the largest |p| and |p - p' / c_p| over all rows, computed from the vectors, and s bounds the error of
the sum, relative to sum_i |q'_i p'_i|.

On a CPU the sum is one of float32: s = d 2^-22. Hopper's tensor cores keep 14 bits while they add the 32 products of an
instruction to a sum (DeepSeek-V3 Technical Report, 2024, section 3.3.2): each addend loses less than 2^-13 of the
largest. Without fast accumulation the sum moves to float32 after 128 products (the interval in CUTLASS), so 128
products and 4 sums are cut: s = 132 x 2^-13 + d 2^-22. NVIDIA does not document this, so `sum_error` measures the error
on the chip beside s, with positive numbers, for which cutting is worst. A chip that exceeds s makes no candidates here.

The product is then rounded to bfloat16 (u = 2^-8): a <= t implies c q.p <= t + u |t| + E.

**What to expect.** e4m3 loses 2.7% of a vector's length, so E is about 7% of |q| |p|, and a question is settled only if
the rows beyond the candidates score that much less than the k-th. With this bound and k = 100, 1,024 candidates settled
172 of 192 EntityQuestions over 100,000 Wikipedia passages by MiniLM, and 2,048 settled all (computed on a CPU).
Isotropic random vectors are different: of 21 million at 768 dimensions, some 180,000 come within E of the hundredth, so
nearly all questions are searched again in 16 bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.gpu.results import Row
from blindspot.backend.retrieval.exact.exhaustive import PassageBlock
from blindspot.backend.retrieval.exact.gpu import GROUP, GPUSearch, best_of_both, best_rows
from blindspot.backend.retrieval.exact.products import CERTAIN, LEAST, STEP, UNIT
from blindspot.backend.retrieval.exact.scores import CandidateHits
from blindspot.backend.retrieval.search import ExactSearch
from blindspot.db.errors import Refused
from blindspot.db.records import Hits

if TYPE_CHECKING:
    import torch

CANDIDATES = 1024  # scored exactly for each question
QUESTIONS_PER_BLOCK = 2048
SCORES_PER_BLOCK = 1 << 30
ROWS_PER_PASS = 1 << 18  # rows rounded at once
LARGEST = 448.0  # of e4m3
CUTS = 132  # products and sums that a tensor core cuts before the sum moves to float32
CUT = 2.0**-13
MULTIPLE = 16  # of the questions in a product of 8-bit floats


class Float8Search:
    """Search by inner product, d a multiple of 16, on one device. The hits are those of `ExactSearch`."""

    def __init__(self, exact: ExactSearch):
        """exact: the search in 16 bits, with its rows in one shard. Raises Refused for more shards, and for a chip whose
        sums are less exact than the bound says.
        """
        shards, width = exact.proposer, exact.vectors.shape[1]
        if not isinstance(shards, GPUSearch) or len(shards._shards) != 1 or exact.similarity != "dot":
            raise Refused("candidates from 8-bit floats need inner products, and all rows on one GPU")
        shards._load_shards(None)  # checks that every row is finite
        self.exact, self._shard, self.count = exact, shards._shards[0], len(exact.vectors)
        self.device, self.sums = self._shard.device, sum_bound(width, self._shard.device)
        error = sum_error(width, self.device)
        if error > self.sums:
            raise Refused(
                f"sums of 8-bit products are wrong by {error:.1e} on {self.device}; the bound says {self.sums:.1e}"
            )
        self._round_rows()

    def search(self, questions: np.ndarray, k: int) -> tuple[Hits, float]:
        """Return the k best rows of each question (q, d), and the share of questions that the candidates settled. The
        others are searched in 16 bits.
        """
        rows, scores = np.empty((len(questions), k), np.int32), np.empty((len(questions), k), np.float32)
        doubtful = np.zeros(len(questions), bool)
        for start in range(0, len(questions), QUESTIONS_PER_BLOCK):
            block = slice(start, start + QUESTIONS_PER_BLOCK)
            found = self.propose(questions[block], k)
            rows[block], scores[block] = found.hits.ordinals, found.hits.scores
            doubtful[block] = found.hits.scores[:, -1] <= found.upper_bounds.astype(np.float32)
        if doubtful.any():
            found_again = self.exact.search(questions[doubtful], k)
            rows[doubtful], scores[doubtful] = found_again.ordinals, found_again.scores
        return Hits(rows, scores), float(1 - doubtful.mean())

    def propose(self, questions: np.ndarray, k: int) -> CandidateHits:
        """Return the k best of the candidates by exact score, and the largest score of a row that is no candidate."""
        import torch

        with torch.inference_mode():
            operand, shift, error = self.rounded(questions)
            count, best = min(max(CANDIDATES, k), self.count), None
            per_block = max(GROUP, SCORES_PER_BLOCK // len(operand) // GROUP * GROUP)
            for first in range(0, self.count, per_block):
                product = products(self.rows[first : first + per_block], operand)[:, : len(questions)]
                product[self.count - first :] = -torch.inf
                found, where = best_rows(product, min(count, len(product)))
                more = found, where + first
                best = more if best is None else best_of_both(best, more, count)
            assert best is not None, "there is at least one row"
            if count == self.count:
                at_most = np.full(len(questions), -np.inf)
            else:
                threshold = best[0].min(1).values.double().cpu().numpy()
                slack = CERTAIN * (UNIT["bfloat16"] * np.abs(threshold) + LEAST["bfloat16"])
                at_most = (threshold + slack + error) / shift
            return CandidateHits(self._shard._order_scores(questions, best[1], k), at_most)

    def rounded(self, questions: np.ndarray) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
        """Return the questions as e4m3 (a multiple of 16, d), and of each question c and E, (q,) float64."""
        import torch

        wide = torch.from_numpy(questions).to(self.device).double()
        factors = power_of_two(wide.abs().amax(1))
        scaled = wide * factors[:, None]
        operand = torch.zeros((-(-len(wide) // MULTIPLE) * MULTIPLE, wide.shape[1]), device=self.device)
        operand = operand.to(torch.float8_e4m3fn)
        operand[: len(wide)] = scaled.to(torch.float8_e4m3fn)
        held = operand[: len(wide)].double()
        error = (scaled - held).square().sum(1).sqrt() * self.norm
        error += held.square().sum(1).sqrt() * (self.lost + self.sums * (self.norm + self.lost))
        shift = (factors * self.factor).cpu().numpy()
        return operand, shift, CERTAIN * (self.factor * error).cpu().numpy()

    def _round_rows(self) -> None:
        """Make `rows` (n padded to whole groups, d) e4m3, c_p `factor`, P `norm` and R `lost`."""
        import torch

        with torch.inference_mode():
            largest = max(float(block.rows.abs().max()) for block in self._blocks())
            self.factor = float(power_of_two(torch.tensor([largest], dtype=torch.float64)))
            shape = (-(-self.count // GROUP) * GROUP, self.exact.vectors.shape[1])
            self.rows = torch.zeros(shape, device=self.device, dtype=torch.float8_e4m3fn)
            squares = lost = 0.0
            for block in self._blocks():
                rounded = (block.rows.float() * self.factor).to(torch.float8_e4m3fn)
                self.rows[block.start : block.start + len(rounded)] = rounded
                wide = block.rows.double()
                squares = max(squares, float(wide.square().sum(1).max()))
                lost = max(lost, float((wide - rounded.double() / self.factor).square().sum(1).max()))
        self.norm, self.lost = CERTAIN * squares**0.5, CERTAIN * lost**0.5

    def _blocks(self) -> Iterator[PassageBlock]:
        return self._shard.blocks(ROWS_PER_PASS)


def on_one_device(vectors: np.ndarray, device: str) -> ExactSearch:
    """Return the search in 16 bits by inner product, by the code for GPUs."""
    search = ExactSearch(vectors, "dot", "cpu")
    search.proposer = GPUSearch(vectors, "dot", [device])
    return search


def products(rows: torch.Tensor, operand: torch.Tensor, fine: bool = False) -> torch.Tensor:
    """Return the products (m, q) of e4m3 rows (m, d) and questions (q, d) in bfloat16; fine: in float32."""
    import torch

    to = torch.float32 if fine else torch.bfloat16
    if not rows.is_cuda:
        return (rows.float() @ operand.float().T).to(to)
    one = torch.ones((), device=rows.device)
    return torch._scaled_mm(rows, operand.T, scale_a=one, scale_b=one, out_dtype=to, use_fast_accum=False)


def power_of_two(largest: torch.Tensor) -> torch.Tensor:
    """Return the largest powers of two that keep numbers up to `largest` within e4m3; 1 for zero."""
    import torch

    safe = torch.where(largest > 0, largest, LARGEST)
    return torch.exp2(torch.floor(torch.log2(LARGEST / safe)).clamp(-64, 64))


def sum_bound(width: int, device: str) -> float:
    """Return s: the largest error of a sum, relative to the sum of its products' absolute values."""
    return width * STEP + (0.0 if device == "cpu" else CUTS * CUT)


def sum_error(width: int, device: str) -> float:
    """Return the largest such error of 2^20 sums of products of positive numbers."""
    import torch

    random = torch.Generator(device).manual_seed(0)
    a, b = (
        (2 ** (8 * torch.rand((1024, width), generator=random, device=device))).to(torch.float8_e4m3fn)
        for _ in range(2)
    )
    exact = a.double() @ b.double().T
    return float(((products(a, b, fine=True).double() - exact).abs() / exact).max())


# What the kit measures


def speed(exact: ExactSearch, questions: np.ndarray, rounds: int, device: str, copies: float) -> list[Row]:
    """Measure the proposals alone, exact scores included, and the share of questions that they settle. copies: bytes a
    second of a copy on this chip.
    """
    from benchmarks.gpu.search import K, bandwidth, rate, timed

    search, vectors = Float8Search(exact), exact.vectors
    taken = timed(lambda: [search.propose(block, K) for block in _blocks_of(questions)], rounds, device)
    share = search.search(questions, K)[1]
    what = f"{len(vectors):,} x {vectors.shape[1]}, {len(questions):,} questions: candidates from 8-bit floats alone"
    said = f"{rate(len(questions), taken)}; {bandwidth(vectors.size, taken, copies)}; {share:.1%} of these isotropic questions settled"
    return [Row(what, said, "30,000 questions/s")]


def settled(vectors: np.ndarray, questions: np.ndarray, k: int, device: str) -> list[Row]:
    """Compare with the search in 16 bits: hits, speed, and the share of questions that 8 bits settle."""
    from benchmarks.gpu.search import numbered, rate, timed

    name, width = numbered(device)[0], vectors.shape[1]
    search = Float8Search(on_one_device(vectors, name))
    hits, share = search.search(questions, k)
    expected = search.exact.search(questions, k)
    same = (hits.ordinals == expected.ordinals) & (hits.scores == expected.scores)
    ours = timed(lambda: search.search(questions, k), 5, device)
    peer = timed(lambda: search.exact.search(questions, k), 5, device)
    ratios = sorted(b / a for a, b in zip(ours, peer, strict=True))
    what = f"{len(vectors):,} MiniLM passages x {width}, {len(questions):,} dev questions, k = {k}, 8-bit candidates"
    return [
        Row(
            "error of a sum of 8-bit products, beside the bound", f"{sum_error(width, name):.1e}", f"{search.sums:.1e}"
        ),
        Row(f"{what}: questions settled", f"{share:.1%}"),
        Row(f"{what}: hits and scores as in 16 bits", f"{same.mean():.4%}", "100%"),
        Row(
            f"{what}, the other questions in 16 bits",
            rate(len(questions), ours),
            peer=f"16 bits {rate(len(questions), peer)}",
            ratio=f"{np.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})",
        ),
    ]


def _blocks_of(questions: np.ndarray) -> list[np.ndarray]:
    return [questions[start : start + QUESTIONS_PER_BLOCK] for start in range(0, len(questions), QUESTIONS_PER_BLOCK)]
