"""Find the best answer span of each passage from its logits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

ANSWER_TOKENS = 10
"""DPR's maximum length of an answer, in word pieces."""


def best_spans(
    start: Tensor, end: Tensor, is_readable: Tensor, maximum_tokens: int = ANSWER_TOKENS
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the span (s, t) with the highest start logit at s plus end logit at t, s <= t < s + longest.

    Args:
        start, end: (n, L) float32 logits.
        is_readable: (n, L) bool: tokens of the passage itself, contiguous in each row.

    Returns: (n,) s and (n,) t, both int64 and -1 if nothing is readable, and (n,) the sum of the logits, or -inf. Of
        equal sums the first start wins, then the shortest span.
    """
    import torch

    rows, width = start.shape
    maximum_tokens = min(maximum_tokens, width)
    lowest = float("-inf")
    end = end.masked_fill(~is_readable, lowest)
    ahead = torch.stack(
        [torch.nn.functional.pad(end[:, length:], (0, length), value=lowest) for length in range(maximum_tokens)], dim=2
    )
    sums = (start.masked_fill(~is_readable, lowest)[:, :, None] + ahead).view(rows, width * maximum_tokens)
    best = sums.max(dim=1).values
    places = torch.arange(width * maximum_tokens, device=start.device)
    first = torch.where(sums == best[:, None], places, width * maximum_tokens).min(dim=1).values
    exists = best > lowest
    begins = first // maximum_tokens
    return (begins.masked_fill(~exists, -1), (begins + first % maximum_tokens).masked_fill(~exists, -1), best)
