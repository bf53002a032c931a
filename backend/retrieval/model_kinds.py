"""Which model folders are no dense encoders: sparse encoders, late-interaction encoders and cross-encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from blindspot.backend.core.manifest import read_json
from blindspot.db.errors import Refused

SPARSE, LATE, CROSS = "a sparse encoder (SPLADE)", "a late-interaction encoder (ColBERT)", "a cross-encoder"
LIBRARY_TYPES = {"SparseEncoder": SPARSE, "MultiVectorEncoder": LATE, "ColBERT": LATE, "CrossEncoder": CROSS}
MODULES = {
    "SpladePooling": SPARSE,
    "SparseAutoEncoder": SPARSE,
    "SparseStaticEmbedding": SPARSE,
    "MultiVectorMask": LATE,
}


def other_kind(folder: Path) -> str | None:
    """Return what a model folder holds, in words, if it is no dense encoder.

    Raises BadInput for a damaged configuration.
    """
    saved = _read_object(folder / "config_sentence_transformers.json").get("model_type")
    if saved in LIBRARY_TYPES:
        return LIBRARY_TYPES[saved]
    if modules := _module_classes(folder):
        return next((MODULES[name] for name in modules if name in MODULES), None)
    architectures = [str(name) for name in _read_object(folder / "config.json").get("architectures") or []]
    if any(name == "HF_ColBERT" or name.endswith("ForRetrieval") for name in architectures):
        return LATE
    return CROSS if any(name.endswith("ForSequenceClassification") for name in architectures) else None


def refuse_other_kinds(folder: str) -> None:
    """Raise Refused if the model in `folder` is no dense encoder."""
    found = other_kind(Path(folder))
    if found is not None:
        advice = "; use it with --with rerank" if found == CROSS else ""
        raise Refused(f"{folder} is {found}, not a dense encoder{advice}")


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
