"""The common base of indexes that are written from blocks of encoded passages: term weights (sparse) and token vectors
(late interaction).
"""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from blindspot.backend.core.manifest import read_manifest, write_manifest
from blindspot.backend.core.settings import EncoderSettings
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.dense import EncoderKind, encoder_settings
from blindspot.backend.retrieval.encoded_blocks import Arrays, encode_blocks, read_blocks
from blindspot.backend.retrieval.model_kinds import encoder_kind, encoders_of_kind
from blindspot.backend.retrieval.retriever import refuse_other_index
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Passage

Blocks = Callable[[], Iterator[dict[str, np.ndarray]]]
"""Yields the arrays of consecutive passages; it can be called repeatedly."""


class DescribedModel(Protocol):
    """An encoder that can describe everything that determines its vectors or weights."""

    def describe(self) -> dict[str, Any]: ...


Model = TypeVar("Model", bound=DescribedModel)


class EncodedIndex(ABC, Generic[Model]):
    """One kind of index, built from the blocks of one kind of encoder.

    Attributes:
        encoder_kind: as in `model_kinds`; `blindspot index ENCODER_KIND` builds the index.
        arrays: names of the arrays of a block.
        size_names: what `write` counts, and the manifest's name for its mean per passage.
        written_files: what `write` writes, in words.
    """

    encoder_kind: ClassVar[str]
    arrays: ClassVar[tuple[str, ...]]
    size_names: ClassVar[tuple[str, str]]
    written_files: ClassVar[str]

    @abstractmethod
    def load(self, settings: EncoderSettings, device: str | None) -> Model:
        """Load the encoder. Raises Refused for a model of another kind."""

    @abstractmethod
    def encode(self, model: Model, passages: Sequence[Passage]) -> Arrays:
        """Return the arrays of some passages."""

    @abstractmethod
    def join(self, arrays: Sequence[Arrays]) -> Arrays:
        """Concatenate the arrays of consecutive passages."""

    @abstractmethod
    def write(self, folder: Path, blocks: Blocks, model: Model, passage_count: int) -> dict[str, int]:
        """Write the index's files and return their sizes for the manifest."""

    def describe(self, model: Model) -> dict[str, Any]:
        """Return the model's hash and settings, which determine the arrays together with the passages."""
        return model.describe()

    @property
    def name(self) -> str:
        """The `kind` in the manifest."""
        return f"{self.encoder_kind} index"

    def command(self, encoder: str) -> str:
        return f"blindspot index {self.encoder_kind} --encoder {encoder}"

    def build(self, study: Study, encoder: str, device: str | None, progress: Progress | None) -> dict[str, Any]:
        """Encode all passages, write the index, and return its manifest.

        Encoded passages are written in blocks. An interrupted encoding resumes after the last complete block.

        Raises Missing for an unknown encoder, and Refused for a model of another kind or if another process is building
        the index.
        """
        settings, corpus, folder = encoder_settings(study, encoder), study.corpus, study.path("indexes", encoder)
        refuse_other_index(study, encoder, self.name)
        started = time.monotonic()
        with study.lock_part(f"indexes/{encoder}"):
            model = self.load(settings, device)
            recipe = {
                "kind": self.name,
                "encoder": encoder,
                "passages": len(corpus),
                "corpus": corpus.digest,
                **self.describe(model),
            }
            (folder / "manifest.json").unlink(missing_ok=True)
            paths = encode_blocks(
                corpus, folder / "blocks", recipe, lambda some: self.encode(model, some), self.join, progress
            )
            if progress is not None:
                progress(0, None, f"writing {self.written_files}")
            size = self.write(folder, lambda: read_blocks(paths, self.arrays), model, len(corpus))
            counted, mean = self.size_names
            sizes = {**size, mean: round(size[counted] / max(len(corpus), 1), 1)}
            manifest = write_manifest(folder, {**recipe, **sizes, "seconds": round(time.monotonic() - started, 1)})
            shutil.rmtree(folder / "blocks", ignore_errors=True)
            return manifest

    def manifest(self, study: Study, encoder: str) -> dict[str, Any]:
        """Return the manifest of a finished index.

        Raises Missing if there is no index, and Refused if the encoder is of another kind or the index was made over
        other passages.
        """
        manifest = read_manifest(study.path("indexes", encoder))
        if manifest is None or manifest.get("kind") != self.name:
            if (kind := encoder_kind(encoder_settings(study, encoder))) != self.encoder_kind:
                raise Refused(f"encoder {encoder!r} is {kind}, not {self.encoder_kind}; {self._model_hash(study)}")
            raise Missing(f"no {self.name} for encoder {encoder!r}; run '{self.command(encoder)}'")
        if manifest["corpus"] != study.corpus.digest:
            raise Refused(f"the index {encoder!r} was made over other passages; run '{self.command(encoder)}' again")
        return manifest

    def encoder_of(self, manifest: Mapping[str, Any], settings: EncoderSettings, device: str | None) -> Model:
        """Load the encoder of an index. Raises Refused if its weights or settings have changed since the index was
        made.
        """
        model = self.load(settings, device)
        for key, value in model.describe().items():
            if manifest[key] != value:
                raise Refused(
                    f"encoder {manifest['encoder']!r} has changed since its index was made ({key}: {value!r}, in "
                    f"the index {manifest[key]!r}); run '{self.command(manifest['encoder'])}' again"
                )
        return model

    def _model_hash(self, study: Study) -> str:
        names = encoders_of_kind(study, self.encoder_kind)
        if not names:
            return "name one with --encoder (add one with 'blindspot encoder add')"
        return f"name one with --encoder ({self.encoder_kind} encoders of study.toml: {', '.join(names)})"


class EncodedIndexKind(EncoderKind):
    """Base class of the kinds of retrievers that search such an index. The name of the retriever kind is that of the
    encoder kind.
    """

    explains = True

    def available(self, study: Study) -> list[str]:
        made = study.parts("indexes").items()
        return [f"{self.name}:{name}" for name, manifest in made if manifest.get("kind") == f"{self.name} index"]

    def label(self, name: str) -> str:
        return f"{self.title} ({self.named(name)})"

    def run_name(self, options: Any) -> str:
        return options.encoder

    def encoders_without_index(self, study: Study) -> list[str]:
        """Return the encoders of study.toml that have no index yet."""
        return [name for name in encoders_of_kind(study, self.name) if name not in study.parts("indexes")]
