"""Manifests record what each part of a study was made from.

The manifest is written last, by renaming a temporary file. A part without a manifest is unfinished and is never read.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from blindspot.db.errors import BadInput

MANIFEST = "manifest.json"
MAX_JSON = 1 << 30  # bytes; the question ids of a run over 20 million questions
_AGAIN = "delete its folder and make it again"
_Kind = type | tuple[type, ...]
_NUMBER = (int, float)
_KINDS: dict[_Kind, str] = {str: "text", int: "whole number", _NUMBER: "number", dict: "object"}
_TYPES: dict[str, _Kind] = {
    **dict.fromkeys(("kind", "corpus", "made", "similarity", "question_set"), str),
    **dict.fromkeys(("passages", "dimension", "k"), int),
    "seconds": _NUMBER,
    "versions": dict,
}
"""Types of the manifest entries that parts of all kinds share. The code that reads a part checks the other entries."""
PACKAGES = (
    "numpy",
    "torch",
    "transformers",
    "sentence-transformers",
    "pyserini",
    "streamlit",
    "sqlite-utils",
    "umap-learn",
    "openTSNE",
    "scikit-learn",
)


def write_text(path: Path, content: str) -> None:
    """Write a text file atomically: a reader finds either the whole old file or the whole new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "w", encoding="utf-8", newline="") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)  # a full disk cuts it short
        raise


def write_json(path: Path, content: Mapping[str, Any] | Sequence[Any]) -> None:
    write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def read_json(path: Path) -> Any:
    """Read a JSON file of the study.

    Raises:
        BadInput: The file is not a plain file, is too large, is nested too deeply, or is not JSON.
    """
    if path.exists() and not path.is_file():
        raise BadInput("is not a regular file; delete it", path)
    if path.is_file() and path.stat().st_size > MAX_JSON:
        raise BadInput(f"is larger than {MAX_JSON >> 20} MB; {_AGAIN}", path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise BadInput(f"is not valid JSON (nested too deeply); {_AGAIN}", path) from None
    except ValueError as error:  # no JSON, not UTF-8, or a number with thousands of digits
        raise BadInput(f"is not valid JSON ({str(error)[:120]}); {_AGAIN}", path) from error


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON file of the study that contains an object. Raises BadInput as `read_json` does, and if the value is
    not an object.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise BadInput(f"is not a JSON object; {_AGAIN}", path)
    return content


def write_manifest(folder: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Finish a part by writing `manifest.json`, with the time and the package versions added. Return the manifest."""
    sealed = {**content, "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "versions": versions()}
    write_json(folder / MANIFEST, sealed)
    return sealed


class Manifest(dict[str, Any]):
    """A manifest that was read from a file. A missing key raises BadInput, which names the file, instead of
    KeyError.
    """

    def __init__(self, content: Mapping[str, Any], path: Path):
        super().__init__(content)
        self._path = path

    def __missing__(self, key: str) -> NoReturn:
        raise BadInput(f"lacks {key!r}; {_AGAIN}", self._path)

    def __reduce__(self) -> tuple[type[Manifest], tuple[dict[str, Any], Path]]:
        return Manifest, (dict(self), self._path)


def read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest of a finished part, or None if the part is absent or unfinished.

    Raises:
        BadInput: The manifest is not a JSON object, or one of its entries has a wrong type.
    """
    path = folder / MANIFEST
    if not path.is_file():
        return None
    content = read_object(path)
    for key, kind in _TYPES.items():
        value = content.get(key)
        if value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
            raise BadInput(f"its {key!r} is {str(value)[:40]!r}, which is not a {_KINDS[kind]}; {_AGAIN}", path)
    return Manifest(content, path)


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder. At the end of the `with` block it replaces `target`; after an error it is deleted.

    Only one process builds a target at a time (see `Study.lock_part`), so whatever a killed process left behind is
    deleted first.
    """
    building, old = target.with_name(f".{target.name}.building"), target.with_name(f".{target.name}.old")
    for leftover in (building, old):  # by their exact names: ".x.y.building" belongs to another part, "x.y"
        shutil.rmtree(leftover, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        yield building
        if target.exists():
            os.replace(target, old)
        os.replace(building, target)
    finally:
        shutil.rmtree(building, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def file_sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text_sha256(*parts: str) -> str:
    """Hash several texts together. ("ab", "c") and ("a", "bc") have different hashes."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that influence results, without importing them."""
    installed = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed
