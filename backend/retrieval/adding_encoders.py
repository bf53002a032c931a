"""Add an encoder to study.toml, after loading it once to check that it works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.declared import build_settings
from blindspot.backend.core.settings import EncoderSettings, add_encoder

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study


@dataclass(frozen=True, slots=True)
class AddedEncoder:
    """One line about an added encoder, and remarks on its prompts."""

    description: str
    notes: tuple[str, ...] = ()


def add_loaded_encoder(study: Study, name: str, values: Mapping[str, Any]) -> AddedEncoder:
    """Load an encoder on the CPU, and add it to study.toml with the prompts stored with its model, unless `values` contain
    others.

    Args:
        values: of `EncoderSettings`, as the user gave them.

    Raises Missing for a model that cannot be loaded, and Refused for a model that is no dense encoder or a name that is
    taken.
    """
    chosen, added = _with_prompts(dict(values))
    add_encoder(study.settings_path, name, chosen)
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
    return values, AddedEncoder(described, notes)
