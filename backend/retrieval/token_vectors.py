"""Memory-mapped token vectors of passages, with exact MaxSim scores.

    tokens.npy    (t, d) float16   the token vectors of all passages, one passage after another
    offsets.npy   (n + 1,) int64   those of passage i are at offsets[i]:offsets[i + 1]
    pooled.npy    (n, d) float16   the mean of a passage's token vectors, at unit length

MaxSim is the sum, over the question's tokens, of the largest dot product with a token of the passage. It is computed in
float64 from the stored vectors and rounded once to float32, so a passage's score does not depend on the other
candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from blindspot.backend.core.arrays import new_array, open_array

if TYPE_CHECKING:
    import torch

# Token vectors multiplied at once. On a CPU 8 MB in float64 (at 128 dimensions) stay in its caches, which halves the time
# that 64 MB take; a GPU wants few large products.
TOKENS_CPU, TOKENS_GPU = 8192, 262_144


def write_token_vectors(
    folder: Path, blocks: Callable[[], Iterable[Mapping[str, np.ndarray]]], dimension: int
) -> dict[str, int]:
    """Write the three files. Return the number of tokens and the size, {"tokens", "bytes"}. Needs memory for one block.

    Args:
        blocks: yields {"lengths": (m,), "tokens": (sum of lengths, d) float16} of following passages; called twice.
    """
    lengths = np.concatenate([np.zeros(1, np.int64), *(block["lengths"] for block in blocks())])
    offsets = np.cumsum(lengths)
    np.save(folder / "offsets.npy", offsets)
    tokens = new_array(folder / "tokens.npy", np.float16, (int(offsets[-1]), dimension))
    pooled = new_array(folder / "pooled.npy", np.float16, (len(offsets) - 1, dimension))
    row = 0
    for block in blocks():
        inside = offsets[row : row + len(block["lengths"]) + 1]
        tokens[inside[0] : inside[-1]] = block["tokens"]
        vectors = block["tokens"].astype(np.float32)
        for i, (low, high) in enumerate(zip(inside[:-1] - inside[0], inside[1:] - inside[0], strict=True)):
            mean = vectors[low:high].sum(axis=0)
            pooled[row + i] = mean / max(float(np.linalg.norm(mean)), 1e-12)
        row += len(block["lengths"])
    tokens.flush()
    pooled.flush()
    sizes = [(folder / name).stat().st_size for name in ("tokens.npy", "offsets.npy", "pooled.npy")]
    return {"tokens": int(offsets[-1]), "bytes": sum(sizes)}


class TokenVectors:
    """Open token vectors that `write_token_vectors` wrote.

    Args:
        device: where MaxSim is computed: "cpu", "cuda", ...
        advice: what to do about a damaged file, as the end of a sentence.
    """

    def __init__(self, folder: Path, device: str, advice: str):
        self.tokens, self.offsets, self.pooled = (
            open_array(folder / f"{name}.npy", advice) for name in ("tokens", "offsets", "pooled")
        )
        self.device = device

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def vectors_of(self, row: int) -> np.ndarray:
        """Return the token vectors of a passage, (t, d) float16."""
        return self.tokens[int(self.offsets[row]) : int(self.offsets[row + 1])]

    def maxsim(self, question: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the MaxSim score of a question (s, d) float32 with each passage, (m,) float32; -inf for a passage
        without token vectors.
        """
        import torch

        scores = np.empty(len(rows), np.float32)
        asked = torch.from_numpy(question.astype(np.float64)).to(self.device)
        for places in self._blocks(rows):
            tokens, lengths = self._gather_vectors(rows[places])
            products = tokens @ asked.T
            best = torch.segment_reduce(products, "max", lengths=lengths, axis=0)  # (m, s)
            scores[places] = best.sum(1).to(torch.float32).cpu().numpy()
        return scores

    def _blocks(self, rows: np.ndarray) -> Iterator[np.ndarray]:
        """Yield blocks of positions in `rows`, in file order, with about TOKENS_CPU or TOKENS_GPU tokens each."""
        size = TOKENS_CPU if self.device == "cpu" else TOKENS_GPU
        order = np.argsort(rows, kind="stable")
        ends = np.cumsum(self.offsets[rows[order] + 1] - self.offsets[rows[order]])
        cuts = np.searchsorted(ends, np.arange(size, int(ends[-1]) if len(ends) else 0, size))
        return (places for places in np.split(order, np.unique(cuts)) if len(places))

    def _gather_vectors(self, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the token vectors of some passages, (t, d) float64, and the number of tokens of each passage, both on
        the device.
        """
        import torch

        parts = [self.vectors_of(row) for row in rows.tolist()]
        tokens = torch.from_numpy(np.concatenate(parts)).to(self.device).to(torch.float64)
        return tokens, torch.tensor([len(part) for part in parts], device=self.device)
