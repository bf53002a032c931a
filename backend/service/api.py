"""The service's HTTP interface (FastAPI). Errors are JSON: {"error": one line}."""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as AnyHTTPException

from backend.service.batching import BatchedHits, Busy
from backend.service.guard import (
    REQUESTS_AT_ONCE,
    REQUESTS_PER_SECOND,
    WRONG_TOKENS_AT_ONCE,
    WRONG_TOKENS_PER_SECOND,
    Guard,
    Hosts,
    RequestRate,
)
from backend.service.page import page
from backend.service.service import Service
from db.errors import BlindspotError, Missing, Refused

MAX_QUESTION = 2000  # characters, as in `live`
MAX_QUESTIONS = 64
MAX_K = 2048
TIME_LIMIT = 30.0  # seconds

Question = Annotated[str, Field(min_length=1, max_length=MAX_QUESTION, pattern=r"\S")]


class SearchRequest(BaseModel):
    """Questions for one retriever."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"example": {"retriever": "bm25", "questions": ["Where was Arve Furset born?"], "k": 10}},
    )

    retriever: Annotated[str, Field(max_length=80, description="A name that /retrievers lists.")]
    questions: Annotated[list[Question], Field(min_length=1, max_length=MAX_QUESTIONS)]
    k: Annotated[int, Field(ge=1, le=MAX_K, description="Passages of each question.")] = 100
    corpus: Annotated[
        str | None, Field(max_length=64, description="The digest of your passages: others are refused with 409.")
    ] = None
    indexes: Annotated[
        dict[str, str] | None,
        Field(max_length=8, description="The manifest hash of each index that you know: others are refused with 409."),
    ] = None


class SearchAnswer(BaseModel):
    """Best passages first. A question that finds fewer than k has a shorter list."""

    retriever: str
    k: int
    ordinals: Annotated[list[list[int]], Field(description="For each question, rows of the passage collection.")]
    scores: list[list[float]]
    corpus: Annotated[str, Field(description="SHA-256 over the passage collection.")]
    indexes: Annotated[dict[str, str], Field(description="SHA-256 of the manifest of each index that was searched.")]
    settings: Annotated[dict, Field(description="The retriever's settings.")]
    seconds: Annotated[float, Field(description="From the request's arrival to its answer, waiting included.")]


class RetrieversAnswer(BaseModel):
    """What can be asked."""

    study: str
    passages: int
    corpus: str
    retrievers: Annotated[
        dict[str, dict[str, str]], Field(description="Each retriever with the manifest hash of each of its indexes.")
    ]


class Health(BaseModel):
    """`ready` once every index has been opened, `starting` before that (with status 503)."""

    status: str
    failed: Annotated[dict[str, str], Field(description="Retrievers that could not be opened, each with the reason.")]


class Error(BaseModel):
    """One line: what, and what to do."""

    error: str


ERRORS = {400: "bad request", 401: "no token, or a wrong one", 404: "no such retriever, or its index is not there",
          409: "another passage collection or another index than you named", 413: "the request is too large",
          422: "a field is missing, wrong or beyond its limit", 429: "too many requests wait: ask again in a moment",
          504: "not answered within the time limit"}  # fmt: skip


def make_api(
    service: Service, token: str | None = None, hosts: Hosts | None = None, time_limit: float = TIME_LIMIT
) -> FastAPI:
    """The application.

    Args:
        token: what a request must bring as `Authorization: Bearer TOKEN`; None asks for none.
        hosts: names that the service answers to; None: those of a service on localhost.
        time_limit: seconds until a search is answered with 504.
    """

    @asynccontextmanager
    async def alive(_: FastAPI) -> AsyncIterator[None]:
        threading.Thread(target=service.warm, name="warming", daemon=True).start()
        yield
        service.close()

    api = FastAPI(
        title="Blindspot retrieval",
        version="1",
        docs_url=None,
        redoc_url=None,
        lifespan=alive,
        description="Encoders and indexes of one study, held once. Lists are rows of its passage collection.",
    )
    _say_errors_in_one_line(api)
    hosts = hosts or Hosts("localhost")
    rate = None if hosts.is_local else RequestRate(REQUESTS_AT_ONCE, REQUESTS_PER_SECOND)
    wrong_tokens = RequestRate(WRONG_TOKENS_AT_ONCE, WRONG_TOKENS_PER_SECOND)
    api.add_middleware(Guard, hosts=hosts, rate=rate)

    def known(request: Request) -> None:
        given = request.headers.get("authorization", "").encode()
        if token is None or hmac.compare_digest(given, f"Bearer {token}".encode()):
            return
        wait = wrong_tokens.take(request.client.host if request.client else "")
        if wait > 0:
            raise HTTPException(
                429, "too many wrong tokens from your address; try again later", {"Retry-After": f"{math.ceil(wait)}"}
            )
        raise HTTPException(
            401, "this service asks for a token: send 'Authorization: Bearer TOKEN'", {"WWW-Authenticate": "Bearer"}
        )

    guarded = [Depends(known)]

    @api.post(
        "/search",
        dependencies=guarded,
        response_model=SearchAnswer,
        responses=_documented(400, 401, 404, 409, 413, 422, 429, 504),
    )
    async def search(asked: SearchRequest) -> JSONResponse:
        """The k best passages of each question."""
        started = time.monotonic()
        digest = service.study.corpus.digest
        if asked.corpus not in (None, digest):
            raise HTTPException(
                409, "the backend serves another passage collection than yours; start it with a copy of the same study"
            )
        try:
            found = await asyncio.wait_for(
                asyncio.wrap_future(service.ask(asked.retriever, asked.questions, asked.k)), time_limit
            )
        except TimeoutError:
            raise HTTPException(
                504, f"{asked.retriever} did not answer within {time_limit:g} s; ask again in a moment"
            ) from None
        except asyncio.CancelledError:
            raise HTTPException(503, "the backend is closing") from None
        if differing := [
            name for name, known in (asked.indexes or {}).items() if found.indexes.get(name, known) != known
        ]:
            raise HTTPException(
                409,
                f"the backend searches another index {differing[0]!r} than the one you named; "
                "bring both to the same state, or look at its hash on /retrievers",
            )
        seconds = time.monotonic() - started
        service.metrics.answer_seconds.labels(asked.retriever).observe(seconds)
        return JSONResponse(_answer(asked, found, digest, seconds))

    @api.get("/retrievers", dependencies=guarded, response_model=RetrieversAnswer, responses=_documented(401, 404))
    def retrievers() -> dict:
        """What can be asked, and which indexes stand behind it."""
        corpus = service.study.corpus
        return {
            "study": service.study.settings.name,
            "passages": len(corpus),
            "corpus": corpus.digest,
            "retrievers": service.retrievers(),
        }

    @api.get("/metrics", dependencies=guarded, response_class=PlainTextResponse, responses=_documented(401))
    def metrics() -> PlainTextResponse:
        """Counts and times, as Prometheus reads them."""
        return PlainTextResponse(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @api.get("/health", response_model=Health, responses={503: {"model": Health, "description": "starting"}})
    def health() -> JSONResponse:
        """Is everything loaded?"""
        ready = service.ready.is_set()
        return JSONResponse(
            {
                "status": "ready" if ready else "starting",
                "failed": service.failed if token is None else dict.fromkeys(service.failed, "see the service's log"),
            },
            200 if ready else 503,
        )

    @api.get("/", include_in_schema=False, response_class=HTMLResponse)
    @api.get("/docs", include_in_schema=False, response_class=HTMLResponse)
    def documentation() -> HTMLResponse:
        return HTMLResponse(page(api.openapi()))

    return api


def _documented(*codes: int) -> dict[int | str, dict]:
    return {code: {"model": Error, "description": ERRORS[code]} for code in codes}


def _answer(asked: SearchRequest, found: BatchedHits, digest: str, seconds: float) -> dict:
    lengths = (found.hits.ordinals >= 0).sum(1).tolist()
    return {
        "retriever": asked.retriever, "k": asked.k, "corpus": digest, "indexes": found.indexes, "settings": found.settings,
        "ordinals": [row[:length].tolist() for row, length in zip(found.hits.ordinals, lengths, strict=True)],
        "scores": [row[:length].tolist() for row, length in zip(found.hits.scores, lengths, strict=True)],
        "seconds": round(seconds, 6),
    }  # fmt: skip


def _say_errors_in_one_line(api: FastAPI) -> None:
    def line(status: int, text: str, headers: dict | None = None) -> JSONResponse:
        return JSONResponse({"error": " ".join(text.split())}, status, headers)

    @api.exception_handler(Busy)
    async def busy(_: Request, error: Busy) -> JSONResponse:
        return line(429, str(error), {"Retry-After": "1"})

    @api.exception_handler(BlindspotError)
    async def refused(_: Request, error: BlindspotError) -> JSONResponse:
        return line(404 if isinstance(error, Missing) else 400 if isinstance(error, Refused) else 500, str(error))

    @api.exception_handler(AnyHTTPException)
    async def http(_: Request, error: AnyHTTPException) -> JSONResponse:
        return line(error.status_code, str(error.detail), error.headers)

    @api.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        return line(
            422,
            f"{place}: {first['msg']}"
            if place
            else f"the request is no JSON object as /docs describes it: {first['msg']}",
        )

    @api.exception_handler(Exception)
    async def fault(_: Request, error: Exception) -> JSONResponse:
        logging.getLogger(__name__).error("a request failed: %s: %s", type(error).__name__, error)
        return line(500, "the backend failed at this; its log says why")
