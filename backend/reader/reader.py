"""A loaded reader, which computes the best span and the relevance of each passage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.backend.reader.best_span import best_spans
from blindspot.backend.reader.inputs import EncodedPassage
from blindspot.backend.reader.model import ReaderModel, load_reader, reader_folder, reader_logits
from blindspot.db.errors import Refused
from blindspot.db.records import Passage

Precision = Literal["auto", "float32", "bfloat16"]
CPU_BATCH = 16
GPU_BATCH = 128
"""Number of passages read at a time. A GPU reads all 100 of a question at once."""


@dataclass(frozen=True, slots=True)
class PassageReadings:
    """The reader's output for m passages, in their order.

    Attributes:
        relevance: (m,) float32 logits; their softmax over a question's passages is P_selected.
        spans: (m, 2) int32, the best span in characters of each passage's text; -1 if nothing could be read.
        tokens: (m, 2) int32, the same as first and last token of the input.
        scores: (m,) float32, start logit plus end logit; -inf if nothing could be read.
        probabilities: (m,) float32, P_start times P_end of that span within its passage.
    """

    relevance: np.ndarray
    spans: np.ndarray
    tokens: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray

    @classmethod
    def empty(cls, count: int) -> PassageReadings:
        """Return the output for `count` passages that were not read."""
        tokens, spans = np.full((count, 2), -1, np.int32), np.full((count, 2), -1, np.int32)
        low = np.full(count, -np.inf, np.float32)
        return cls(low.copy(), tokens, spans, low, np.zeros(count, np.float32))


def select_answer(relevance: np.ndarray, scores: np.ndarray, k: int) -> np.ndarray:
    """Select the passage whose best span is the predicted answer: of the passages in the top k that could be read, the
    one with the highest relevance.

    Args:
        relevance, scores: (q, m), as in `PassageReadings`.

    Returns: (q,) int64 columns, the first of equal ones; -1 if nothing was read.
    """
    finite = np.isfinite(scores[:, :k])
    if not finite.shape[1]:
        return np.full(len(finite), -1)
    best = np.where(finite, relevance[:, :k], -np.inf).argmax(axis=1)
    return np.where(finite.any(axis=1), best, -1)


class Reader:
    """A loaded reader.

    Args:
        batch: passages in a batch; None for the device's default.
        precision: "auto" is bfloat16 on a GPU that supports it.
    """

    def __init__(
        self,
        model: ReaderModel,
        device: str | None = None,
        batch: int | None = None,
        precision: Precision = "auto",
    ):
        """Move the reader to a device. Raises Refused for a missing device, or an unknown precision."""
        from blindspot.backend.training.checkpoints import training_device, uses_bfloat16

        if precision not in get_args(Precision):
            raise Refused(f"precision must be one of {', '.join(get_args(Precision))}, not {precision!r}")
        self.device = training_device(device)
        self.network, self.inputs, self.hash = model.network.eval().to(self.device), model.inputs, model.hash
        self.batch = batch or (GPU_BATCH if self.device == "cuda" else CPU_BATCH)
        # On a CPU reading stays in 32 bits unless asked: its spans and scores are compared with other programs'.
        self.half = uses_bfloat16("float32" if precision == "auto" and self.device == "cpu" else precision, self.device)

    @classmethod
    def open(
        cls, study: Study, name: str, device: str | None = None, batch: int | None = None, precision: Precision = "auto"
    ) -> Reader:
        """Open a reader of the study, or a folder or Hugging Face name of a `DPRReader`. Raises the same errors as
        `load_reader`.
        """
        return cls(load_reader(reader_folder(study, name)), device, batch, precision)

    def read(self, question: str, passages: Sequence[Passage]) -> PassageReadings:
        """Read the passages of one question. Passages of similar length are put into the same batch, to
        reduce padding.
        """
        encoded = self.inputs.encode(question, passages)
        result = PassageReadings.empty(len(encoded))
        order = sorted(range(len(encoded)), key=lambda place: len(encoded[place].ids))
        for begin in range(0, len(order), self.batch):
            rows = order[begin : begin + self.batch]
            relevance, tokens, scores, logs = self._forward([encoded[place] for place in rows])
            result.relevance[rows], result.scores[rows] = relevance, scores
            for row, place in enumerate(rows):
                if np.isfinite(scores[row]):
                    result.tokens[place] = tokens[row]
                    result.spans[place] = encoded[place].characters(*tokens[row])
                    result.probabilities[place] = np.exp(logs[row])
        return result

    def _forward(
        self, encoded_passages: Sequence[EncodedPassage]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return relevance (n,), tokens (n, 2), logit sums (n,) and log probabilities (n,)."""
        import torch

        ids, real = (each.to(self.device, non_blocking=True) for each in self.inputs.batch(encoded_passages))
        firsts = torch.tensor([each.first for each in encoded_passages], device=self.device)
        with torch.inference_mode():
            start, end, relevance = reader_logits(self.network, ids, real, self.half)
            readable = real & (torch.arange(ids.shape[1], device=self.device) >= firsts[:, None])
            low, high, scores = best_spans(start, end, readable)
            norms = sum(logits.masked_fill(~real, float("-inf")).logsumexp(dim=1) for logits in (start, end))
            pairs = torch.stack([low, high], dim=1)

            def to_numpy(values: torch.Tensor) -> np.ndarray:
                return (values.float() if values.is_floating_point() else values).cpu().numpy()

            return to_numpy(relevance), to_numpy(pairs), to_numpy(scores), to_numpy(scores - norms)
