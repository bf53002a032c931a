"""DPR's way to compare checkpoints: the average rank of the positive in one fixed pool of passages.

The rank is that of a question's best known positive among the passages that are none, from 1; where scores are equal, the others
come first, so that a model that scores all alike gains nothing by it. DPR takes each process's share of the pool, which makes the
figure depend on their number; here the pool is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from backend.training.examples import Pool

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor

BLOCK = 256  # questions whose scores stand in memory at a time


def ranks(questions: Tensor, passages: Tensor, known: Sequence[Sequence[int]], similarity: str) -> np.ndarray:
    """(q,) int64 from vectors (q, d) and (n, d); known[i] holds the rows that answer question i."""
    import torch

    from backend.training.losses import SIMILARITIES

    found = np.empty(len(questions), np.int64)
    for begin in range(0, len(questions), BLOCK):
        scores = SIMILARITIES[similarity](questions[begin : begin + BLOCK].float(), passages.float())
        answers = torch.zeros_like(scores, dtype=torch.bool)
        for row, columns in enumerate(known[begin : begin + BLOCK]):
            answers[row, list(columns)] = True
        best = scores.masked_fill(~answers, -torch.inf).amax(1, keepdim=True)
        found[begin : begin + BLOCK] = 1 + ((scores >= best) & ~answers).sum(1).cpu().numpy()
    return found


def measure(
    model: SentenceTransformer, pool: Pool, template: str, similarity: str, batch: int = 64
) -> dict[str, float]:
    """`average_rank` over the pool, and `first`: the share of questions whose positive comes first."""
    texts = [template.format(title=passage.title, text=passage.text) for passage in pool.passages]
    encoded = [
        encode(list(some), batch_size=batch, show_progress_bar=False, convert_to_tensor=True)
        for encode, some in ((model.encode_query, pool.questions), (model.encode_document, texts))
    ]
    found = ranks(encoded[0], encoded[1], pool.known, similarity)
    return {"average_rank": float(found.mean()), "first": float((found == 1).mean())}
