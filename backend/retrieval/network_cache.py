"""A cache of models that were converted to OpenVINO, with their tokenizers, in the user's cache folder.

An entry's folder is named by a hash of everything that influences its vectors, so a changed model never uses the entry
of the old one. Each entry contains a record with the hashes of its files. A damaged entry is deleted and made again.
The cache is not in the study, because a study may come from a stranger.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from blindspot.backend.core.manifest import file_sha256, read_json, text_sha256, write_json
from blindspot.backend.core.model_files import SAFE_PATTERNS, model_files, open_model
from blindspot.backend.core.processor import processor
from blindspot.backend.retrieval.openvino_model import OpenVINOModel
from blindspot.db.errors import BadInput

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from blindspot.backend.core.settings import EncoderSettings

CACHE = "BLINDSPOT_CACHE"  # environment variable with another location of the cache folder
FORMAT = "2"  # of an entry; raise it with every change of what an entry holds or means
LIBRARIES = ("openvino", "sentence-transformers", "transformers", "tokenizers", "torch")
KEPT = 8  # entries, each as large as its model; the one that was unused for longest goes first
CARD, NETWORK, WEIGHTS, TOKENIZER = "card.json", "network.xml", "network.bin", "tokenizer.json"


@dataclass(frozen=True, slots=True)
class StoredNetwork:
    """The record of a converted network.

    Attributes:
        described: `Encoder.describe` of the encoder.
        prompt: goes before each question.
        padding: the token id of padding.
        is_exact: whether OpenVINO runs the model and gave PyTorch's vectors on a sample. Only then are there files.
        passage_prompt: goes before each passage; None where passages need another network.
        folder: of the files; "" before they are stored.
    """

    described: dict[str, Any]
    prompt: str
    padding: int
    is_exact: bool
    passage_prompt: str | None = None
    folder: str = ""

    @property
    def network_file(self) -> Path:
        return Path(self.folder, NETWORK)

    def tokenizer(self) -> Tokenizer:
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(Path(self.folder, TOKENIZER)))


def network_fingerprint(settings: EncoderSettings) -> str | None:
    """Return a hash of everything that influences the vectors, and whether OpenVINO reproduces them: the contents of
    the model's files, the settings, the libraries and the processor. None for a model that may read files outside its
    folder.

    Raises the same errors as `open_model`.
    """
    given = asdict(settings)
    parts = [FORMAT, processor(), *(f"{name} {metadata.version(name)}" for name in LIBRARIES)]
    for key in ("model", "question_model", "passage_model"):
        if (path := given.pop(key)) is None:
            continue
        found = open_model(path)
        if found.trusted:
            return None  # its own code may read anything
        parts.append(key)
        for name, file in model_files(Path(found.path)).items():
            if file.name == "adapter_config.json":
                return None  # names a base model elsewhere
            if any(file.match(pattern) for pattern in SAFE_PATTERNS):
                parts += [name, file_sha256(file)]
    return text_sha256(*parts, json.dumps(given, sort_keys=True))


def stored_network(key: str) -> StoredNetwork | None:
    """Return the cache entry `key`, or None. A damaged entry is deleted."""
    folder = cache_folder() / key
    try:
        if not (folder / CARD).is_file():
            return None
        card = read_json(folder / CARD)
        if any(file_sha256(folder / name) != digest for name, digest in card.pop("files").items()):
            raise BadInput("is damaged", folder)
        found = StoredNetwork(**card, folder=str(folder))
    except (OSError, BadInput, KeyError, TypeError, AttributeError):
        shutil.rmtree(folder, ignore_errors=True)
        return None
    with suppress(OSError):
        os.utime(folder / CARD)
    return found


def store_network(key: str, record: StoredNetwork, tokenizer: Tokenizer | None, network: OpenVINOModel | None) -> None:
    """Store an entry, and delete old entries beyond the number `KEPT`. If the disk is full or the folder cannot be
    written, nothing is stored.
    """
    cache = cache_folder()
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=".building-", dir=cache))
        try:
            if record.is_exact and tokenizer is not None and network is not None:
                network.save(building / NETWORK)
                tokenizer.save(str(building / TOKENIZER))
            files = {path.name: file_sha256(path) for path in sorted(building.iterdir())}
            card = {field.name: getattr(record, field.name) for field in fields(record) if field.name != "folder"}
            write_json(building / CARD, {**card, "files": files})
            shutil.rmtree(cache / key, ignore_errors=True)
            os.replace(building, cache / key)
        finally:
            shutil.rmtree(building, ignore_errors=True)
        used = sorted(cache.glob(f"*/{CARD}"), key=lambda path: path.stat().st_mtime_ns)
        for unused in used[:-KEPT]:
            shutil.rmtree(unused.parent, ignore_errors=True)


def cache_folder() -> Path:
    """Return the folder that contains the entries, inside the user's cache folder."""
    if named := os.environ.get(CACHE):
        return Path(named, "networks")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "blindspot", "networks")
