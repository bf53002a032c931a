"""The service's HTTP interface (FastAPI). Errors are JSON: {"error": one line}."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException as AnyHTTPException

from blindspot.backend.service.batching import BatchedHits, Busy
from blindspot.backend.service.guard import (
    MAX_UPLOAD,
    REQUESTS_AT_ONCE,
    REQUESTS_PER_SECOND,
    UPLOADS,
    Guard,
    Hosts,
    RequestRate,
)
from blindspot.backend.service.service import Service
from blindspot.backend.service.v1 import answers
from blindspot.backend.service.v1.callers import Asking, CallerOf
from blindspot.backend.service.v1.requests import LiveRequest
from blindspot.backend.service.v1.routes import Version1, add_version_1
from blindspot.db.connection import NotSaved
from blindspot.db.errors import BadInput, BlindspotError, Forbidden, Missing, Refused

MAX_K = 2048
TIME_LIMIT = 30.0  # seconds


class SearchRequest(LiveRequest):
    """Questions for one retriever."""

    k: Annotated[int, Field(ge=1, le=MAX_K, description="Number of passages per question.")] = 100
    corpus: Annotated[
        str | None,
        Field(
            max_length=64,
            description="The digest of your passage collection. If the service has another collection, it refuses with 409.",
        ),
    ] = None
    indexes: Annotated[
        dict[str, str] | None,
        Field(
            max_length=8,
            description="The manifest hash of each index that you know. If the service has a different index, it refuses with 409.",
        ),
    ] = None


class SearchAnswer(BaseModel):
    """The best passages of each question, best first. A list has fewer than k entries if fewer passages match."""

    retriever: str
    k: int
    ordinals: Annotated[list[list[int]], Field(description="For each question, rows of the passage collection.")]
    scores: list[list[float]]
    corpus: Annotated[str, Field(description="SHA-256 of the passage collection.")]
    indexes: Annotated[dict[str, str], Field(description="SHA-256 of the manifest of each index that was searched.")]
    settings: Annotated[dict, Field(description="The retriever's settings.")]
    seconds: Annotated[float, Field(description="Seconds from the request to its answer, including the wait.")]


class RetrieversAnswer(BaseModel):
    """The retrievers of the study."""

    study: str
    passages: int
    corpus: str
    retrievers: Annotated[
        dict[str, dict[str, str]], Field(description="Each retriever with the manifest hash of each of its indexes.")
    ]


class Health(BaseModel):
    """The state of the service: `ready` once every index is open, `starting` (with status 503) before that."""

    status: str
    failed: Annotated[dict[str, str], Field(description="Retrievers that could not be opened, each with the reason.")]


class Error(BaseModel):
    """What is wrong, and what to do, in one line."""

    error: str


ERRORS = {400: "bad request", 401: "a token is missing or wrong", 404: "it does not exist, such as an unknown run, question, passage or retriever",
          403: "your role does not allow it, or a page of another site sent the request", 409: "the passage collection or an index differs from the one you named", 413: "the request is too large",
          422: "a field is missing, wrong or beyond its limit", 429: "too many requests; ask again in a moment",
          504: "no answer within the time limit"}  # fmt: skip


def make_api(
    service: Service, token: str | None = None, hosts: Hosts | None = None, time_limit: float = TIME_LIMIT
) -> FastAPI:
    """Return the service's FastAPI application.

    Args:
        token: the token that a request must send as `Authorization: Bearer TOKEN`; None: requests need no token.
        hosts: names that the service answers to; None: loopback names.
        time_limit: seconds after which a search gets the status 504.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        threading.Thread(target=service.warm_up, name="warming", daemon=True).start()
        yield
        service.close()

    api = FastAPI(
        title="Blindspot",
        version="1",
        docs_url=None,  # FastAPI's pages load scripts of other sites
        redoc_url=None,
        lifespan=lifespan,
        description=(
            "One study: retrieval over its passages, and under /v1 its questions, runs, labels and jobs. /search names "
            "passages by their row in the collection, /v1 by their id."
        ),
    )
    _answer_errors_in_one_line(api)
    hosts = hosts or Hosts("localhost")
    rate = None if hosts.is_local else RequestRate(REQUESTS_AT_ONCE, REQUESTS_PER_SECOND)
    api.add_middleware(Guard, hosts=hosts, rate=rate, uploads=(UPLOADS, MAX_UPLOAD))
    api.state.caller_of = CallerOf(service.study, token, hosts.is_local)
    version = Version1(service, time_limit)
    _add_search(api, version)
    _add_descriptions(api, service, shows_failures=token is None)
    router = APIRouter(prefix="/v1", responses=_with_documentation(400, 401, 403, 404, 413, 422, 429))
    add_version_1(router, version)
    api.include_router(router)
    _add_examples(api, router)
    return api


def _add_examples(api: FastAPI, router: APIRouter) -> None:
    """Add an example of each response of version 1 to the OpenAPI schema."""
    schemas = api.openapi()["components"]["schemas"]
    for model in (getattr(route, "response_model", None) for route in router.routes):
        name = re.sub(r"\W", "_", getattr(model, "__name__", ""))  # OpenAPI calls Items[RunAnswer] Items_RunAnswer_
        if name in schemas:
            schemas[name]["example"] = answers.example_of(model)


def _add_search(api: FastAPI, version: Version1) -> None:
    @api.post(
        "/search",
        response_model=SearchAnswer,
        responses=_with_documentation(400, 401, 403, 404, 409, 413, 422, 429, 504),
    )
    async def search(caller: Asking, asked: SearchRequest) -> JSONResponse:
        """Return the k best passages of each question. A person gets none that would show what they still have to
        judge.
        """
        started, digest = time.monotonic(), version.study.corpus.digest
        if asked.corpus not in (None, digest):
            raise HTTPException(
                409,
                "the service has another passage collection than your study; start the service with a copy "
                "of the same study",
            )
        hits = await version.search(caller, asked.retriever, asked.questions, asked.k)
        known = asked.indexes or {}
        if differing := [name for name in known if hits.indexes.get(name, known[name]) != known[name]]:
            raise HTTPException(
                409,
                f"the service searches another index {differing[0]!r} than the one you named; copy the index, or "
                "use the hash from /retrievers",
            )
        seconds = time.monotonic() - started
        version.service.metrics.answer_seconds.labels(asked.retriever).observe(seconds)
        return JSONResponse(_search_answer(asked, hits, digest, seconds))


def _add_descriptions(api: FastAPI, service: Service, shows_failures: bool) -> None:
    """Add the routes that describe the service: retrievers, metrics, health."""

    @api.get("/retrievers", response_model=RetrieversAnswer, responses=_with_documentation(401, 404))
    def retrievers(_: Asking) -> dict:
        """List the retrievers that can answer, with the indexes that they search."""
        corpus = service.study.corpus
        return {
            "study": service.study.settings.name,
            "passages": len(corpus),
            "corpus": corpus.digest,
            "retrievers": service.retrievers(),
        }

    @api.get("/metrics", response_class=PlainTextResponse, responses=_with_documentation(401, 403))
    def metrics(caller: Asking) -> PlainTextResponse:
        """Counters and times in Prometheus' text format."""
        if caller.kind == "person":
            raise Forbidden("a person's token does not show the metrics; send the token of the service")
        return PlainTextResponse(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @api.get("/health", response_model=Health, responses={503: {"model": Health, "description": "starting"}})
    def health() -> JSONResponse:
        """Tell whether every index is loaded."""
        ready = service.ready.is_set()
        return JSONResponse(
            {
                "status": "ready" if ready else "starting",
                "failed": service.failed if shows_failures else dict.fromkeys(service.failed, "see the service's log"),
            },
            200 if ready else 503,
        )


def _with_documentation(*codes: int) -> dict[int | str, dict]:
    return {code: {"model": Error, "description": ERRORS[code]} for code in codes}


def _search_answer(request: SearchRequest, batch_hits: BatchedHits, digest: str, seconds: float) -> dict:
    lengths = (batch_hits.hits.ordinals >= 0).sum(1).tolist()
    return {
        "retriever": request.retriever,
        "k": request.k,
        "corpus": digest,
        "indexes": batch_hits.indexes,
        "settings": batch_hits.settings,
        "ordinals": [row[:length].tolist() for row, length in zip(batch_hits.hits.ordinals, lengths, strict=True)],
        "scores": [row[:length].tolist() for row, length in zip(batch_hits.hits.scores, lengths, strict=True)],
        "seconds": round(seconds, 6),
    }


def _http_status(error: BlindspotError) -> int:
    statuses = {Missing: 404, Forbidden: 403, NotSaved: 503, BadInput: 400, Refused: 400}
    return next((status for kind, status in statuses.items() if isinstance(error, kind)), 500)


def _answer_errors_in_one_line(api: FastAPI) -> None:
    def line(status: int, text: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
        return JSONResponse({"error": " ".join(text.split())}, status, headers)

    @api.exception_handler(Busy)
    async def busy_error(_: Request, error: Busy) -> JSONResponse:
        return line(429, str(error), {"Retry-After": "1"})

    @api.exception_handler(BlindspotError)
    async def refused_error(_: Request, error: BlindspotError) -> JSONResponse:
        return line(_http_status(error), str(error))

    @api.exception_handler(AnyHTTPException)
    async def http_error(_: Request, error: AnyHTTPException) -> JSONResponse:
        return line(error.status_code, str(error.detail), error.headers)

    @api.exception_handler(RequestValidationError)
    async def invalid_request(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        return line(
            422,
            f"{place}: {first['msg']}"
            if place
            else f"the request is not a JSON object as /openapi.json describes it: {first['msg']}",
        )

    @api.exception_handler(Exception)
    async def internal_error(_: Request, error: Exception) -> JSONResponse:
        logging.getLogger(__name__).error("a request failed: %s: %s", type(error).__name__, error)
        return line(500, "the service failed to answer this request; its log says why")
