"""The service's HTTP interface (FastAPI). Errors are JSON: {"error": one line}."""

from __future__ import annotations

import asyncio
import hmac
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, ClassVar

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as AnyHTTPException

from blindspot.backend.service.batching import BatchedHits, Busy
from blindspot.backend.service.guard import (
    REQUESTS_AT_ONCE,
    REQUESTS_PER_SECOND,
    Guard,
    Hosts,
    RequestRate,
    TokenGuesses,
)
from blindspot.backend.service.service import Service
from blindspot.db.errors import BadInput, BlindspotError, Missing, Refused

MAX_QUESTIONS, MAX_K = 64, 2048
TIME_LIMIT = 30.0  # seconds


class SearchRequest(BaseModel):
    """Questions for one retriever."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"retriever": "bm25", "questions": ["Where was Arve Furset born?"], "k": 10}},
    )
    retriever: Annotated[str, Field(max_length=80, description="Name of a retriever, from /retrievers.")]
    questions: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=2000, pattern=r"\S")]],
        Field(min_length=1, max_length=MAX_QUESTIONS),
    ]
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


ERRORS = {400: "bad request", 401: "the token is missing or wrong", 403: "a page of another site sent the request",
          404: "an unknown retriever", 409: "the passage collection or an index differs from the one you named",
          413: "the request is too large", 422: "a field is missing, wrong or beyond its limit",
          429: "too many requests; ask again in a moment", 504: "no answer within the time limit"}  # fmt: skip


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
        description="Retrieval over the passages of one study, which are named by their row in the collection.",
    )
    _answer_errors_in_one_line(api)
    hosts = hosts or Hosts("localhost")
    rate = None if hosts.is_local else RequestRate(REQUESTS_AT_ONCE, REQUESTS_PER_SECOND)
    api.add_middleware(Guard, hosts=hosts, rate=rate)
    needs_token = [Depends(_token_check(token))]
    _add_search(api, service, time_limit, needs_token)
    _add_descriptions(api, service, needs_token, shows_failures=token is None)
    return api


def _token_check(token: str | None) -> Callable[[Request], None]:
    """Return the FastAPI dependency that refuses requests without the token, and slows down addresses that guess it."""
    guesses = TokenGuesses()

    def check(request: Request) -> None:
        scheme, _, sent = request.headers.get("authorization", "").partition(" ")
        is_right = token is None or (
            scheme.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), token.encode())
        )
        if not is_right:
            address = request.client.host if request.client else ""
            raise HTTPException(
                *guesses.refusal(address, "send 'Authorization: Bearer TOKEN' with the token of the service")
            )

    return check


def _add_search(api: FastAPI, service: Service, time_limit: float, needs_token: list[Any]) -> None:
    @api.post(
        "/search",
        response_model=SearchAnswer,
        dependencies=needs_token,
        responses=_with_documentation(400, 401, 403, 404, 409, 413, 422, 429, 504),
    )
    async def search(asked: SearchRequest) -> JSONResponse:
        """Return the k best passages of each question."""
        started, digest = time.monotonic(), service.study.corpus.digest
        if asked.corpus not in (None, digest):
            raise HTTPException(
                409,
                "the service has another passage collection than your study; start the service with a copy "
                "of the same study",
            )
        found = asyncio.wrap_future(service.submit_search(asked.retriever, asked.questions, asked.k))
        try:
            hits = await asyncio.wait_for(found, time_limit)
        except TimeoutError:
            line = f"{asked.retriever} did not answer within {time_limit:g} s; ask again in a moment"
            raise HTTPException(504, line) from None
        except asyncio.CancelledError:
            raise HTTPException(503, "the service is closing") from None
        known = asked.indexes or {}
        if differing := [name for name in known if hits.indexes.get(name, known[name]) != known[name]]:
            raise HTTPException(
                409,
                f"the service searches another index {differing[0]!r} than the one you named; copy the index, or "
                "use the hash from /retrievers",
            )
        seconds = time.monotonic() - started
        service.metrics.answer_seconds.labels(asked.retriever).observe(seconds)
        return JSONResponse(_search_answer(asked, hits, digest, seconds))


def _add_descriptions(api: FastAPI, service: Service, needs_token: list[Any], shows_failures: bool) -> None:
    """Add the routes that describe the service: retrievers, metrics, health."""

    @api.get(
        "/retrievers",
        response_model=RetrieversAnswer,
        dependencies=needs_token,
        responses=_with_documentation(401, 404),
    )
    def retrievers() -> dict:
        """List the retrievers that can answer, with the indexes that they search."""
        corpus = service.study.corpus
        return {
            "study": service.study.settings.name,
            "passages": len(corpus),
            "corpus": corpus.digest,
            "retrievers": service.retrievers(),
        }

    @api.get(
        "/metrics",
        response_class=PlainTextResponse,
        dependencies=needs_token,
        responses=_with_documentation(401),
    )
    def metrics() -> PlainTextResponse:
        """Counters and times in Prometheus' text format."""
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
    statuses = {Missing: 404, BadInput: 400, Refused: 400}
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
