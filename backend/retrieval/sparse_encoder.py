"""Sparse encoders turn questions and passages into weights of vocabulary terms, with sentence-transformers.

All variants of SPLADE are supported: one tower, two towers, and inference-free models, which take a question's weights
from a table. A masked language model without pooling becomes SPLADE with max pooling if the encoder's settings declare
it as sparse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.core.model_files import open_model, readable_model
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.retrieval.encoder import weights_hash
from blindspot.backend.retrieval.model_kinds import check_kind, kind_of_model
from blindspot.db.errors import Refused
from blindspot.db.records import Passage

if TYPE_CHECKING:
    from sentence_transformers import SparseEncoder

SIMILARITIES = ("dot", "cosine")


@dataclass(frozen=True, slots=True)
class TermRows:
    """Term weights of several texts. The weights of text i are at offsets[i]:offsets[i + 1], ordered by term.

    Attributes:
        offsets: (n + 1,) int64.
        terms: (m,) int32.
        weights: (m,) float32.
    """

    offsets: np.ndarray
    terms: np.ndarray
    weights: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def row(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the terms and the weights of text i."""
        inside = slice(int(self.offsets[i]), int(self.offsets[i + 1]))
        return self.terms[inside], self.weights[inside]


@dataclass(frozen=True)
class SparseModel:
    """A loaded sparse encoder. If the similarity is cosine, every row of weights has unit length."""

    model: SparseEncoder
    settings: EncoderSettings
    similarity: str
    model_hash: str

    @property
    def vocabulary_size(self) -> int:
        """Return the number of terms in the vocabulary."""
        dimension = self.model.get_embedding_dimension()
        assert dimension is not None, "a sparse encoder has a vocabulary"
        return dimension

    def encode_questions(self, questions: Sequence[str]) -> TermRows:
        return self._encode(self.model.encode_query, list(questions))

    def encode_passages(self, passages: Sequence[Passage]) -> TermRows:
        return self._encode(self.model.encode_document, [self.passage_text(passage) for passage in passages])

    def passage_text(self, passage: Passage) -> str:
        return self.settings.passage_template.format(title=passage.title, text=passage.text)

    def words_of_terms(self, terms: Sequence[int]) -> list[str]:
        """Return the vocabulary's word for each term; "#7" for dimension 7 if it has no word."""
        tokenizer = self.model.tokenizer
        names = tokenizer.convert_ids_to_tokens(list(terms)) if len(tokenizer) >= self.vocabulary_size else []
        return [str(name) for name in names] or [f"#{term}" for term in terms]

    def describe(self) -> dict[str, Any]:
        """Return the settings that an index manifest records. A search must use the same settings."""
        return {
            "terms": self.vocabulary_size,
            "similarity": self.similarity,
            "passage_template": self.settings.passage_template,
            "max_tokens": self.settings.max_tokens,
            "model_hash": self.model_hash,
        }

    def _encode(self, encode: Any, texts: list[str]) -> TermRows:
        if not texts:
            return TermRows(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32))
        # A dense tensor of one batch is smaller than what the library's sparse rows cost in Python.
        weights = encode(
            texts,
            batch_size=self.settings.batch_size,
            show_progress_bar=False,
            convert_to_sparse_tensor=False,
            save_to_cpu=True,
        )
        matrix = weights.numpy().astype(np.float32, copy=False)
        if not np.isfinite(matrix).all():
            raise Refused(f"the sparse encoder {self.settings.model} gave a weight of NaN or infinity")
        if self.similarity == "cosine":
            matrix = matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-12)
        rows, terms = np.nonzero(matrix)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(texts)))]).astype(np.int64)
        return TermRows(offsets, terms.astype(np.int32), matrix[rows, terms])


def load_sparse_encoder(settings: EncoderSettings, device: str | None = None) -> SparseModel:
    """Load a sparse encoder.

    Raises:
        Missing: the model is not a folder and cannot be downloaded.
        Refused: another kind of model, a similarity that an inverted index cannot rank by.
    """
    import transformers
    from sentence_transformers import SparseEncoder

    transformers.utils.logging.disable_progress_bar()
    if settings.model is None:
        raise Refused("a sparse encoder is one folder (--model), also with two towers; save it with SparseEncoder")
    folder = open_model(settings.model)
    check_kind(folder.path, "sparse", settings)
    if kind_of_model(Path(folder.path)) is None and not _is_masked_language_model(folder.path):
        raise Refused(f"{folder.path} has no head that predicts words, so it cannot weigh terms; give a SPLADE model")
    with readable_model(folder.path):
        model = SparseEncoder(folder.path, device=device, **folder.sentence_transformers)
    model.max_seq_length = settings.max_tokens
    similarity = settings.similarity if settings.similarity != "auto" else model.similarity_fn_name
    if similarity not in SIMILARITIES:
        raise Refused(f"a sparse index ranks by {' or '.join(SIMILARITIES)}, not by {similarity}; set similarity")
    return SparseModel(model.eval(), settings, similarity, weights_hash(model))


def _is_masked_language_model(path: str) -> bool:
    import transformers

    with readable_model(path):
        config = transformers.AutoConfig.from_pretrained(path)
    return any(name.endswith("ForMaskedLM") for name in config.architectures or [])
