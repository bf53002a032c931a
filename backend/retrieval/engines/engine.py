"""The interface of engines, which check, record and search an existing index, and what Lucene's and FAISS's share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from blindspot.backend.core.declared import declared_settings
from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.encoder import Encoder
from blindspot.backend.retrieval.engines.engine_settings import EngineSettings
from blindspot.backend.retrieval.retriever import Retriever
from blindspot.db.corpus import Row
from blindspot.db.errors import Missing, Refused

OPENED = "opened"
"""The kind of retriever: "opened:NAME"."""


class Engine(ABC):
    """One kind of index.

    Attributes:
        name: the value of `blindspot index open --engine`.
        title: its name in the interface.
        help: one line: what WHERE names.
        uses: the settings that it understands.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    help: ClassVar[str]
    uses: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def examine(
        self, study: Study, where: str, settings: EngineSettings, folder: Path, progress: Progress | None
    ) -> dict[str, Any]:
        """Check that the index can be searched, and return its entries for the manifest.

        Args:
            folder: where arrays that the search needs are written.

        Returns:
            where (absolute), fingerprint, documents, matched (how many are passages of the study; None if unknown),
            lexical, and what else `open` needs.

        Raises BlindspotError with a one-line message for an index that cannot be searched.
        """

    @abstractmethod
    def open(self, study: Study, name: str, manifest: Mapping[str, Any], device: str | None) -> Retriever:
        """Open a recorded index. Raises Refused if it has changed, and Missing if it was deleted."""

    def read_passages(
        self, study: Study, where: str, settings: EngineSettings, progress: Progress | None
    ) -> PassagesInIndex | None:
        """Return the passages that the index stores; None if it stores no passages or cannot list them."""
        return None

    def check_settings(self, settings: EngineSettings) -> None:
        """Raise Refused if a setting of another engine is given."""
        for name, declaration in declared_settings(EngineSettings).items():
            if name not in self.uses and getattr(settings, name) != declaration.default:
                raise Refused(f"{declaration.option} does not apply to --engine {self.name}")


class PassagesInIndex(Protocol):
    """The passages that an index stores."""

    def blocks(self) -> Iterator[list[Row]]:
        """Yield lists of (id, title, text)."""
        ...


def run_settings(name: str, manifest: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the entries about an opened index for a run's manifest."""
    recorded = ("engine", "where", "fingerprint", "documents", "lexical", "settings", "encoder", "model_hash")
    return {
        "retriever": f"{OPENED}:{name}",
        "kind": OPENED,
        "index": name,
        **{key: manifest[key] for key in recorded if key in manifest},
        **more,
    }


def encoder_for(
    study: Study, settings: EngineSettings, width: int | None, noun: str, device: str | None = None
) -> Encoder:
    """Load the encoder that made an index's vectors.

    Args:
        width: dimensions of the index; None if they are unknown. noun: the index, as messages call it.

    Raises Refused if no encoder is given, or if the encoder's vectors have another width.
    """
    from blindspot.backend.retrieval.dense import encoder_settings
    from blindspot.backend.retrieval.encoder import load_encoder

    if not settings.encoder:
        raise Refused(f"{noun} holds vectors; name the encoder that made them with --encoder")
    encoder = load_encoder(encoder_settings(study, settings.encoder), device)
    if width is not None and encoder.dimension != width:
        raise Refused(
            f"{noun} has vectors of {width} dimensions, but encoder {settings.encoder!r} gives {encoder.dimension}; "
            "name the encoder that made them with --encoder"
        )
    return encoder


def check_same_model(encoder: Encoder, name: str, manifest: Mapping[str, Any]) -> None:
    """Raise Refused if the encoder's weights or settings differ from those with which the index was opened."""
    if encoder.model_hash != manifest["model_hash"]:
        raise Refused(
            f"encoder {manifest['encoder']!r} has changed since the index {name!r} was opened; open it again with "
            f"'blindspot index open {name} {manifest['where']} --engine {manifest['engine']} --replace'"
        )


def changed_index_error(name: str, manifest: Mapping[str, Any], difference: str) -> Refused:
    """Return the error for an index that has changed since it was recorded."""
    return Refused(
        f"{manifest['where']} {difference} since it was opened; if the new index is meant, run 'blindspot index open {name} "
        f"{manifest['where']} --engine {manifest['engine']} --replace'"
    )


def rows_of_ids(study: Study, ids: Sequence[str], noun: str) -> np.ndarray:
    """Return the passage row of each id, (n,) int32; -1 for an id that is not in the study.

    Raises Missing if the study has none of them.
    """
    known = study.corpus.ordinals(ids)
    rows = np.array([known.get(id, -1) for id in ids], np.int32)
    if not len(rows) or rows.max() < 0:
        shown = f", such as {ids[0]!r}" if ids else ""
        raise Missing(
            f"none of the {len(ids):,} ids of {noun}{shown} is a passage of this study; import the passages of this "
            "index, with the same ids"
        )
    return rows
