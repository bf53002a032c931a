"""The kinds of encoder model, and which kind a model folder is.

- dense: one vector a text (sentence-transformers' SentenceTransformer, DPR).
- sparse: weights of vocabulary terms, as SPLADE gives them (SparseEncoder).
- late-interaction: a vector for each token, as ColBERT gives them (MultiVectorEncoder).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.manifest import read_json
from blindspot.backend.core.model_files import locate
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
    """Return a key of `WORDS`; None for a plain transformer, which the library can load as every kind.

    Raises BadInput for a damaged configuration.
    """
    saved = _object(folder / "config_sentence_transformers.json").get("model_type")
    if saved in LIBRARY_TYPES:
        return LIBRARY_TYPES[saved]
    modules = _modules(folder)
    if modules:
        return next((MODULES[name] for name in modules if name in MODULES), "dense")
    architectures = [str(name) for name in _object(folder / "config.json").get("architectures") or []]
    if any(name == "HF_ColBERT" or name.endswith("ForRetrieval") for name in architectures):
        return "late-interaction"
    if any(name.endswith("ForSequenceClassification") for name in architectures):
        return "cross-encoder"
    return "dense" if any(name.startswith("DPR") for name in architectures) else None


def encoder_kind(settings: EncoderSettings) -> str:
    """Return the kind of an encoder of study.toml: as its settings say, else as its folder says, else dense.

    A model that is missing or damaged counts as dense; loading it then raises the error.
    """
    if settings.kind != "auto" or settings.model is None:
        return settings.kind if settings.kind != "auto" else "dense"
    try:
        folder = Path(locate(settings.model))
        return (kind_of_model(folder) if folder.is_dir() else None) or "dense"
    except BlindspotError:
        return "dense"


def encoders_of_kind(study: Study, kind: str) -> list[str]:
    """Return the names of the encoders of study.toml of a kind."""
    return [name for name, settings in study.settings.encoders.items() if encoder_kind(settings) == kind]


def check_kind(folder: str, expected_kind: str, settings: EncoderSettings) -> None:
    """Raise Refused if the model in `folder`, or the kind that the settings name, is not the wanted kind."""
    found = kind_of_model(Path(folder))
    if found is None and settings.kind not in ("auto", expected_kind):
        found = settings.kind
    if found not in (None, expected_kind):
        advice = f"use 'blindspot {INDEX_COMMANDS[found]}'" if found in INDEX_COMMANDS else "use it with --with rerank"
        raise Refused(f"{folder} is {WORDS[found]}, not {WORDS[expected_kind]}; {advice}")


def _object(path: Path) -> dict[str, Any]:
    content = read_json(path) if path.is_file() else {}
    return content if isinstance(content, dict) else {}


def _modules(folder: Path) -> list[str]:
    """Return the class names of a sentence-transformers folder's modules, those of a Router among them."""
    path = folder / "modules.json"
    listed = read_json(path) if path.is_file() else []
    named = [module.get("type") for module in listed if isinstance(module, dict)] if isinstance(listed, list) else []
    routed = _object(folder / "router_config.json").get("types")
    named += list(routed.values()) if isinstance(routed, dict) else []
    return [str(name).rpartition(".")[2] for name in named]
