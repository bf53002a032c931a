"""The kinds of encoder models, and how the kind of a model folder is determined.

- dense: one vector for each text (sentence-transformers' SentenceTransformer, DPR).
- sparse: weights of vocabulary terms, as in SPLADE (SparseEncoder).
- late-interaction: one vector for each token, as in ColBERT (MultiVectorEncoder).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.manifest import read_json
from blindspot.backend.core.model_files import locate_model
from blindspot.db.errors import BlindspotError, Refused

if TYPE_CHECKING:
    from blindspot.backend.core.settings import EncoderSettings
    from blindspot.backend.core.study import Study

LIBRARY_TYPES = {
    "SentenceTransformer": "dense",
    "SparseEncoder": "sparse",
    "MultiVectorEncoder": "late-interaction",
    "ColBERT": "late-interaction",
    "CrossEncoder": "cross-encoder",
}
MODULES = {
    "SpladePooling": "sparse",
    "SparseAutoEncoder": "sparse",
    "SparseStaticEmbedding": "sparse",
    "MultiVectorMask": "late-interaction",
}
WORDS = {
    "dense": "a dense encoder",
    "sparse": "a sparse encoder (SPLADE)",
    "late-interaction": "a late-interaction encoder (ColBERT)",
    "cross-encoder": "a cross-encoder",
}
INDEX_COMMANDS = {"dense": "index dense", "sparse": "index sparse", "late-interaction": "index late-interaction"}


def kind_of_model(folder: Path) -> str | None:
    """Return the kind of a model folder, a key of `WORDS`; None for a plain transformer, which the library can load as
    any kind.

    Raises BadInput for a damaged configuration.
    """
    saved = _read_object(folder / "config_sentence_transformers.json").get("model_type")
    if saved in LIBRARY_TYPES:
        return LIBRARY_TYPES[saved]
    modules = _module_classes(folder)
    if modules:
        return next((MODULES[name] for name in modules if name in MODULES), "dense")
    architectures = [str(name) for name in _read_object(folder / "config.json").get("architectures") or []]
    if any(name == "HF_ColBERT" or name.endswith("ForRetrieval") for name in architectures):
        return "late-interaction"
    if any(name.endswith("ForSequenceClassification") for name in architectures):
        return "cross-encoder"
    return "dense" if any(name.startswith("DPR") for name in architectures) else None


def encoder_kind(settings: EncoderSettings) -> str:
    """Return the kind of an encoder of study.toml: the kind in its settings, or else that of its folder, or else dense.

    A model that is missing or damaged is treated as dense; the error is raised when it is loaded.
    """
    if settings.kind != "auto" or settings.model is None:
        return settings.kind if settings.kind != "auto" else "dense"
    try:
        folder = Path(locate_model(settings.model))
        return (kind_of_model(folder) if folder.is_dir() else None) or "dense"
    except BlindspotError:
        return "dense"


def encoders_of_kind(study: Study, kind: str) -> list[str]:
    """Return the names of the encoders in study.toml that are of a given kind."""
    return [name for name, settings in study.settings.encoders.items() if encoder_kind(settings) == kind]


def check_kind(folder: str, expected_kind: str, settings: EncoderSettings) -> None:
    """Raise Refused if the model in `folder` is not of the expected kind, or if the settings name another kind."""
    found = kind_of_model(Path(folder))
    if found is None and settings.kind not in ("auto", expected_kind):
        found = settings.kind
    if found not in (None, expected_kind):
        advice = f"use 'blindspot {INDEX_COMMANDS[found]}'" if found in INDEX_COMMANDS else "use it with --with rerank"
        raise Refused(f"{folder} is {WORDS[found]}, not {WORDS[expected_kind]}; {advice}")


def _read_object(path: Path) -> dict[str, Any]:
    content = read_json(path) if path.is_file() else {}
    return content if isinstance(content, dict) else {}


def _module_classes(folder: Path) -> list[str]:
    """Return the class names of a sentence-transformers folder's modules, including those inside a Router."""
    path = folder / "modules.json"
    listed = read_json(path) if path.is_file() else []
    named = [module.get("type") for module in listed if isinstance(module, dict)] if isinstance(listed, list) else []
    routed = _read_object(folder / "router_config.json").get("types")
    named += list(routed.values()) if isinstance(routed, dict) else []
    return [str(name).rpartition(".")[2] for name in named]
