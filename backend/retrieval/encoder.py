"""Encoders turn questions and passages into vectors, with sentence-transformers.

An encoder has one tower for both sides, or separate towers for questions and passages. It is loaded from any
sentence-transformers or Hugging Face model, or from a DPR checkpoint. In memory it is always one `SentenceTransformer`,
with a Router if there are two towers.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.core.manifest import text_sha256
from blindspot.backend.core.model_files import ModelFolder, open_model, readable_model
from blindspot.backend.core.settings import VECTOR_SETTINGS, EncoderSettings
from blindspot.backend.retrieval.model_kinds import refuse_other_kinds
from blindspot.db.errors import Refused
from blindspot.db.records import Passage

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

SIMILARITIES = {"dot": "dot", "cosine": "cosine", "euclidean": "l2", "dot_product": "dot"}
DPR_TOWERS = {"DPRQuestionEncoder": "question_encoder", "DPRContextEncoder": "ctx_encoder"}


@dataclass(frozen=True)
class Encoder:
    """A loaded encoder.

    `pooling` names the way token vectors are pooled. `similarity` is dot, cosine or l2; with cosine the vectors have
    unit length, so their dot product is the cosine. `model_hash` is the SHA-256 of all weights by name, and of the
    prompts and the number of dimensions if the settings give them.
    """

    model: SentenceTransformer
    settings: EncoderSettings
    pooling: str
    similarity: str
    model_hash: str

    @property
    def dimension(self) -> int:
        dimension = self.model.get_embedding_dimension()
        assert dimension is not None, "a model with pooling has a dimension"
        return dimension

    def encode_questions(self, questions: Sequence[str]) -> np.ndarray:
        """Return the vectors of questions, (q, d) float32."""
        return self._encode(self.model.encode_query, list(questions))

    def encode_passages(self, passages: Sequence[Passage], batch: int | None = None) -> np.ndarray:
        """Return the vectors of passages, (n, d) float32, encoding each passage in the encoder's template."""
        return self._encode(self.model.encode_document, [self.passage_text(passage) for passage in passages], batch)

    def passage_text(self, passage: Passage) -> str:
        return self.settings.passage_template.format(title=passage.title, text=passage.text)

    def _encode(self, encode: Any, texts: list[str], batch: int | None = None) -> np.ndarray:
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        return encode(
            texts,
            batch_size=batch or self.settings.batch_size,
            show_progress_bar=False,
            convert_to_numpy=True,
            normalize_embeddings=self.similarity == "cosine",
        ).astype(np.float32, copy=False)

    def describe(self) -> dict:
        """Return the settings that an index's manifest records. A search must use the same settings."""
        return {
            "dimension": self.dimension,
            "similarity": self.similarity,
            "pooling": self.pooling,
            "passage_template": self.settings.passage_template,
            "max_tokens": self.settings.max_tokens,
            "model_hash": self.model_hash,
            **{key: value for key in VECTOR_SETTINGS if (value := getattr(self.settings, key)) is not None},
        }


def load_encoder(settings: EncoderSettings, device: str | None = None) -> Encoder:
    """Load the model or models that `settings` names.

    Raises:
        Missing: the model is not a folder and cannot be downloaded.
        Refused: a plain Hugging Face model without a pooling setting, or two towers of different dimensions.
    """
    import transformers

    transformers.utils.logging.disable_progress_bar()
    if settings.model is not None:
        model, pooling = _load_single_module(settings, settings.model, device)
    else:
        model, pooling = _load_two_towers(settings, device)
    _set_prompts(model, settings)
    is_cut = _set_dimensions(model, settings)
    similarity: str = settings.similarity
    if similarity == "auto":
        plain = settings.model is None or pooling != "its own"
        similarity = (
            "dot" if plain or _has_normalisation(model) else SIMILARITIES.get(model.similarity_fn_name or "dot", "dot")
        )
        if is_cut and _has_normalisation(model):
            similarity = "cosine"  # the model's vectors lose their unit length when they are cut
    return Encoder(model.eval(), settings, pooling, similarity, _vectors_hash(model, settings))


def _set_prompts(model: SentenceTransformer, settings: EncoderSettings) -> None:
    """Set the prompts from the settings in the model, under the names that `encode_query` and `encode_document` look up
    first.
    """
    for name, prompt in (("query", settings.question_prompt), ("document", settings.passage_prompt)):
        if prompt is not None:
            model.prompts[name] = prompt


def _set_dimensions(model: SentenceTransformer, settings: EncoderSettings) -> bool:
    """Make the model truncate its vectors to the number of dimensions in the settings, and return whether it does.
    Raises Refused if the model has fewer dimensions.
    """
    width = model.get_embedding_dimension()
    if settings.dimensions is None:
        return False
    if width is not None and settings.dimensions > width:
        raise Refused(f"dimensions is {settings.dimensions}, but the model gives vectors of {width} dimensions")
    model.truncate_dim = settings.dimensions
    return settings.dimensions != width


def _vectors_hash(model: SentenceTransformer, settings: EncoderSettings) -> str:
    """Return a hash of the weights and of all settings that influence the vectors."""
    weights = weights_hash(model)
    given = {key: value for key in VECTOR_SETTINGS if (value := getattr(settings, key)) is not None}
    return text_sha256(weights, json.dumps(given, sort_keys=True)) if given else weights


def _load_single_module(settings: EncoderSettings, path: str, device: str | None) -> tuple[SentenceTransformer, str]:
    from sentence_transformers import SentenceTransformer

    folder = open_model(path)
    refuse_other_kinds(folder.path)
    if not (Path(folder.path) / "modules.json").is_file():
        modules, pooling = _load_tower(folder, settings, "model")
        return SentenceTransformer(modules=modules, device=device), pooling
    with readable_model(folder.path):
        model = SentenceTransformer(folder.path, device=device, **folder.sentence_transformers)
    if settings.pooling != "auto":
        raise Refused(f"{folder.path} defines its own pooling; remove pooling = {settings.pooling!r} from its settings")
    if model.max_seq_length != math.inf:  # a static encoder reads the whole text
        model.max_seq_length = settings.max_tokens
    return model, "its own"


def _load_two_towers(settings: EncoderSettings, device: str | None) -> tuple[SentenceTransformer, str]:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Router

    assert settings.question_model is not None and settings.passage_model is not None, "EncoderSettings checks this"
    questions, pooling = _load_tower(open_model(settings.question_model), settings, "question_model")
    passages, _ = _load_tower(open_model(settings.passage_model), settings, "passage_model")
    widths = [tower[0].get_embedding_dimension() for tower in (questions, passages)]
    if widths[0] != widths[1]:
        raise Refused(f"question_model has {widths[0]} dimensions, passage_model {widths[1]}; they must be equal")
    return SentenceTransformer(modules=[Router.for_query_document(questions, passages)], device=device), pooling


def _load_tower(folder: ModelFolder, settings: EncoderSettings, key: str) -> tuple[list, str]:
    """Return [Transformer, Pooling] for a Hugging Face or DPR checkpoint, and the name of the pooling."""
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    path, architecture = folder.path, _architecture(folder)
    pooling = settings.pooling
    if pooling == "auto":
        if architecture not in DPR_TOWERS:
            raise Refused(f'{path} ({key}) defines no pooling of token vectors; set pooling to "cls" or "mean"')
        pooling = "cls"
    with readable_model(path):
        if architecture in DPR_TOWERS:
            transformer = _dpr_tower(folder, architecture, settings.max_tokens)
        else:
            arguments = folder.transformers
            trusted = {"trust_remote_code": arguments["trust_remote_code"]}
            transformer = Transformer(
                path,
                max_seq_length=settings.max_tokens,
                model_kwargs=arguments,
                processor_kwargs=trusted,
                config_kwargs=trusted,
            )
    return [transformer, Pooling(transformer.get_embedding_dimension(), pooling)], pooling


def _dpr_tower(source: ModelFolder, architecture: str, max_tokens: int) -> Any:
    """Return the BERT inside a DPR checkpoint, without a pooler, whose weights would be random. (AutoModel would read
    both towers as question encoders.)
    """
    import transformers
    from sentence_transformers.sentence_transformer.modules import Transformer

    whole = getattr(transformers, architecture).from_pretrained(source.path, **source.transformers)
    if whole.config.projection_dim:
        raise Refused(
            f"{source.path} projects its vectors (projection_dim {whole.config.projection_dim}), which is not "
            "supported here"
        )
    bert = getattr(whole, DPR_TOWERS[architecture]).bert_model
    known = set(transformers.BertConfig().to_dict()) - {"model_type", "architectures"}
    bert.config = transformers.BertConfig(
        **{key: value for key, value in whole.config.to_dict().items() if key in known}
    )
    with tempfile.TemporaryDirectory() as folder:
        bert.save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(source.path).save_pretrained(folder)
        return Transformer(folder, max_seq_length=max_tokens, model_kwargs={"add_pooling_layer": False})


def _architecture(folder: ModelFolder) -> str:
    import transformers

    with readable_model(folder.path):
        config = transformers.AutoConfig.from_pretrained(folder.path, trust_remote_code=folder.trusted)
    return (config.architectures or [""])[0]


def _has_normalisation(model: SentenceTransformer) -> bool:
    return type(list(model)[-1]).__name__ == "Normalize"


def weights_hash(model: torch.nn.Module) -> str:
    """Return the SHA-256 of all weights of a model, by name."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(json.dumps([name, list(tensor.shape), str(tensor.dtype)]).encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
