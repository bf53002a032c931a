"""Vespa: a question a request to `/search/` in YQL, eight at a time; BM25 over named fields, or nearest vectors.

Format: https://docs.vespa.ai/en/reference/query-api-reference.html.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from blindspot.backend.retrieval.engines.engine import ENGINES
from blindspot.backend.retrieval.engines.engine_settings import EngineSettings
from blindspot.backend.retrieval.engines.remote_engine import Found, RemoteEngine
from blindspot.backend.retrieval.engines.web import CONNECTIONS, SearchServer, malformed, said_by, split_fields
from blindspot.db.errors import BlindspotError, Refused

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Vespa(RemoteEngine):
    name, title = "vespa", "Vespa"
    help = "the URL of a Vespa container"
    scheme = "Bearer"
    largest_k = 400
    uses = (*RemoteEngine.uses, "ranking")

    def about(self, server: SearchServer, settings: EngineSettings) -> dict[str, Any]:
        """Vespa has no request for a schema, so the width of its vectors is unknown: a wrong one fails in the first
        search.
        """
        _check_names(settings)
        answer = server.ask("/search/", _encode({"yql": f"select * from {settings.collection} where true", "hits": 0}))
        documents = _root(self, server, answer).get("fields", {}).get("totalCount")
        if not isinstance(documents, int):
            raise malformed(server, ValueError("no totalCount"))
        text = json.dumps([settings.collection, documents])
        return {"documents": documents, "fingerprint": hashlib.sha256(text.encode()).hexdigest(), "width": None}

    def search(
        self,
        server: SearchServer,
        settings: EngineSettings,
        questions: Sequence[str],
        vectors: np.ndarray | None,
        k: int,
    ) -> list[Found]:
        bodies = [
            self.query(question, settings, None if vectors is None else vectors[row], k)
            for row, question in enumerate(questions)
        ]
        with ThreadPoolExecutor(CONNECTIONS) as threads:
            answers = list(threads.map(lambda body: server.ask("/search/", _encode(body)), bodies))
        try:
            return [
                [
                    (_id(hit, settings.id_field), float(hit["relevance"]))
                    for hit in _root(self, server, a).get("children", [])
                ]
                for a in answers
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise malformed(server, error) from None

    def query(self, question: str, settings: EngineSettings, vector: np.ndarray | None, k: int) -> dict[str, Any]:
        """Return the body of a request. The question goes into a parameter, so it cannot change the YQL."""
        body: dict[str, Any] = {"hits": k, "timeout": f"{settings.timeout:g}s"}
        if vector is None:
            fields = split_fields(settings.fields)
            where = " or ".join(
                f'({{defaultIndex:"{field}", grammar:"weakAnd", targetHits:{k}}}userInput(@question))'
                for field in fields
            )
            body |= {"question": question, "ranking.profile": settings.ranking or "bm25"}
        else:
            where = f"{{targetHits:{k}}}nearestNeighbor({settings.vector_field}, q)"
            body |= {"input.query(q)": vector.tolist(), "ranking.profile": settings.ranking or "closeness"}
        return {"yql": f"select * from {settings.collection} where {where}", **body}


def _check_names(settings: EngineSettings) -> None:
    """Raise Refused for a name that YQL could not take literally."""
    for name in (settings.collection, settings.vector_field, *split_fields(settings.fields)):
        if name and not NAME.fullmatch(name):
            raise Refused(f"{name!r} is no name of a Vespa document type or field")


def _root(engine: Vespa, server: SearchServer, answer: Any) -> dict[str, Any]:
    root = answer.get("root") if isinstance(answer, dict) else None
    if not isinstance(root, dict):
        raise malformed(server, ValueError("no root"))
    if root.get("errors"):
        raise BlindspotError(f"{engine.title} at {server.url} failed: {said_by(root['errors'][0])}")
    return root


def _id(hit: dict[str, Any], field: str) -> str:
    """Return the passage id: a field, or what follows :: in Vespa's document id (id:namespace:type::ID)."""
    if field:
        return str(hit["fields"][field])
    name = str(hit.get("fields", {}).get("documentid") or hit["id"])
    return name.partition("::")[2] or name


def _encode(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


ENGINES.register(Vespa())
