"""Search an existing Milvus collection, filled by other tools, with the vectors of a named encoder.

WHERE is the address of the server, or a file of the embedded milvus-lite. The passage id is the collection's primary
key, or the field `--id-field`. With `--text-field`, passages can be read from the collection.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from blindspot.backend.progress import Progress
from blindspot.backend.retrieval.engines.engine import (
    ENGINES,
    Engine,
    changed_index_error,
    check_same_model,
    encoder_for,
    hits_of,
    run_settings,
)
from blindspot.backend.retrieval.engines.engine_settings import EngineSettings
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
from blindspot.db.records import Hits

if TYPE_CHECKING:
    from blindspot.backend.core.study import Study
    from blindspot.backend.retrieval.encoder import Encoder

ROWS_PER_BLOCK = 1000
IDS_TRIED = 1000  # of the collection, when it is opened
MARGIN = 32  # hits fetched beyond k
FLOATS = ("FLOAT_VECTOR", "FLOAT16_VECTOR", "BFLOAT16_VECTOR")


class Collection:
    """An existing collection. Raises Missing or Refused if it cannot be searched."""

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
            self.vector = self._vector_field(settings.vector_field)
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
    def width(self) -> int:
        return int(self.fields[self.vector]["params"]["dim"])

    @property
    def fingerprint(self) -> str:
        """Return a hash of the collection's id, time of creation, fields and number of rows."""
        kept = [str(self.about.get(key)) for key in ("collection_id", "created_timestamp")]
        fields = [[name, field["type"].name, str(field.get("params"))] for name, field in self.fields.items()]
        return hashlib.sha256(json.dumps([self.name, kept, fields, self.count]).encode()).hexdigest()

    def sample_ids(self) -> list[str]:
        with one_line(self.uri):
            rows = self.client.query(
                self.name, filter="", limit=IDS_TRIED, output_fields=[self.id_field], timeout=SECONDS
            )
        return [str(row[self.id_field]) for row in rows]

    def search(self, vectors: np.ndarray, count: int) -> list[list[tuple[str, float]]]:
        """Return (passage id, score) of the best hits for each question vector. Distances for l2 become negative
        scores.
        """
        half = self.fields[self.vector]["type"].name == "FLOAT16_VECTOR"
        with one_line(self.uri):
            answer = self.client.search(
                self.name,
                data=list(vectors.astype(np.float16 if half else np.float32)),
                anns_field=self.vector,
                limit=count,
                output_fields=[self.id_field],
                timeout=SECONDS,
                search_params={"metric_type": self.metric},
            )
        sign = -1.0 if self.metric == "L2" else 1.0
        return [[(str(hit[self.id_field]), sign * float(hit["distance"])) for hit in hits] for hits in answer]


class CollectionPassages:
    """The passages of a collection, in the order of its primary key."""

    def __init__(self, collection: Collection, settings: EngineSettings, progress: Progress | None):
        self._collection, self._progress = collection, progress
        self._text = collection._checked_field(settings.text_field, "--text-field")
        self._title = collection._checked_field(settings.title_field, "--title-field") if settings.title_field else None

    def blocks(self) -> Iterator[list[Row]]:
        collection, done = self._collection, 0
        fields = [each for each in (collection.id_field, self._title, self._text) if each]
        with one_line(collection.uri):
            rows = collection.client.query_iterator(
                collection.name, batch_size=ROWS_PER_BLOCK, filter="", output_fields=list(dict.fromkeys(fields))
            )
            while block := rows.next():
                done += len(block)
                if self._progress is not None:
                    self._progress(done, collection.count, "reading the passages of the Milvus collection")
                yield [
                    (str(row[collection.id_field]), str(row[self._title]) if self._title else "", str(row[self._text]))
                    for row in block
                ]
            rows.close()


class OpenedCollection:
    """An opened collection as a retriever. Scores are computed by Milvus."""

    def __init__(self, study: Study, name: str, manifest: Mapping[str, Any], device: str | None):
        self.name, self.settings = f"opened:{name}", run_settings(name, manifest)
        self._study, self._manifest, self._device = study, manifest, device
        self._opened: tuple[Collection, Encoder] | None = None

    def _open(self) -> tuple[Collection, Encoder]:
        if self._opened is None:
            settings = EngineSettings(**self._manifest["settings"])
            collection = Collection(self._study, self._manifest["where"], settings)
            if collection.fingerprint != self._manifest["fingerprint"]:
                raise changed_index_error(self._manifest["name"], self._manifest, f"({collection.name}) has changed")
            encoder = encoder_for(self._study, settings, collection.width, collection.name, self._device)
            check_same_model(encoder, self._manifest["name"], self._manifest)
            self._opened = collection, encoder
        return self._opened

    def search(self, questions: Sequence[str], k: int, progress: Progress | None = None) -> Hits:
        collection, encoder = self._open()
        wanted = min(k + MARGIN, LARGEST_K, max(collection.count, 1))
        if k > LARGEST_K:
            raise Refused(f"k is {k:,}, but Milvus returns at most {LARGEST_K:,} hits")
        lists: list[list[tuple[str, float]]] = []
        for start in range(0, len(questions), QUESTIONS_PER_CALL):
            if progress is not None:
                progress(start, len(questions), "searching with Milvus")
            block = questions[start : start + QUESTIONS_PER_CALL]
            lists += collection.search(encoder.encode_questions(block), wanted)
        return hits_of(self._study, lists, k)


class MilvusEngine(Engine):
    name, title = "milvus", "Milvus"
    help = "the address of a Milvus server, or a FILE.db of milvus-lite"
    remote = True
    uses = ("encoder", "collection", "id_field", "title_field", "text_field", "vector_field")

    def examine(
        self, study: Study, where: str, settings: EngineSettings, folder: Path, progress: Progress | None
    ) -> dict[str, Any]:
        uri = absolute_uri(where)
        collection = Collection(study, uri, settings)
        encoder = encoder_for(study, settings, collection.width, f"the collection {collection.name}")
        ids = collection.sample_ids()
        known = len(study.corpus.ordinals(ids))
        if not known:
            raise Missing(
                f"none of {len(ids):,} ids of the collection {collection.name} is a passage of this study; name the "
                "field with the passage ids with --id-field"
            )
        return {
            "where": uri,
            "fingerprint": collection.fingerprint,
            "documents": collection.count,
            "matched": known if len(ids) == collection.count else None,
            "lexical": False,
            "encoder": settings.encoder,
            "model_hash": encoder.model_hash,
            "metric": collection.metric,
        }

    def read_passages(
        self, study: Study, where: str, settings: EngineSettings, progress: Progress | None
    ) -> CollectionPassages | None:
        if not settings.text_field:
            return None
        return CollectionPassages(Collection(study, absolute_uri(where), settings), settings, progress)

    def open(self, study: Study, name: str, manifest: Mapping[str, Any], device: str | None) -> OpenedCollection:
        return OpenedCollection(study, name, manifest, device)


ENGINES.register(MilvusEngine())
