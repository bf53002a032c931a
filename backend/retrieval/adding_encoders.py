"""Add an encoder of any kind to study.toml, after loading it once to see that it works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backend.core.declared import build
from backend.core.model_files import open_model
from backend.core.settings import EncoderSettings, add_encoder
from backend.retrieval.model_kinds import INDEX_COMMANDS, WORDS, kind_of_model
from db.errors import Refused

if TYPE_CHECKING:
    from backend.core.study import Study


@dataclass(frozen=True, slots=True)
class AddedEncoder:
    """The kind of an added encoder (dense, sparse or late-interaction), and one line about it."""

    kind: str
    description: str


def add_loaded_encoder(study: Study, name: str, values: Mapping[str, Any]) -> AddedEncoder:
    """Load an encoder on the CPU, and add it to study.toml with the kind that its folder shows.

    Args:
        values: of `EncoderSettings`, as the user gave them.

    Raises Missing for a model that cannot be loaded, Refused for a model of another kind and for a name that is taken.
    """
    settings = build(EncoderSettings, dict(values))
    kind = settings.kind if settings.kind != "auto" else _kind_of(settings.model)
    added = AddedEncoder(kind, _loaded(build(EncoderSettings, {**values, "kind": kind})))
    chosen = {key: value for key, value in values.items() if key != "kind"}
    add_encoder(study.settings_path, name, chosen if kind == "dense" else {**chosen, "kind": kind})
    return added


def _kind_of(model: str | None) -> str:
    """Return the kind that a model's folder shows; dense for a plain transformer and for two towers."""
    found = None if model is None else kind_of_model(Path(open_model(model).path))
    if found is not None and found not in INDEX_COMMANDS:
        raise Refused(f"{model} is {WORDS[found]}, which scores pairs and encodes no passages; see --with rerank")
    return found or "dense"


def _loaded(settings: EncoderSettings) -> str:
    """Load an encoder and describe it."""
    if settings.kind == "sparse":
        from backend.retrieval.sparse_encoder import load_sparse_encoder

        sparse = load_sparse_encoder(settings, "cpu")
        return f"sparse, {sparse.vocabulary:,} terms, similarity {sparse.similarity}"
    if settings.kind == "late-interaction":
        from backend.retrieval.multi_vector_encoder import load_multi_vector_encoder

        late = load_multi_vector_encoder(settings, "cpu")
        return f"late interaction, {late.dimension} dimensions a token, similarity {late.similarity}"
    from backend.retrieval.encoder import load_encoder

    dense = load_encoder(settings, "cpu")
    return f"{dense.dimension} dimensions, similarity {dense.similarity}, pooling {dense.pooling}"
