"""Use the passage vectors of an existing index for training with a fixed passage tower.

If only the question tower is trained, passage vectors never change. A training step therefore looks up the passages'
stored vectors and encodes only the questions, so that batches of hundreds of questions with many hard negatives fit on
a laptop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.retrieval.dense import Dense
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Passage

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import Tensor

    from blindspot.backend.core.study import Study

SAMPLE = 8
TOLERANCE = 0.03  # distance of a stored vector to the recomputed one, as a share of its length; 16 bits give 0.01


class StoredVectors:
    """The passage vectors of a dense index."""

    def __init__(self, study: Study, index: Dense):
        self._corpus, self._index = study.corpus, index

    @classmethod
    def open(cls, study: Study, encoder: str, passage_tokens: int) -> StoredVectors | None:
        """Open the vectors of an encoder's index. Returns None if there is no index, or if it truncates passages at
        another length.
        """
        if encoder not in study.parts("indexes") or encoder not in study.settings.encoders:
            return None
        try:
            index = Dense(study, encoder)
        except (Missing, Refused):  # of another model or other passages: the passages are encoded as without it
            return None
        return cls(study, index) if index.manifest["max_tokens"] == passage_tokens else None

    def matches_model(self, model: SentenceTransformer, template: str) -> bool:
        """Return whether a model encodes sampled passages to the stored vectors. It does not if, for example, it
        normalises or pools differently or has fewer layers.
        """
        if template != self._index.manifest["passage_template"]:
            return False
        rows = np.unique(np.linspace(0, len(self._corpus) - 1, SAMPLE).astype(int)).tolist()
        texts = [template.format(title=p.title, text=p.text) for p in self._corpus.passages(rows)]
        was_training = model.training
        encoded = model.eval().encode_document(texts, show_progress_bar=False, convert_to_numpy=True)
        model.train(was_training)
        stored = np.asarray(self._index.vectors[rows], np.float32)
        if encoded.shape != stored.shape:
            return False
        off = np.linalg.norm(encoded - stored, axis=1) / np.linalg.norm(encoded, axis=1)
        return bool(off.max() <= TOLERANCE)

    def __call__(self, passages: Sequence[Passage | None]) -> Tensor:
        """Return vectors (n, d) float32 of passages of the study; zeros for a missing vector."""
        import torch

        rows = self._corpus.ordinals({passage.id for passage in passages if passage is not None})
        vectors: Any = self._index.vectors
        gathered = np.zeros((len(passages), vectors.shape[1]), np.float32)
        places = [place for place, passage in enumerate(passages) if passage is not None]
        wanted = np.array([rows[passage.id] for passage in passages if passage is not None], np.int64)
        gathered[places] = vectors[wanted]
        return torch.from_numpy(gathered)
