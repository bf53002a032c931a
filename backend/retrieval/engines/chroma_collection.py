"""A collection of Chroma: WHERE is the folder of a persistent client. Chroma's telemetry is off."""

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


class ChromaCollection(VectorStore):
    def __init__(self, path: Path, settings: EngineSettings):
        import chromadb

        if not (path / "chroma.sqlite3").is_file():
            raise Missing(f"{path} is not the folder of a persistent client of Chroma: it has no chroma.sqlite3")
        client = chromadb.PersistentClient(str(path), chromadb.Settings(anonymized_telemetry=False))
        known = [each.name for each in client.list_collections()]
        if settings.collection not in known:
            names = ", ".join(known) or "none"
            raise Missing(f"Chroma in {path} has no collection {settings.collection!r}; collections: {names}")
        self.collection = client.get_collection(settings.collection, embedding_function=None)
        first = self.collection.get(limit=1, include=["embeddings"])["embeddings"]
        if first is None or not len(first):
            raise Refused(f"the collection {settings.collection} is empty")
        self.width, self.count = len(first[0]), self.collection.count()
        self.metric = str((self.collection.configuration.get("hnsw") or {}).get("space", "l2"))
        self.settings = settings

    def search(self, vector: np.ndarray, k: int, similarity: str) -> list[tuple[str, float]]:
        found = self.collection.query(
            query_embeddings=[vector.tolist()], n_results=k, include=["distances", "metadatas"]
        )
        ids = [self._passage_id(*pair) for pair in zip(found["ids"][0], found["metadatas"][0], strict=True)]
        return [(id, -float(distance)) for id, distance in zip(ids, found["distances"][0], strict=True)]

    def rows(self) -> Iterator[Row]:
        for start in range(0, self.count, BLOCK):
            block = self.collection.get(limit=BLOCK, offset=start, include=["documents", "metadatas"])
            for id, text, about in zip(block["ids"], block["documents"], block["metadatas"], strict=True):
                title = (about or {}).get(self.settings.title_field, "")
                yield self._passage_id(id, about), str(title), text or ""

    def _passage_id(self, id: str, metadata: dict | None) -> str:
        return str((metadata or {}).get(self.settings.id_field, "")) if self.settings.id_field else id


class ChromaEngine(VectorStoreEngine):
    name, title = "chroma", "Chroma"
    help = "the folder of a persistent client of Chroma; any --text-field reads its documents"
    store = ChromaCollection
    uses = VectorStoreEngine.uses[:-1]  # a collection has one vector for each passage


ENGINES.register(ChromaEngine())
