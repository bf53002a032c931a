"""Search an existing Milvus collection, filled by other tools, with the vectors of a named encoder.

WHERE is the address of the server, or a file of the embedded milvus-lite. The passage id is the collection's primary
key, or the field `--id-field`. With `--text-field`, passages can be read from the collection.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.engines.engine import ENGINES
from blindspot.backend.retrieval.engines.engine_settings import EngineSettings
from blindspot.backend.retrieval.engines.vector_store import VectorStore, VectorStoreEngine
from blindspot.backend.retrieval.milvus import (
    LARGEST_K,
    QUESTIONS_PER_CALL,
    SECONDS,
    absolute_uri,
    connect,
    count_vectors,
    one_line,
)
from blindspot.db.corpus import Row
from blindspot.db.errors import Missing, Refused

ROWS_PER_BLOCK = 1000
FLOATS = ("FLOAT_VECTOR", "FLOAT16_VECTOR", "BFLOAT16_VECTOR")


class Collection(VectorStore):
    """An existing collection. Raises Missing or Refused if it cannot be searched."""

    largest_k, questions_per_call = LARGEST_K, QUESTIONS_PER_CALL

    def __init__(self, study: Study, uri: str, settings: EngineSettings):
        self.uri, self.name = uri, settings.collection
        if not self.name:
            raise Refused("name the Milvus collection with --collection")
        with one_line(uri):
            self.client = connect(study, uri)
            if not self.client.has_collection(self.name):
                known = ", ".join(self.client.list_collections()) or "none"
                raise Missing(f"Milvus at {uri} has no collection {self.name!r}; collections there: {known}")
            self.about = self.client.describe_collection(self.name)
            self.fields = {field["name"]: field for field in self.about["fields"]}
            self.key = next(name for name, field in self.fields.items() if field.get("is_primary"))
            self.id_field = self._checked_field(settings.id_field or self.key, "--id-field")
            self.title_field = settings.title_field and self._checked_field(settings.title_field, "--title-field")
            self.text_field = settings.text_field and self._checked_field(settings.text_field, "--text-field")
            self.vector = self._vector_field(settings.vector_field)
            self.width = int(self.fields[self.vector]["params"]["dim"])
            self.metric = self._collection_metric()
            self.client.load_collection(self.name)
            self.count = count_vectors(self.client, self.name)

    def _checked_field(self, name: str, option: str) -> str:
        if name not in self.fields:
            raise Refused(
                f"the collection {self.name} has no field {name!r} for {option}; fields: {', '.join(self.fields)}"
            )
        return name

    def _vector_field(self, name: str) -> str:
        vectors = [each for each, field in self.fields.items() if field["type"].name in FLOATS]
        if name:
            return self._checked_field(name, "--vector-field")
        if len(vectors) != 1:
            raise Refused(f"the collection {self.name} has {len(vectors)} vector fields; name one with --vector-field")
        return vectors[0]

    def _collection_metric(self) -> str:
        for index in self.client.list_indexes(self.name):
            about = self.client.describe_index(self.name, index)
            if about.get("field_name", self.vector) == self.vector:
                return str(about.get("metric_type", "IP"))
        raise Refused(f"the field {self.vector} of the collection {self.name} has no index, so Milvus cannot search it")

    @property
    def fingerprint(self) -> str:
        """A hash of the collection's id, time of creation, fields and number of rows."""
        kept = [str(self.about.get(key)) for key in ("collection_id", "created_timestamp")]
        fields = [[name, field["type"].name, str(field.get("params"))] for name, field in self.fields.items()]
        return hashlib.sha256(json.dumps([self.name, kept, fields, self.count]).encode()).hexdigest()

    def search(self, vector: np.ndarray, k: int, similarity: str) -> list[tuple[str, float]]:
        return self.search_block(vector[None], k, similarity)[0]

    def search_block(self, vectors: np.ndarray, k: int, similarity: str) -> list[list[tuple[str, float]]]:
        """Return (passage id, score) of the best hits for each question. Distances for l2 become negative scores."""
        half = self.fields[self.vector]["type"].name == "FLOAT16_VECTOR"
        with one_line(self.uri):
            answer = self.client.search(
                self.name,
                data=list(vectors.astype(np.float16 if half else np.float32)),
                anns_field=self.vector,
                limit=k,
                output_fields=[self.id_field],
                timeout=SECONDS,
                search_params={"metric_type": self.metric},
            )
        sign = -1.0 if self.metric == "L2" else 1.0
        return [[(str(hit[self.id_field]), sign * float(hit["distance"])) for hit in hits] for hits in answer]

    def rows(self) -> Iterator[Row]:
        id, title, text = self.id_field, self.title_field, self.text_field
        fields = list(dict.fromkeys(each for each in (id, title, text) if each))
        with one_line(self.uri):
            read = self.client.query_iterator(self.name, batch_size=ROWS_PER_BLOCK, filter="", output_fields=fields)
            while block := read.next():
                for row in block:
                    yield str(row[id]), str(row[title]) if title else "", str(row[text]) if text else ""
            read.close()


class MilvusEngine(VectorStoreEngine):
    name, title = "milvus", "Milvus"
    help = "the address of a Milvus server, or a FILE.db of milvus-lite"
    remote = True

    def location(self, where: str) -> str:
        return absolute_uri(where)

    def opened(self, study: Study, where: str, settings: EngineSettings) -> Collection:
        return Collection(study, absolute_uri(where), settings)


ENGINES.register(MilvusEngine())
