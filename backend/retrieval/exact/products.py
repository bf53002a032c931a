"""Low-precision products with a bound on their error, by which a fast search can be proven exact.

A search selects candidates by a product a of rounded vectors, and then computes the candidates' exact scores. The
result is exact if the k-th exact score is greater than any score that a row outside the candidates can have. This
requires a bound on the error of a.

**The bound.** Let q be a question and p a stored float16 vector; c a power of two (so c q is exact but for underflow,
which is counted below); q' = c q and p' = p rounded to the product's 16 bits, and v = 2^-22 the relative error of one
step of a sum kept in float32. By the triangle inequality and Cauchy-Schwarz

    |c q.p - q'.p'|  <=  |c q - q'| |p| + |q'| |p - p'|
    |q'.p' - fl(q'.p')|  <=  d v sum_i |q'_i p'_i|  <=  d v |q'| |p'|

(the second: Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1, for any order of summation).
With P >= |p| and R >= |p - p'| over all rows,

    |c q.p - fl(q'.p')|  <=  E  :=  |c q - q'| P + |q'| R + d v |q'| (P + R).

The norms and the differences are not estimated but computed from the vectors (R in one pass over the rows), so E is
several times smaller than the worst case of rounding. A processor that rounds float32 sums to nearest has v = 2^-24.
Tensor cores truncate (Fasi, Higham, Mikaitis and Pranesh, Numerical behavior of NVIDIA tensor cores, 2021), so v is
four times that value.

**The output's rounding.** If fl(q'.p') is then rounded to 16 bits with unit roundoff u, then a = fl(...)(1 + x) with
|x| <= u, and rounding is monotone: a <= t with t a 16-bit number implies fl(...) <= t + u |t| (+ 2^-25 among float16's
subnormal numbers). So

    a <= t   implies   c q.p <= t + u |t| + E.

**What follows.** Let every row outside the candidates have a <= t. If the k-th best exact score s of the candidates,
rounded to float32, is greater than (t + u |t| + E) / c rounded to float32, then no row outside the candidates can be
among the top k, not even in a tie, because rounding is monotone. If s is not greater, the question is searched again
exhaustively (`exhaustive`). Let a_k be the k-th best product. If t is at most a_k - 2 (E + u |a_k|), then k rows score
at least a_k - E - u |a_k|, so the condition holds except for exact equality. The search on CPUs therefore keeps
candidates down to this distance below a_k.

Negative squared distances are -|q - p|^2 = 2 q.p - |p|^2 - |q|^2, so their error bound is twice E plus the float32
error of |p|^2 and of the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from blindspot.db.errors import Refused

if TYPE_CHECKING:
    import torch

STEP = 2.0**-22  # v: relative error of one step of a float32 sum, with a margin
UNIT = {"float32": 0.0, "float16": 2.0**-11, "bfloat16": 2.0**-8}  # u; float32 products are not rounded again
LEAST = {"float32": 2.0**-126, "float16": 2.0**-25, "bfloat16": 2.0**-126}
CERTAIN = 1 + 2.0**-20  # margin for the rounding of the bound's own arithmetic
LARGEST_EXPONENT = 14  # float16 products stay under 2^15


@dataclass(frozen=True, slots=True)
class Precision:
    """The torch dtypes to which vectors are rounded before the product, and to which the product is rounded."""

    operands: str
    scores: str


@dataclass(frozen=True, slots=True)
class Extent:
    """Quantities over all rows: the largest norm P, the largest norm R of the bfloat16 rounding error, and |p|^2 (n,)
    float32 if requested.
    """

    norm: float
    bfloat16_error: float
    squares: np.ndarray | None

    def rounding_error(self, precision: Precision) -> float:
        return self.bfloat16_error if precision.operands == "bfloat16" else 0.0


def extent_of(rows: torch.Tensor) -> tuple[float, float, torch.Tensor]:
    """Return for float16 rows (m, d) the largest norm, the largest norm of the bfloat16 rounding, and all |p|^2 (m,)
    float32.
    """
    widened = rows.float()
    squares = widened.square().sum(1)
    lost = (widened - widened.bfloat16()).square_().sum(1)
    return float(squares.max()) ** 0.5, float(lost.max()) ** 0.5, squares


def merge_extents(extents: list[tuple[float, float, np.ndarray]], keep_squares: bool, width: int) -> Extent:
    """Combine the norms of several blocks of rows. Raises Refused for a row with NaN or infinity."""
    start = 0
    for norm, _, squares in extents:
        if not np.isfinite(norm):
            row = start + int(np.flatnonzero(~np.isfinite(squares))[0])
            raise Refused(
                f"the stored vector of passage row {row} contains NaN or infinity; rebuild the index with "
                "'blindspot index dense'"
            )
        start += len(squares)
    sure = 1 + width * STEP
    return Extent(
        max(norm for norm, _, _ in extents) * sure,
        max(lost for _, lost, _ in extents) * sure + LEAST["bfloat16"],
        np.concatenate([squares for _, _, squares in extents]) if keep_squares else None,
    )


class RoundedQueries:
    """A batch of questions rounded for a low-precision product, with methods that convert between products and true
    scores.

    `operand` is q' (q, d). A product a approximates c times the true score ("dot") or, after `finish`, the true score
    plus |q|^2 ("l2"). `error` has one value per question, (q,) float64. The questions are
    rounded on `device`, and `operand` stays there.
    """

    def __init__(
        self, questions: np.ndarray, similarity: str, precision: Precision, extent: Extent, device: str = "cpu"
    ):
        import torch

        self.similarity, self.precision = similarity, precision
        wide = torch.from_numpy(questions).to(device).double()
        norms = _norms(wide)
        room = LARGEST_EXPONENT - max(0, int(np.frexp(extent.norm)[1])) if precision.operands == "float16" else 0
        self._shift = np.where(norms > 0, room - np.frexp(norms)[1], 0)
        scaled = wide * torch.from_numpy(np.ldexp(1.0, self._shift)).to(device)[:, None]
        self.operand = scaled.to(getattr(torch, precision.operands))
        length, lost, steps = _norms(self.operand.double()), extent.rounding_error(precision), wide.shape[1] * STEP
        error = _norms(scaled - self.operand) * extent.norm + length * lost
        error += steps * length * (extent.norm + lost) + wide.shape[1] * LEAST["bfloat16"]
        self._own = norms**2 if similarity == "l2" else np.zeros(len(norms))
        if similarity == "l2":
            error = np.ldexp(error, 1 - self._shift) + steps * (2 * norms * extent.norm + extent.norm**2)
            error += 2.0**-50 * self._own
        self.error = error * CERTAIN

    @property
    def factors(self) -> np.ndarray:
        """Return the factors 2 / c, (q,) float32, which turn a product into 2 q.p."""
        return np.ldexp(np.ones(len(self._shift), np.float32), 1 - self._shift)

    def rounding_slack(self, scores: np.ndarray) -> np.ndarray:
        """Return by how much the true score of a row can exceed its product `scores`, in the scale of the products."""
        scores = scores.astype(np.float64)
        magnitude = np.where(np.isfinite(scores), np.abs(scores), 0)
        return self.error + CERTAIN * (UNIT[self.precision.scores] * magnitude + LEAST[self.precision.scores])

    def score_upper_bound(self, threshold: np.ndarray) -> np.ndarray:
        """Return an upper bound on the true score of a row whose product is at most `threshold`; -inf for -inf."""
        return self._true_product(threshold.astype(np.float64) + self.rounding_slack(threshold))

    def product_lower_bound(self, scores: np.ndarray) -> np.ndarray:
        """Return a lower bound on the product of a row whose true score, rounded to float32, is at least `scores`."""
        scores = scores.astype(np.float64) - 2.0**-23 * np.abs(scores) - 2.0**-149 + self._own
        scaled = scores if self.similarity == "l2" else np.ldexp(scores, self._shift)
        return scaled - self.rounding_slack(scaled)

    def _true_product(self, values: np.ndarray) -> np.ndarray:
        return values - self._own if self.similarity == "l2" else np.ldexp(values, -self._shift)


def _norms(rows: torch.Tensor) -> np.ndarray:
    """Return the norms (q,) of rows (q, d), which are float64."""
    return rows.square().sum(1).sqrt().cpu().numpy()


def disable_reduced_precision() -> None:
    """Switch off TF32 and 16-bit sums, which other code in the process may have enabled, because the error bound does
    not cover them.
    """
    import torch

    if torch.get_float32_matmul_precision() != "highest":
        torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
