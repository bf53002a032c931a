"""Compute the reader's loss from its logits (Karpukhin et al. 2020, section 6.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

PAD = -1
LOWEST = -1e30  # replaces -inf, whose gradient is undefined if a question has no span at all


def reader_loss(
    start: Tensor, end: Tensor, relevance: Tensor, is_token: Tensor, positive_indexes: Tensor, spans: Tensor
) -> Tensor:
    """Return the mean of `selection_loss` plus `span_loss` over the questions of a batch.

    Args:
        start, end: (n, L) logits of all passages of the batch.
        relevance: (n,) logits.
        is_token: (n, L) bool, False for padding.
        positive_indexes: (q, m) int64, each question's passages as rows of the other arguments, the positive first; -1
            pads.
        spans: (q, a, 2) int64, first and last token of each answer span in the positive; -1 pads.

    Returns: () float32.
    """
    return (
        selection_loss(relevance, positive_indexes) + span_loss(start, end, is_token, positive_indexes[:, 0], spans)
    ).mean()


def selection_loss(relevance: Tensor, positive_indexes: Tensor) -> Tensor:
    """Return -log P_selected(positive), (q,): a softmax of the relevance logits over the question's passages (equation
    5).
    """
    logits = relevance.float()[positive_indexes.clamp(min=0)].masked_fill(positive_indexes == PAD, float("-inf"))
    return logits.logsumexp(dim=1) - logits[:, 0]


def span_loss(start: Tensor, end: Tensor, is_token: Tensor, positives: Tensor, spans: Tensor) -> Tensor:
    """Return -log of the sum over all answer spans (s, t) in the positive of P_start(s) P_end(t), (q,).

    P_start and P_end are softmaxes over all tokens of the input with the positive, without padding (equations 3 and 4).
    The loss is 0 if truncation removed all spans of the positive.
    """
    exists = spans[..., 0] != PAD
    at = spans.clamp(min=0)
    hidden = ~is_token[positives]
    log_start, log_end = (
        logits[positives].float().masked_fill(hidden, float("-inf")).log_softmax(dim=1) for logits in (start, end)
    )
    each = log_start.gather(1, at[..., 0]) + log_end.gather(1, at[..., 1])
    return -each.masked_fill(~exists, LOWEST).logsumexp(dim=1).masked_fill(~exists.any(dim=1), 0.0)
