"""A collection of Qdrant's local mode; WHERE is the folder that `QdrantClient(path=...)` writes. Only one process at a
time can open it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from blindspot.backend.retrieval.engines.engine import ENGINES
from blindspot.backend.retrieval.engines.engine_settings import EngineSettings
from blindspot.backend.retrieval.engines.vector_store import VectorStore, VectorStoreEngine
from blindspot.db.corpus import Row
from blindspot.db.errors import Missing, Refused

BLOCK = 1000


class QdrantCollection(VectorStore):
    def __init__(self, path: Path, settings: EngineSettings):
        from qdrant_client import QdrantClient

        try:
            self.client = QdrantClient(path=str(path))
        except RuntimeError as error:  # portalocker's
            raise Refused(f"another process has opened the Qdrant folder {path}; close it there first") from error
        known = [each.name for each in self.client.get_collections().collections]
        if settings.collection not in known:
            self.client.close()
            names = ", ".join(known) or "none"
            raise Missing(f"Qdrant in {path} has no collection {settings.collection!r}; collections: {names}")
        vectors = self.client.get_collection(settings.collection).config.params.vectors
        self.vector = settings.vector_field or (next(iter(vectors)) if isinstance(vectors, dict) else "")
        about = vectors[self.vector] if isinstance(vectors, dict) else vectors
        self.settings, self.width, self.metric = settings, about.size, str(about.distance.value)
        self.count = self.client.count(settings.collection).count

    def search(self, vector: np.ndarray, k: int, similarity: str) -> list[tuple[str, float]]:
        found = self.client.query_points(
            self.settings.collection, query=vector.tolist(), using=self.vector or None, limit=k, with_payload=True
        )
        sign = -1.0 if self.metric in ("Euclid", "Manhattan") else 1.0
        return [(self._passage_id(point), sign * float(point.score)) for point in found.points]

    def rows(self) -> Iterator[Row]:
        offset = None
        while True:
            block, offset = self.client.scroll(self.settings.collection, limit=BLOCK, offset=offset, with_payload=True)
            for point in block:
                payload, settings = point.payload or {}, self.settings
                yield (
                    self._passage_id(point),
                    str(payload.get(settings.title_field, "")),
                    str(payload.get(settings.text_field, "")),
                )
            if offset is None:
                return

    def _passage_id(self, point) -> str:
        return str((point.payload or {}).get(self.settings.id_field, "") if self.settings.id_field else point.id)

    def close(self) -> None:
        self.client.close()


class QdrantEngine(VectorStoreEngine):
    name, title = "qdrant", "Qdrant"
    help = "the folder of Qdrant's local mode"
    store = QdrantCollection


ENGINES.register(QdrantEngine())
