"""Add an encoder of any kind to study.toml, after loading it once to check that it works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.declared import build_settings
from blindspot.backend.core.model_files import open_model
from blindspot.backend.core.settings import VECTOR_SETTINGS, EncoderSettings, add_encoder
from blindspot.backend.retrieval.model_kinds import INDEX_COMMANDS, WORDS, kind_of_model
from blindspot.db.errors import Refused

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study


@dataclass(frozen=True, slots=True)
class AddedEncoder:
    """The kind of an added encoder (dense, sparse or late-interaction), one line about it, and remarks on its prompts."""

    kind: str
    description: str
    notes: tuple[str, ...] = ()


def add_loaded_encoder(study: Study, name: str, values: Mapping[str, Any]) -> AddedEncoder:
    """Load an encoder on the CPU, and add it to study.toml with the kind determined from its folder.

    A dense encoder gets the prompts stored with its model, unless `values` contain others.

    Args:
        values: of `EncoderSettings`, as the user gave them.

    Raises Missing for a model that cannot be loaded, and Refused for a model of an unsupported kind or a name that is
    taken.
    """
    settings = build_settings(EncoderSettings, dict(values))
    kind = settings.kind if settings.kind != "auto" else _kind_of(settings.model)
    if kind == "dense":
        chosen, added = _with_prompts({**values, "kind": kind})
        add_encoder(study.settings_path, name, {key: value for key, value in chosen.items() if key != "kind"})
        return added
    if given := [key for key in VECTOR_SETTINGS if values.get(key) is not None]:
        raise Refused(f"--{given[0].replace('_', '-')} applies to dense encoders, not to {kind} ones")
    added = AddedEncoder(kind, _load_encoder(build_settings(EncoderSettings, {**values, "kind": kind})))
    chosen = {key: value for key, value in values.items() if key != "kind"}
    add_encoder(study.settings_path, name, {**chosen, "kind": kind})
    return added


def _with_prompts(values: dict[str, Any]) -> tuple[dict[str, Any], AddedEncoder]:
    """Load a dense encoder; return its settings with its prompts, and a description of the model."""
    from blindspot.backend.retrieval.encoder import load_encoder
    from blindspot.backend.retrieval.prompts import family_of, stored_prompts

    loaded = load_encoder(build_settings(EncoderSettings, values), "cpu")
    model, prompts = values.get("model"), stored_prompts(loaded.model)
    family = None if model is None else family_of(str(model))
    notes: tuple[str, ...] = ()
    if prompts:
        values = {**values, "question_prompt": prompts.question, "passage_prompt": prompts.passage}
        notes = (f"Prompts: {prompts.question!r} before questions, {prompts.passage!r} before passages.",)
    elif family is not None:
        notes = (
            f"Warning: {family.name} models were trained with prompts, and this encoder has none. Give "
            f"--question-prompt {family.question!r} --passage-prompt {family.passage!r}.",
        )
    described = f"{loaded.dimension} dimensions, similarity {loaded.similarity}, pooling {loaded.pooling}"
    return values, AddedEncoder("dense", described, notes)


def _kind_of(model: str | None) -> str:
    """Return the kind of encoder, determined from a model's folder; dense for a plain transformer and for two separate
    models.
    """
    found = None if model is None else kind_of_model(Path(open_model(model).path))
    if found is not None and found not in INDEX_COMMANDS:
        raise Refused(f"{model} is {WORDS[found]}, which scores pairs and encodes no passages; see --with rerank")
    return found or "dense"


def _load_encoder(settings: EncoderSettings) -> str:
    """Load a sparse or late-interaction encoder and describe it."""
    if settings.kind == "sparse":
        from blindspot.backend.retrieval.sparse_encoder import load_sparse_encoder

        sparse = load_sparse_encoder(settings, "cpu")
        return f"sparse, {sparse.vocabulary_size:,} terms, similarity {sparse.similarity}"
    from blindspot.backend.retrieval.multi_vector_encoder import load_multi_vector_encoder

    late = load_multi_vector_encoder(settings, "cpu")
    return f"late interaction, {late.dimension} dimensions a token, similarity {late.similarity}"
