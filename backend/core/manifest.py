"""Manifests: what a made part is made of. Written last and by rename, so a part without one is unfinished and never read."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from db.errors import BadInput

MANIFEST = "manifest.json"
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
    """Write a file so that a reader finds the old one or the whole new one."""
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


def write_json(path: Path, content: dict | list) -> None:
    write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def read_json(path: Path) -> dict | list:
    """Raises BadInput when the file is no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"is not valid JSON ({error}); delete the folder it lies in and make it again", path) from error


def write_manifest(folder: Path, content: dict) -> dict:
    """Seal a part: add time and versions, write `manifest.json`, return what was written."""
    sealed = {**content, "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "versions": versions()}
    write_json(folder / MANIFEST, sealed)
    return sealed


def read_manifest(folder: Path) -> dict | None:
    """The manifest of a finished part, or None when the part is absent or unfinished."""
    path = folder / MANIFEST
    return read_json(path) if path.is_file() else None


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to build in, that becomes `target` if the block ends well and vanishes if it does not.

    One process at a time builds a target (see `Study.building`): what a killed one left behind is removed here.
    """
    building, old = target.with_name(f".{target.name}.building"), target.with_name(f".{target.name}.old")
    for left in (building, old):  # by their exact names: ".x.y.building" belongs to another part, "x.y"
        shutil.rmtree(left, ignore_errors=True)
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
    """One hash over several texts; their borders count."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that shape results. Reads metadata only, imports none of them."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
