"""The common base for vector stores that store passage ids with their vectors: Milvus, and stores added by plug-ins.

To add a store, write a module with a subclass of `VectorStore`, which reads the store, and a subclass of
`VectorStoreEngine`, which describes it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.encoder import Encoder
from blindspot.backend.retrieval.engines.engine import (
    Engine,
    changed_index_error,
    check_same_model,
    encoder_for,
    hits_of,
    run_settings,
)
from blindspot.backend.retrieval.engines.engine_settings import EngineSettings
from blindspot.backend.retrieval.retriever import search_in_blocks
from blindspot.db.corpus import Row
from blindspot.db.errors import Missing, Refused
from blindspot.db.records import Hits

IDS_TRIED = 1000  # of the store, when it is opened
MARGIN = 32  # hits fetched beyond k


class VectorStore(ABC):
    """One open collection of a store.

    Attributes:
        width: Dimensions. count: Vectors. metric: In the store's words; "" if each search chooses it.
        largest_k: The store returns no more hits. questions_per_call: Questions in one call of `search_block`.
    """

    width: int
    count: int
    metric: str
    largest_k = sys.maxsize
    questions_per_call = 256

    @abstractmethod
    def search(self, vector: np.ndarray, k: int, similarity: str) -> list[tuple[str, float]]:
        """Return (passage id, score) of the k passages nearest to a question's vector (d,) float32. Higher scores are
        nearer.

        Args:
            similarity: The encoder's: "dot", "cosine" or "l2"; for stores that can choose.
        """

    def search_block(self, vectors: np.ndarray, k: int, similarity: str) -> list[list[tuple[str, float]]]:
        """Return the result of `search` for each question vector (q, d) float32."""
        return [self.search(vector, k, similarity) for vector in vectors]

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Yield (passage id, title, text) for all vectors in a fixed order; "" for a missing text."""

    @property
    def fingerprint(self) -> str:
        """A hash of the number of vectors, their width and metric, and the first ids with their texts."""
        first = list(islice(self.rows(), IDS_TRIED))
        return hashlib.sha256(json.dumps([self.count, self.width, self.metric, first]).encode()).hexdigest()

    def close(self) -> None:  # noqa: B027, most stores have nothing to close
        """Let other processes open the store."""


class VectorStoreEngine(Engine):
    """An engine for vector stores; their WHERE is a folder unless `opened` says otherwise.

    Attributes:
        store: The `VectorStore` that opens one collection, given the folder and the settings. It raises Missing: none of
            this name; Refused: it cannot be searched.
    """

    store: ClassVar[Any]
    uses: ClassVar[tuple[str, ...]] = ("encoder", "collection", "id_field", "title_field", "text_field", "vector_field")

    def location(self, where: str) -> str:
        """Return what is recorded of WHERE."""
        return str(Path(where).absolute())

    def opened(self, study: Study, where: str, settings: EngineSettings) -> VectorStore:
        if not Path(where).is_dir():
            raise Missing(f"there is no folder {where} with a store of {self.title}")
        if not settings.collection:
            raise Refused(f"name the collection (or table) of {self.title} with --collection")
        return self.store(Path(where).absolute(), settings)

    def examine(
        self, study: Study, where: str, settings: EngineSettings, folder: Path, progress: Progress | None
    ) -> dict[str, Any]:
        store = self.opened(study, where, settings)
        try:
            encoder = encoder_for(study, settings, store.width, f"the collection {settings.collection}")
            ids = [id for id, _, _ in islice(store.rows(), IDS_TRIED)]
            known = len(study.corpus.ordinals(ids))
            if not known:
                raise Missing(
                    f"none of {len(ids):,} ids of the collection {settings.collection} is a passage of this study; name "
                    "the field with the passage ids with --id-field"
                )
            return {
                "where": self.location(where),
                "fingerprint": store.fingerprint,
                "documents": store.count,
                "matched": known if len(ids) == store.count else None,
                "lexical": False,
                "encoder": settings.encoder,
                "model_hash": encoder.model_hash,
                "metric": store.metric,
            }
        finally:
            store.close()

    def read_passages(
        self, study: Study, where: str, settings: EngineSettings, progress: Progress | None
    ) -> PassagesInStore | None:
        if not settings.text_field:
            return None
        return PassagesInStore(self.opened(study, where, settings), self.title, progress)

    def open(self, study: Study, name: str, manifest: Mapping[str, Any], device: str | None) -> OpenedStore:
        return OpenedStore(self, study, name, manifest, device)


class PassagesInStore:
    """The passages of a store, without those that have no text."""

    def __init__(self, store: VectorStore, title: str, progress: Progress | None):
        self._store, self._title, self._progress = store, title, progress

    def blocks(self) -> Iterator[list[Row]]:
        rows, done = iter(self._store.rows()), 0
        while block := list(islice(rows, IDS_TRIED)):
            done += len(block)
            if self._progress is not None:
                self._progress(done, self._store.count, f"reading the passages in {self._title}")
            yield [row for row in block if row[2].strip()]
        self._store.close()


class OpenedStore:
    """An opened store as a retriever. Scores are the store's own; distances are negated."""

    def __init__(
        self, engine: VectorStoreEngine, study: Study, name: str, manifest: Mapping[str, Any], device: str | None
    ):
        self.name, self.settings = f"opened:{name}", run_settings(name, manifest)
        self._engine, self._study, self._manifest, self._device = engine, study, manifest, device
        self._opened: tuple[VectorStore, Encoder] | None = None

    def _open(self) -> tuple[VectorStore, Encoder]:
        if self._opened is None:
            settings = EngineSettings(**self._manifest["settings"])
            store = self._engine.opened(self._study, self._manifest["where"], settings)
            if store.fingerprint != self._manifest["fingerprint"]:
                raise changed_index_error(
                    self._manifest["name"], self._manifest, f"({settings.collection}) has changed"
                )
            encoder = encoder_for(self._study, settings, store.width, settings.collection, self._device)
            check_same_model(encoder, self._manifest["name"], self._manifest)
            self._opened = store, encoder
        return self._opened

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        store, encoder = self._open()
        if k > store.largest_k:
            raise Refused(f"k is {k:,}, but {self._engine.title} returns at most {store.largest_k:,} hits")
        wanted = min(k + MARGIN, store.largest_k, max(store.count, 1))

        def search_block(block: slice) -> Hits:
            vectors = encoder.encode_questions(questions[block]).astype(np.float32)
            return hits_of(self._study, store.search_block(vectors, wanted, encoder.similarity), k)

        report = progress, f"searching with {self._engine.title}"
        return search_in_blocks(questions, k, store.questions_per_call, search_block, report)
