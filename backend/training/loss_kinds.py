"""The registry of losses for training dual encoders, `LOSSES`.

To add a loss, write its function and register it below: the setting `loss`, its command-line option and its help come
from the registry. This module does not import torch; a loss only uses the methods of its tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blindspot.backend.core.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ScoredBatch:
    """The scores of some questions against every passage of a batch.

    Attributes:
        scores: (b, n), of each question with each passage.
        positive_scores: (b,), the score of each question's own positive.
        negatives: (b, n) bool, the passages that count as negatives.
        left_out: (b, n) bool, the passages that are neither the positive nor a negative.
        margin: the setting of that name.
    """

    scores: Tensor
    positive_scores: Tensor
    negatives: Tensor
    left_out: Tensor
    margin: float


@dataclass(frozen=True)
class LossKind:
    """One kind of loss.

    Attributes:
        losses: (b,) the loss of each question.
        help: a phrase that follows the name.
        scales: the scores are multiplied by the setting `scale` first.
        takes_teacher: a cross-encoder's scores can be learned in addition to this loss (`distil`).
    """

    name: str
    title: str
    help: str
    losses: Callable[[ScoredBatch], Tensor]
    scales: bool = False
    takes_teacher: bool = False


LOSSES: Registry[LossKind] = Registry("loss", modules=(__name__,))


def _softmax(batch: ScoredBatch) -> Tensor:
    """Return the negative log likelihood of the positive in a softmax over the positive and the negatives."""
    return batch.scores.masked_fill(batch.left_out, -math.inf).logsumexp(1) - batch.positive_scores


LOSSES.register(
    LossKind(
        "softmax",
        "Softmax",
        "negative log likelihood of the positive (DPR, equation 2)",
        _softmax,
        scales=True,
        takes_teacher=True,
    )
)


def _triplet(batch: ScoredBatch) -> Tensor:
    """Return max(0, margin - positive + negative), averaged over the negatives."""
    hinge = (batch.margin - batch.positive_scores[:, None] + batch.scores).clamp(min=0) * batch.negatives
    return hinge.sum(1) / batch.negatives.sum(1).clamp(min=1)


LOSSES.register(
    LossKind("triplet", "Triplet", "a positive beats each negative by the margin (DPR, appendix B)", _triplet)
)


def loss_choices() -> str:
    """Return the names and help texts of all losses, for the help of the setting `loss`."""
    return "; ".join(f"{loss.name}: {loss.help}" for loss in LOSSES)
