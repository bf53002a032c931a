"""The client for `blindspot serve`, which sends live questions over HTTP. Two environment variables configure it.

BLINDSPOT_BACKEND is the address of the service, such as http://gpu-machine:8600. BLINDSPOT_BACKEND_TOKEN is the
service's token.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from blindspot.backend.core.study import Study
from blindspot.backend.retrieval.indexes import manifest_hashes
from blindspot.db.errors import BlindspotError, Missing, Refused
from blindspot.db.records import Hits

BACKEND, TOKEN = "BLINDSPOT_BACKEND", "BLINDSPOT_BACKEND_TOKEN"
SECONDS_TO_CONNECT = 3.0
SECONDS_TO_LIST = 3.0
SECONDS_TO_SEARCH = 40.0  # seconds; longer than the service's own limit, which gives the better message
LIST_SECONDS = 2.0  # minimum seconds between two requests for the list of retrievers
QUESTIONS_PER_REQUEST = 64  # limit of one request to the service
LARGEST_ANSWER = 1 << 26  # bytes


class ServiceUnavailable(BlindspotError):
    """Raised if the backend does not respond."""


def configured_backend() -> Backend | None:
    """Return the backend configured in the environment, or None. Raises Refused for a malformed address."""
    url = os.environ.get(BACKEND, "").strip()
    return _backend_at(url, os.environ.get(TOKEN, "").strip() or None) if url else None


def use_backend(url: str | None) -> None:
    """Make this process, and the processes that it starts, search with the service at `url`; None: without a service.

    Raises Refused for a malformed address.
    """
    if url is None:
        os.environ.pop(BACKEND, None)
    else:
        os.environ[BACKEND] = Backend(url).url


@lru_cache(maxsize=4)
def _backend_at(url: str, token: str | None) -> Backend:
    return Backend(url, token)


class Backend:
    """A retrieval service at `url`. Threads may share an instance.

    Raises Refused for a malformed address.
    """

    def __init__(self, url: str, token: str | None = None):
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or parts.query or parts.username:
            raise Refused(f"{BACKEND} must be an address such as http://localhost:8600, not {url!r}")
        self.url, self._token = url.rstrip("/"), token
        self._host, self._port, self._path = parts.hostname, port, parts.path.rstrip("/")
        self._connection = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._listed: tuple[float, dict | None] = (-np.inf, None)
        self._listing = threading.Lock()

    def retrievers(self) -> dict[str, dict[str, str]] | None:
        """Return the retrievers that the service offers, each with the manifest hash of each of its indexes. If the
        service is down, its last answer is returned, or None if there is none.
        """
        with self._listing:
            when, last = self._listed
            if time.monotonic() - when > LIST_SECONDS:
                try:
                    answer = self._check_answer(*self._send_request("GET", "/retrievers", None, SECONDS_TO_LIST))
                    last = answer["retrievers"]
                except (BlindspotError, KeyError):
                    pass  # a live question reports the error; a list of retrievers should not
                self._listed = time.monotonic(), last
            return last

    def search(self, study: Study, retriever: str, questions: Sequence[str], k: int) -> Hits:
        """Search with a retriever of the service, and return hits over the passages of `study`.

        Raises ServiceDown if the service does not respond, Refused if its passages or its index differ from the
        study's, Missing for a retriever that it does not offer, and BlindspotError with the service's message for other
        errors.
        """
        corpus, known = study.corpus, manifest_hashes(study, retriever)
        ordinals = np.full((len(questions), k), -1, np.int32)
        scores = np.full((len(questions), k), -np.inf, np.float32)
        for start in range(0, len(questions), QUESTIONS_PER_REQUEST):
            block = list(questions[start : start + QUESTIONS_PER_REQUEST])
            body = {"retriever": retriever, "questions": block, "k": k, "corpus": corpus.digest, "indexes": known}
            answer = self._check_answer(*self._send_request("POST", "/search", body, SECONDS_TO_SEARCH))
            try:
                hits = _parse_hits(answer, len(block), k, len(corpus))
                known = dict(answer["indexes"])  # the next block must come from the same index
            except (KeyError, TypeError, ValueError) as error:
                raise BlindspotError(
                    f"the server at {self.url} is not a retrieval backend of this version ({error})"
                ) from error
            ordinals[start : start + len(block)], scores[start : start + len(block)] = hits.ordinals, hits.scores
        return Hits(ordinals, scores)

    def _check_answer(self, status: int, answer: dict) -> dict:
        if status == 200:
            return answer
        line = str(answer.get("error", f"status {status}"))[:500]
        if status == 401:
            line = f"the retrieval backend at {self.url} refused the token; set {TOKEN} to the token of the service"
        if status == 404:
            raise Missing(line)
        if status in (400, 401, 409, 413, 422):
            raise Refused(line)
        if status == 429:
            raise BlindspotError(f"the retrieval backend is busy: {line}")
        raise BlindspotError(f"the retrieval backend at {self.url} failed: {line}")

    def _send_request(self, method: str, path: str, body: dict | None, seconds: float) -> tuple[int, dict]:
        """Send a request and return (status, JSON). Redirects are not followed, so that the token is sent only to this
        address.
        """
        connection = self._connection(self._host, self._port, timeout=SECONDS_TO_CONNECT)
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            connection.connect()
            connection.sock.settimeout(seconds)
            connection.request(method, self._path + path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read(LARGEST_ANSWER)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            if isinstance(error, TimeoutError):
                reason = "no answer in time"
            raise ServiceUnavailable(
                f"the retrieval backend at {self.url} does not answer ({reason}); is 'blindspot serve' running "
                "there? Reading and judging work without it"
            ) from error
        finally:
            connection.close()
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if isinstance(answer, dict):
            return response.status, answer
        if response.status == 503:
            return 503, {"error": "too many connections, or the service is stopping"}
        raise BlindspotError(
            f"the server at {self.url} is not a retrieval backend (status {response.status}, no JSON object)"
        )


def _parse_hits(answer: dict[str, Any], question_count: int, k: int, passage_count: int) -> Hits:
    """Convert the lists in a response to Hits. Raises KeyError, TypeError or ValueError for a malformed response."""
    ordinals = np.full((question_count, k), -1, np.int32)
    scores = np.full((question_count, k), -np.inf, np.float32)
    for row, (places, values) in enumerate(zip(answer["ordinals"], answer["scores"], strict=True)):
        rows, values_given = np.asarray(places, np.int64), np.asarray(values, np.float32)
        if rows.shape != values_given.shape or rows.ndim != 1 or len(rows) > k or row >= question_count:
            raise ValueError("lists of other lengths than requested")
        if len(rows) and not 0 <= rows.min() <= rows.max() < passage_count:
            raise ValueError("a passage that is not in the collection")
        ordinals[row, : len(rows)], scores[row, : len(rows)] = rows, values_given
    if len(answer["ordinals"]) != question_count:
        raise ValueError("a wrong number of questions")
    return Hits(ordinals, scores)
