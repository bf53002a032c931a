"""Elasticsearch and OpenSearch: many questions a request by `_msearch`; BM25 over named fields, or nearest vectors.

Formats: https://www.elastic.co/guide/en/elasticsearch/reference/current/search-multi-search.html and
https://docs.opensearch.org/latest/vector-search/ (the query `knn`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import quote

import numpy as np

from blindspot.backend.retrieval.engines.engine import ENGINES
from blindspot.backend.retrieval.engines.engine_settings import EngineSettings
from blindspot.backend.retrieval.engines.remote_engine import Found, RemoteEngine
from blindspot.backend.retrieval.engines.web import SearchServer, malformed, said_by, split_fields
from blindspot.db.errors import BlindspotError, Refused

CANDIDATES = 10_000  # the engine's limit of num_candidates


class Elasticsearch(RemoteEngine):
    name, title = "elasticsearch", "Elasticsearch"
    help = "the URL of an Elasticsearch server"
    scheme = "ApiKey"
    largest_k = 10_000
    width_key: ClassVar[str] = "dims"

    def about(self, server: SearchServer, settings: EngineSettings) -> dict[str, Any]:
        index = quote(settings.collection, safe="")
        counted, mapping = server.ask(f"/{index}/_count", None), server.ask(f"/{index}/_mapping", None)
        try:
            documents = int(counted["count"])
            properties = {name: each for one in mapping.values() for name, each in _properties(one["mappings"])}
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise malformed(server, error) from None
        named = [*split_fields(settings.fields), settings.vector_field, settings.id_field]
        for field in (each.partition("^")[0] for each in named if each):
            if field not in properties:
                raise Refused(
                    f"the index {settings.collection} has no field {field!r}; fields: {', '.join(sorted(properties))}"
                )
        text = json.dumps([settings.collection, documents, properties], sort_keys=True)
        width = properties[settings.vector_field].get(self.width_key) if settings.vector_field else None
        if settings.vector_field and width is None:
            raise Refused(f"the field {settings.vector_field} of {settings.collection} holds no vectors")
        return {"documents": documents, "fingerprint": hashlib.sha256(text.encode()).hexdigest(), "width": width}

    def search(
        self,
        server: SearchServer,
        settings: EngineSettings,
        questions: Sequence[str],
        vectors: np.ndarray | None,
        k: int,
    ) -> list[Found]:
        lines: list[dict[str, Any]] = []
        for row, question in enumerate(questions):
            asked = self.words(question, settings) if vectors is None else self.nearest(vectors[row], settings, k)
            body = {
                "size": k,
                "track_total_hits": False,
                "_source": [settings.id_field] if settings.id_field else False,
            }
            lines += [{}, body | asked]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        path = f"/{quote(settings.collection, safe='')}/_msearch"
        answer = server.ask(path, text.encode(), "application/x-ndjson")
        try:
            return [self._hits(server, each, settings) for each in answer["responses"]]
        except (KeyError, TypeError, ValueError) as error:
            raise malformed(server, error) from None

    def words(self, question: str, settings: EngineSettings) -> dict[str, Any]:
        """Return the BM25 query: of one field, or the best of several."""
        fields = split_fields(settings.fields)
        if len(fields) == 1 and "^" not in fields[0]:
            return {"query": {"match": {fields[0]: {"query": question}}}}
        return {"query": {"multi_match": {"query": question, "fields": fields, "type": "best_fields"}}}

    def nearest(self, vector: np.ndarray, settings: EngineSettings, k: int) -> dict[str, Any]:
        """Return the query for the nearest vectors."""
        candidates = min(CANDIDATES, max(100, 2 * k))
        field = {"field": settings.vector_field, "query_vector": vector.tolist(), "k": k, "num_candidates": candidates}
        return {"knn": field}

    def _hits(self, server: SearchServer, response: dict[str, Any], settings: EngineSettings) -> Found:
        if "error" in response:
            raise BlindspotError(f"{self.title} at {server.url} failed: {said_by(response['error'])}")
        return [(_id(hit, settings.id_field), float(hit["_score"])) for hit in response["hits"]["hits"]]


class OpenSearch(Elasticsearch):
    name, title = "opensearch", "OpenSearch"
    help = "the URL of an OpenSearch server"
    width_key = "dimension"

    def nearest(self, vector: np.ndarray, settings: EngineSettings, k: int) -> dict[str, Any]:
        return {"query": {"knn": {settings.vector_field: {"vector": vector.tolist(), "k": k}}}}


def _properties(mapping: dict[str, Any], above: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Return (dotted name, mapping) of each field, those inside objects and multi-fields included."""
    found = []
    for name, each in mapping.get("properties", {}).items():
        found.append((above + name, each))
        found += [(f"{above}{name}.{sub}", field) for sub, field in each.get("fields", {}).items()]
        found += _properties(each, f"{above}{name}.")
    return found


def _id(hit: dict[str, Any], field: str) -> str:
    value: Any = hit["_id"] if not field else hit["_source"]
    for part in field.split(".") if field else ():
        value = value[part]
    return str(value)


ENGINES.register(Elasticsearch())
ENGINES.register(OpenSearch())
