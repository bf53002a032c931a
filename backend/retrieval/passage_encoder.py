"""Encode the passages of an index with sentence-transformers, in 16 bits where the device is fast at them and a sample of
passages agrees.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from blindspot.backend.core.processor import cpu_multiplies_bfloat16
from blindspot.backend.retrieval.encoder import Encoder
from blindspot.db.errors import Refused
from blindspot.db.records import Passage

PRECISIONS = ("auto", "float32", "bfloat16", "float16")
MIN_COSINE = 0.9995  # of a 16-bit vector with its float32 vector
OFF = 0.02  # maximum distance of the two, relative to the typical distance of two passages
TOKENS_GPU = 65_536  # in a batch on a GPU, if all its passages have the largest length
BATCHES = 8  # that are sorted by length together, and encoded between two progress reports


class PassageEncoder:
    """An encoder whose passages are encoded in one precision.

    Args:
        precision: one of `PRECISIONS`. "auto" takes the first of the device's fast 16-bit precisions in which every
            vector of the sample agrees with its float32 vector (`vectors_agree`); otherwise float32.
        sample: passages.

    Raises Refused for an unknown precision, or one that the device does not support.
    """

    def __init__(self, encoder: Encoder, precision: str = "auto", sample: Sequence[Passage] = ()):
        if precision not in PRECISIONS:
            raise Refused(f"unknown precision {precision!r}; known: {', '.join(PRECISIONS)}")
        device = encoder.model.device.type
        if precision == "float16" and device == "cpu":
            raise Refused("float16 needs a GPU; on a CPU use bfloat16 or float32")
        batch = encoder.settings.batch_size
        self.batch = batch if device == "cpu" else max(batch, TOKENS_GPU // encoder.settings.max_tokens)
        self.encoder, self.precision = encoder, "float32"
        if precision == "auto" and sample:
            self._choose_precision(sample, quick_precisions(device))
        elif precision != "auto":
            self._set_precision(precision)

    def encode(self, passages: Sequence[Passage], tick: Callable[[int], None] | None = None) -> np.ndarray:
        """Return the vectors (n, d) float16. `tick` gets the number of finished passages before each group of batches."""
        vectors = np.empty((len(passages), self.encoder.dimension), np.float16)
        for start in range(0, len(passages), BATCHES * self.batch):
            if tick is not None:
                tick(start)
            part = slice(start, start + BATCHES * self.batch)
            vectors[part] = self.encoder.encode_passages(passages[part], self.batch)
        return vectors

    def _choose_precision(self, sample: Sequence[Passage], candidates: Sequence[str]) -> None:
        plain, exact = self.encoder, self.encoder.encode_passages(sample, self.batch)
        for precision in candidates:
            self._set_precision(precision)
            if vectors_agree(self.encoder.encode_passages(sample, self.batch), exact):
                return
            self.encoder, self.precision = plain, "float32"

    def _set_precision(self, precision: str) -> None:
        import torch

        self.precision = precision
        if precision != "float32":
            model = copy.deepcopy(self.encoder.model).to(getattr(torch, precision))
            self.encoder = replace(self.encoder, model=model)


def vectors_agree(vectors: np.ndarray, exact: np.ndarray) -> bool:
    """Return whether two sets of vectors (n, d) agree by cosine and by distance. The cosine alone says little of an encoder
    that places all texts in a narrow cone.
    """
    apart = np.linalg.norm(vectors.astype(np.float64) - exact, axis=1)
    return least_cosine(vectors, exact) >= MIN_COSINE and apart.max() <= OFF * (typical_distance(exact) or np.inf)


def typical_distance(vectors: np.ndarray) -> float | None:
    """Return the median distance of two of the vectors (n, d); None for a single one."""
    apart = np.linalg.norm(vectors[:, None] - vectors, axis=2)[np.triu_indices(len(vectors), 1)]
    return float(np.median(apart)) if len(apart) else None


def least_cosine(vectors: np.ndarray, exact: np.ndarray) -> float:
    """Return the smallest cosine of two vectors in the same row of (n, d) and (n, d); -1 if one is not a number."""
    vectors, exact = vectors.astype(np.float64), exact.astype(np.float64)
    cosines = (vectors * exact).sum(1) / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(exact, axis=1))
    return float(np.nan_to_num(cosines, nan=-1).min())


def quick_precisions(device: str) -> tuple[str, ...]:
    """Return the 16-bit precisions that are faster than float32 on a type of device ("cpu", "cuda")."""
    import torch

    if device == "cuda":
        return ("bfloat16", "float16") if torch.cuda.is_bf16_supported(including_emulation=False) else ("float16",)
    return ("bfloat16",) if device == "cpu" and cpu_multiplies_bfloat16() else ()
