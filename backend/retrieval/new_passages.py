"""Encode passages that no index holds, such as edited ones, by the hundred."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blindspot.backend.retrieval.dense import Dense
from blindspot.backend.retrieval.openvino_model import has_openvino
from blindspot.backend.retrieval.passage_encoder import Engine, PassageEncoder
from blindspot.backend.retrieval.question_encoder import StoredEncoder
from blindspot.db.records import Passage

SAMPLE = 16  # passages on which 16-bit arithmetic is checked
WORTH_CONVERTING = 96  # passages


class NewPassages:
    """Encodes passages with an index's encoder: by the network that is stored for its questions where that serves passages
    too, so that PyTorch's libraries are not even imported.
    """

    def __init__(self, dense: Dense):
        self.dense = dense
        self._bulk: StoredEncoder | PassageEncoder | None = None

    def encode(self, passages: Sequence[Passage]) -> np.ndarray:
        """Return the vectors (n, d) float16."""
        if self._bulk is None:
            self._bulk = self._choose_encoder(passages)
        if self._bulk is None:
            return self.dense.encoder.encode_passages(passages).astype(np.float16)
        if isinstance(self._bulk, StoredEncoder):
            return self._bulk.encode(self._passage_texts(passages)).astype(np.float16)
        return self._bulk.encode(self._bulk.tokenise(passages)).cpu().numpy()

    def _choose_encoder(self, passages: Sequence[Passage]) -> StoredEncoder | PassageEncoder | None:
        is_worth = len(passages) >= WORTH_CONVERTING
        sample = passages[:: max(1, len(passages) // SAMPLE)][:SAMPLE]
        network = self.dense.question_encoder.passage_network(self._passage_texts(sample), is_worth)
        if network is not None or not is_worth:
            return network
        engine: Engine = "openvino" if has_openvino() else "torch"
        return PassageEncoder(self.dense.encoder, sample=sample, engine=engine)

    def _passage_texts(self, passages: Sequence[Passage]) -> list[str]:
        template = self.dense.encoder_settings.passage_template
        return [template.format(title=passage.title, text=passage.text) for passage in passages]
