"""Late-interaction encoders (ColBERT) turn a text into one vector for each token, with sentence-transformers.

The model's configuration determines which tokens are used, how a question is expanded, and the maximum length of texts.
For a model without a maximum length, the number of tokens in the settings is used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.core.model_files import open_model, readable_model
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.retrieval.encoder import weights_hash
from blindspot.backend.retrieval.model_kinds import check_kind, kind_of_model
from blindspot.backend.retrieval.prompts import prompt_before
from blindspot.backend.text.spans import Span
from blindspot.db.errors import Refused
from blindspot.db.records import Passage

if TYPE_CHECKING:
    from sentence_transformers import MultiVectorEncoder


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a text for which the encoder computes a vector.

    spans: where each token is in the text; None for a special token, or if the tokenizer does not tell.
    """

    words: list[str]
    spans: list[Span | None]


@dataclass(frozen=True)
class MultiVectorModel:
    """A loaded late-interaction encoder. similarity: "maxsim", or "meanmaxsim" (MaxSim divided by the number of
    question tokens).
    """

    model: MultiVectorEncoder
    settings: EncoderSettings
    similarity: str
    model_hash: str

    @property
    def dimension(self) -> int:
        dimension = self.model.get_embedding_dimension()
        assert dimension is not None, "a late-interaction encoder has a projection"
        return dimension

    def encode_questions(self, questions: Sequence[str]) -> list[np.ndarray]:
        """Return the token vectors of each question, (tokens, d) float32."""
        return self._encode(self.model.encode_query, list(questions))

    def encode_passages(self, passages: Sequence[Passage]) -> list[np.ndarray]:
        """Return the token vectors of each passage, (tokens, d) float32."""
        return self._encode(self.model.encode_document, [self.passage_text(passage) for passage in passages])

    def passage_text(self, passage: Passage) -> str:
        return self.settings.passage_template.format(title=passage.title, text=passage.text)

    def question_tokens(self, question: str) -> list[str]:
        return self._tokens(self.model.encode_query, question).words

    def passage_tokens(self, passage: Passage) -> Tokens:
        """Return the tokens of a passage, with their positions in `passage.text`."""
        whole = self.passage_text(passage)
        found = self._tokens(self.model.encode_document, whole, prompt_before(self.model, "document"))
        before = re.split(r"\{text[^}]*\}", self.settings.passage_template)[0]
        start = len(before.format(title=passage.title, text=""))
        spans = [
            (span[0] - start, span[1] - start)
            if span is not None and start <= span[0] < span[1] <= start + len(passage.text)
            else None
            for span in found.spans
        ]
        return Tokens(found.words, spans)

    def describe(self) -> dict[str, Any]:
        """Return the settings that an index manifest records. A search must use the same settings."""
        return {
            "dimension": self.dimension,
            "similarity": self.similarity,
            "passage_template": self.settings.passage_template,
            "max_tokens": self._max_length(),
            "model_hash": self.model_hash,
        }

    def _max_length(self) -> int:
        own = getattr(self.model[0], "document_length", None)
        return int(own) if own is not None else self.settings.max_tokens

    def _encode(self, encode: Any, texts: list[str]) -> list[np.ndarray]:
        if not texts:
            return []
        vectors = encode(texts, batch_size=self.settings.batch_size, show_progress_bar=False, convert_to_numpy=True)
        made = [np.asarray(each, dtype=np.float32) for each in vectors]
        if not all(np.isfinite(each).all() for each in made):
            raise Refused(f"the encoder {self.settings.model} gave a vector with NaN or infinity")
        return made

    def _tokens(self, encode: Any, text: str, prompt: str = "") -> Tokens:
        """Return the tokens that have a vector. Their positions in `text` are included if the tokenizer gives the same
        token ids as the model.
        """
        features = encode([text], output_value=None, show_progress_bar=False)[0]
        ids = features["input_ids"].tolist()
        counts = features["attention_mask"].bool().tolist()
        tokenizer = self.model.tokenizer
        spans: list[Span | None] = [None] * len(ids)
        if getattr(tokenizer, "is_fast", False):
            cut = tokenizer(prompt + text, return_offsets_mapping=True, truncation=True, max_length=len(ids))
            if cut["input_ids"] == ids:
                inside = ((low - len(prompt), high - len(prompt)) for low, high in cut["offset_mapping"])
                spans = [(low, high) if 0 <= low < high else None for low, high in inside]
        words = tokenizer.convert_ids_to_tokens(ids)
        kept = [i for i, count in enumerate(counts) if count]
        return Tokens([str(words[i]) for i in kept], [spans[i] for i in kept])


def load_multi_vector_encoder(settings: EncoderSettings, device: str | None = None) -> MultiVectorModel:
    """Load a late-interaction encoder, as sentence-transformers, PyLate or ColBERT saved it.

    Raises:
        Missing: the model is not a folder and cannot be downloaded.
        Refused: another kind of model, or a similarity other than the model's own.
    """
    import transformers
    from sentence_transformers import MultiVectorEncoder

    transformers.utils.logging.disable_progress_bar()
    if settings.model is None:
        raise Refused("a late-interaction encoder is one folder (--model)")
    if settings.similarity != "auto":
        raise Refused("late interaction ranks by the model's own MaxSim; leave out --similarity")
    folder = open_model(settings.model)
    check_kind(folder.path, "late-interaction", settings)
    if kind_of_model(Path(folder.path)) is None:
        raise Refused(
            f"{folder.path} has no trained projection of token vectors; give a ColBERT model, as MultiVectorEncoder, "
            "PyLate or ColBERT saved it"
        )
    with readable_model(folder.path):
        model = MultiVectorEncoder(folder.path, device=device, **folder.sentence_transformers)
    model.max_seq_length = settings.max_tokens
    return MultiVectorModel(model.eval(), settings, model.similarity_fn_name, weights_hash(model))
