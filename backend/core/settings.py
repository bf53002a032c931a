"""The settings in a study's `study.toml`: declared in this module, and checked when the file is read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from string import Formatter
from typing import TYPE_CHECKING, Any, Literal

from pydantic import field_validator

from blindspot.backend.core.declared import Field, build_settings, settings_class, toml_section
from blindspot.db.errors import BadInput, Refused

if TYPE_CHECKING:
    import tomlkit

Unit = Literal["fact", "question", "subject", "template", "relation"]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LARGEST_SEED = 2**63 - 1
LARGEST_FILE = 1 << 20  # bytes of a study.toml; a person writes a few hundred

DEFAULT_TOML = """\
# Settings of this study. You may edit them by hand; commands that add a setting keep your comments.

{study}
[bm25]
{bm25}
[hybrid]
{hybrid}
[encoders.minilm]
model = "minilm"  # all-MiniLM-L6-v2, which its Python package installs: no download
"""


@settings_class
class BM25Settings:
    k1: float = Field(
        default=0.9, title="k1", description="Saturation of a term's frequency in a passage", ge=0, le=1000
    )
    b: float = Field(
        default=0.4, title="b", description="Normalisation by passage length: 0 none, 1 full", ge=0, le=1000
    )


@settings_class
class HybridSettings:
    method: Literal["auto", "weighted", "rrf"] = Field(
        default="auto",
        title="Fusion",
        description="weighted: BM25 + weight x dense; rrf: reciprocal rank fusion; auto: rrf for encoders with unit "
        "vectors, "
        "whose scores would vanish beside BM25's, else weighted",
    )
    weight: float = Field(default=1.1, description="Weight of the dense score in weighted fusion (DPR: 1.1)", ge=0)
    rrf_k: int = Field(
        default=60, title="RRF k", description="Constant of reciprocal rank fusion: 1 / (rrf_k + rank)", ge=0, le=10**9
    )
    depth: int = Field(default=2000, description="Hits of each retriever that fusion joins", ge=1, le=10**9)


@settings_class
class EncoderSettings:
    """The settings of an encoder, which turns questions and passages into vectors.

    Set either `model`, or both `question_model` and `passage_model`. A model is a folder or a Hugging Face name;
    "minilm" is the packaged model. A sentence-transformers folder may hold separate models for questions and passages.
    """

    model: str | None = Field(default=None, description="A sentence-transformers or Hugging Face folder or name")
    question_model: str | None = Field(
        default=None, description="The question tower (DPR), together with a passage model"
    )
    passage_model: str | None = Field(
        default=None, description="The passage tower (DPR), together with a question model"
    )
    pooling: Literal["auto", "cls", "mean"] = Field(
        default="auto", description="How token vectors become one vector; auto: as the model says"
    )
    similarity: Literal["auto", "dot", "cosine", "l2"] = Field(
        default="auto", description="How vectors are compared; auto: as the model says"
    )
    passage_template: str = Field(
        default="{title} [SEP] {text}", description="The text of a passage that is encoded, of {title} and {text}"
    )
    max_tokens: int = Field(
        default=256, title="Tokens", description="Maximum tokens of a text; longer texts are cut", ge=1, le=1_000_000
    )
    batch_size: int = Field(default=32, description="Texts encoded at a time", ge=1, le=1_000_000)
    question_prompt: str | None = Field(
        default=None,
        description="Text put before each question, such as an instruction; without it the model's own, if it stores one",
    )
    passage_prompt: str | None = Field(
        default=None, description="Text put before each passage; without it the model's own, if it stores one"
    )
    dimensions: int | None = Field(
        default=None,
        description="Keep only the first dimensions of each vector (Matryoshka models); without it all of them",
        ge=1,
        le=1_000_000,
    )

    @field_validator("passage_template")
    @classmethod
    def _only_title_and_text(cls, template: str) -> str:
        try:
            fields = [(name, spec) for _, name, spec, _ in Formatter().parse(template) if name is not None]
        except ValueError:
            fields = [("", "")]
        if any(name not in ("title", "text") or not re.fullmatch(r"(\.\d{1,6})?", spec or "") for name, spec in fields):
            raise ValueError("may hold {title} and {text} only")
        return template


@settings_class
class Settings:
    name: str = Field(default="study", description="The study's name, as the app shows it")
    seed: int = Field(default=0, description="Seed of everything random", ge=0, le=LARGEST_SEED)
    k: int = Field(default=100, title="k", description="Hits kept per question", ge=1, le=10**9)
    unit: Unit = Field(
        default="fact",
        title="Unit of observation",
        description="What counts as one observation in every test and interval: a fact, however often it is asked; "
        "a question, subject, template or relation",
    )
    bm25: BM25Settings = field(default_factory=BM25Settings)
    hybrid: HybridSettings = field(default_factory=HybridSettings)
    encoders: dict[str, EncoderSettings] = field(default_factory=dict)


MODELS = ("model", "question_model", "passage_model")
VECTOR_SETTINGS = ("question_prompt", "passage_prompt", "dimensions")
"""Settings that change the vectors. A manifest records them only if they are set, because older manifests lack them."""


def check_name(name: str, noun: str) -> str:
    """Return the name unchanged if it can be used as a folder name and in a URL, as names of runs and encoders are.
    Otherwise raises Refused.
    """
    if not NAME.fullmatch(name):
        raise Refused(
            f"{noun} name {name!r}: use letters, digits, '.', '_' and '-' (at most 64, none but a letter or digit "
            "first)"
        )
    return name


def default_toml(name: str) -> str:
    """Return the study.toml of a new study: every setting with its default, and its help as a comment."""
    return DEFAULT_TOML.format(
        study=toml_section(Settings, {"name": name}),
        bm25=toml_section(BM25Settings),
        hybrid=toml_section(HybridSettings),
    )


def read_settings(path: Path) -> Settings:
    """Read `study.toml`. For an invalid value, raises BadInput, which names the file and the key."""
    table = _read_table(path)
    encoders = table.pop("encoders", {})
    if not isinstance(encoders, dict):
        raise BadInput("encoders must be a table, with a section [encoders.NAME] for each encoder", path)
    return replace(
        build_settings(Settings, table, path=path),
        encoders={name: _encoder_settings(name, part, path) for name, part in encoders.items()},
    )


def _read_table(path: Path) -> dict[str, Any]:
    import tomllib

    if path.stat().st_size > LARGEST_FILE:
        raise BadInput(
            f"is larger than {LARGEST_FILE >> 20} MB, which no study.toml is; restore it from a backup", path
        )
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise BadInput("is not valid TOML: its tables or lists nest too deeply", path) from None
    except UnicodeDecodeError as error:
        raise BadInput(f"is not valid TOML: byte {error.start} is not UTF-8", path) from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"is not valid TOML: {error}", path) from None
    except ValueError:  # an integer of more digits than Python converts
        raise BadInput("is not valid TOML: a number has too many digits", path) from None


def _encoder_settings(name: str, table: Any, path: Path) -> EncoderSettings:
    if not NAME.fullmatch(name):
        raise BadInput(f"encoder name {name[:80]!r}: use letters, digits, '.', '_' and '-'", path)
    settings = build_settings(EncoderSettings, table, f"encoders.{name}", path)
    if (settings.model is None) == (settings.question_model is None or settings.passage_model is None):
        raise BadInput(f"encoders.{name} needs either model, or question_model and passage_model", path)
    models: dict[str, Any] = {key: _path_in_study(getattr(settings, key), path.parent) for key in MODELS}
    return replace(settings, **models)


def _path_in_study(model: str | None, folder: Path) -> str | None:
    """Return a model folder inside the study as a path relative to the study, so that the study can be moved."""
    inside = folder / model if model and not Path(model).is_absolute() else None
    return str(inside.absolute()) if inside is not None and inside.is_dir() else model


@contextmanager
def _edited_toml(path: Path) -> Iterator[tomlkit.TOMLDocument]:
    """Yield the content of study.toml, and write what the `with` block changed. Comments stay."""
    import tomlkit

    from blindspot.backend.core.manifest import write_text

    before = path.read_text(encoding="utf-8")
    document = tomlkit.parse(before)
    yield document
    if (after := tomlkit.dumps(document)) != before:
        write_text(path, after)


def change_settings(path: Path, values: dict[str, Any]) -> None:
    """Change top-level settings in study.toml and leave the rest of the file unchanged. Raises BadInput for a value out
    of bounds.
    """
    with _edited_toml(path) as document:
        build_settings(Settings, values, path=path)
        document.update(values)


def remove_encoder(path: Path, name: str) -> None:
    """Remove the section `[encoders.NAME]` from study.toml, if it exists, and leave the rest of the file unchanged."""
    with _edited_toml(path) as document:
        encoders = document.get("encoders")
        if encoders is not None and name in encoders:
            encoders.remove(name)


def add_encoder(path: Path, name: str, values: dict[str, Any]) -> None:
    """Add the section `[encoders.NAME]` to study.toml and leave the rest of the file unchanged."""
    import tomlkit

    check_name(name, "encoder")
    with _edited_toml(path) as document:
        encoders = document.setdefault("encoders", tomlkit.table(is_super_table=True))
        if name in encoders:
            raise Refused(f"{path}: there is already an encoder named {name}; choose another name or edit the file")
        table = tomlkit.table()
        for key, value in values.items():
            if key in MODELS and value and Path(value).is_relative_to(path.parent.absolute()):
                value = str(Path(value).relative_to(path.parent.absolute()))
            if value is not None:
                table.add(key, value)
        _encoder_settings(name, dict(table), path)
        encoders.add(name, table)
