"""A study's settings: `study.toml`, read into frozen dataclasses, every wrong value named by file and key."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from db.errors import BadInput, Refused

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

DEFAULT_TOML = """\
# Settings of this study. Edit them by hand; comments are kept when a command adds something.

name = {name}
seed = 0
k = 100                       # hits kept per question

[bm25]
k1 = 0.9
b = 0.4

[hybrid]
method = "auto"               # "weighted": BM25 + weight x dense. "rrf": reciprocal ranks. "auto": weighted for encoders
                              # that do not normalise (DPR), rrf for those that do, whose scores of at most 1 would vanish
weight = 1.1                  # DPR's, for "weighted"
rrf_k = 60
depth = 2000                  # hits of each retriever that are joined

[encoders.minilm]
model = "minilm"              # all-MiniLM-L6-v2, from its Python package: no download
"""


@dataclass(frozen=True)
class BM25Settings:
    k1: float = 0.9
    b: float = 0.4


@dataclass(frozen=True)
class HybridSettings:
    method: str = "auto"
    weight: float = 1.1
    rrf_k: int = 60
    depth: int = 2000


@dataclass(frozen=True)
class EncoderSettings:
    """How questions and passages become vectors.

    Either `model` (one tower for both, or a sentence-transformers folder that holds two), or `question_model` and
    `passage_model` (DPR checkpoints). Each is a folder or a Hugging Face name; "minilm" is the packaged model.
    `pooling` and `similarity` are read from the model where it says them ("auto").
    """

    model: str | None = None
    question_model: str | None = None
    passage_model: str | None = None
    pooling: str = "auto"
    similarity: str = "auto"
    passage_template: str = "{title} [SEP] {text}"
    max_tokens: int = 256
    batch_size: int = 32


@dataclass(frozen=True)
class Settings:
    name: str = "study"
    seed: int = 0
    k: int = 100
    bm25: BM25Settings = field(default_factory=BM25Settings)
    hybrid: HybridSettings = field(default_factory=HybridSettings)
    encoders: dict[str, EncoderSettings] = field(default_factory=dict)


MODELS = ("model", "question_model", "passage_model")
CHOICES = {
    "hybrid.method": ("auto", "weighted", "rrf"),
    "pooling": ("auto", "cls", "mean"),
    "similarity": ("auto", "dot", "cosine", "l2"),
}


def check_name(name: str, what: str) -> str:
    """Names of runs, encoders and the like become folders and stand in URLs."""
    if not NAME.fullmatch(name):
        raise Refused(
            f"{what} name {name!r}: use letters, digits, '.', '_' and '-' (at most 64, none but a letter or digit first)"
        )
    return name


def read_settings(path: Path) -> Settings:
    """Read `study.toml`. Raises BadInput that names the key."""
    import tomllib

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"is not valid TOML: {error}", path) from error
    encoders = table.pop("encoders", {})
    sections = {"bm25": (BM25Settings, table.pop("bm25", {})), "hybrid": (HybridSettings, table.pop("hybrid", {}))}
    plain = _checked(Settings, table, "", path, skip={"bm25", "hybrid", "encoders"})
    made = {name: kind(**_checked(kind, part, f"{name}.", path)) for name, (kind, part) in sections.items()}
    return Settings(**plain, **made, encoders={name: _encoder(name, part, path) for name, part in encoders.items()})


def _encoder(name: str, table: Any, path: Path) -> EncoderSettings:
    if not NAME.fullmatch(name):
        raise BadInput(f"encoder name {name!r}: use letters, digits, '.', '_' and '-'", path)
    settings = EncoderSettings(**_checked(EncoderSettings, table, f"encoders.{name}.", path))
    if (settings.model is None) == (settings.question_model is None or settings.passage_model is None):
        raise BadInput(f"encoders.{name} needs either model, or question_model and passage_model", path)
    try:
        settings.passage_template.format(title="", text="")
    except (KeyError, IndexError, ValueError) as error:
        raise BadInput(f"encoders.{name}.passage_template may hold {{title}} and {{text}} only", path) from error
    return replace(settings, **{key: _in_study(getattr(settings, key), path.parent) for key in MODELS})


def _in_study(model: str | None, folder: Path) -> str | None:
    """A folder inside the study is named from there, so that a study can be moved."""
    inside = folder / model if model and not Path(model).is_absolute() else None
    return str(inside.absolute()) if inside is not None and inside.is_dir() else model


def _checked(
    kind: type, table: Any, prefix: str, path: Path, skip: frozenset[str] | set[str] = frozenset()
) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise BadInput(f"{prefix.rstrip('.')} must be a table", path)
    known = {f.name: f for f in fields(kind) if f.name not in skip}
    for key, value in table.items():
        if key not in known:
            raise BadInput(f"unknown setting {prefix}{key}; known: {', '.join(known)}", path)
        _check_value(prefix + key, value, known[key].default, path)
    return {key: float(value) if isinstance(known[key].default, float) else value for key, value in table.items()}


def _check_value(key: str, value: Any, default: Any, path: Path) -> None:
    if isinstance(default, (int, float)) and default is not MISSING:
        wanted = (int,) if isinstance(default, int) else (int, float)
        if not isinstance(value, wanted) or isinstance(value, bool) or value < 0:
            raise BadInput(f"{key} must be a number of at least 0, not {value!r}", path)
        if key in ("k", "hybrid.depth") and value < 1:
            raise BadInput(f"{key} must be at least 1", path)
    elif not isinstance(value, str):
        raise BadInput(f"{key} must be a text, not {value!r}", path)
    choices = CHOICES.get(key) or CHOICES.get(key.rsplit(".", 1)[-1])
    if choices and value not in choices:
        raise BadInput(f"{key} must be one of {', '.join(choices)}, not {value!r}", path)


def add_encoder(path: Path, name: str, values: dict[str, Any]) -> None:
    """Add `[encoders.NAME]` to a study.toml, everything else in it left as it is."""
    import tomlkit

    from backend.core.manifest import write_text

    check_name(name, "encoder")
    document = tomlkit.parse(path.read_text(encoding="utf-8"))
    encoders = document.setdefault("encoders", tomlkit.table(is_super_table=True))
    if name in encoders:
        raise Refused(f"{path}: there is already an encoder named {name}; choose another name or edit the file")
    table = tomlkit.table()
    for key, value in values.items():
        if key in MODELS and value and Path(value).is_relative_to(path.parent.absolute()):
            value = str(Path(value).relative_to(path.parent.absolute()))
        if value is not None:
            table.add(key, value)
    _encoder(name, dict(table), path)
    encoders.add(name, table)
    write_text(path, tomlkit.dumps(document))
