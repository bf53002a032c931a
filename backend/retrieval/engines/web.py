"""What search engines behind HTTP share: the address, the key, one request, and one line for what goes wrong.

Nothing is sent without a person's consent, which also names the key (`blindspot.backend.core.consent`). Tested against a
local stand-in that speaks the engines' wire formats.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from blindspot.backend.core.consent import Consent
from blindspot.backend.core.http_client import Answer, HttpClient, ServerAway, message_of
from blindspot.backend.retrieval.engines.engine_settings import EngineSettings
from blindspot.db.errors import BlindspotError, Missing, Refused

LARGEST_ANSWER = 1 << 26  # bytes
CONNECTIONS = 8


def authorization(key: str, scheme: str) -> str:
    """Return the header for a key; "" without one.

    Args:
        scheme: of a plain key, "ApiKey" or "Bearer". "user:password" is sent as Basic.
    """
    if ":" in key:
        return f"Basic {base64.b64encode(key.encode()).decode()}"
    return f"{scheme} {key}" if key else ""


class SearchServer:
    """A search engine behind HTTP.

    Args:
        title: the engine, as messages call it. consent: to the server of the address. scheme: see `authorization`.
    """

    def __init__(self, title: str, url: str, consent: Consent, scheme: str, settings: EngineSettings):
        self.title, self.url, self._consent, self._key = title, url, consent, consent.key
        header = authorization(self._key, scheme)
        self._http = HttpClient(
            url, consent, header, settings.timeout, settings.retries, CONNECTIONS, maximum_reply=LARGEST_ANSWER
        )

    def ask(self, path: str, body: bytes | None, content_type: str = "application/json") -> Any:
        """Return the JSON of an answer.

        Raises:
            BlindspotError: the engine is down, or answers without JSON. Refused: it refuses the key or the request.
            Missing: it has no such index.
        """
        try:
            answer = self._http.post(body or b"", path, content_type, "GET" if body is None else "POST")
        except ServerAway as error:
            raise BlindspotError(f"{self.title} at {error}; is it running?") from None
        self._check(answer)
        try:
            return json.loads(answer.content)
        except ValueError:
            raise BlindspotError(f"{self.url} answers without JSON; is {self.title} there?") from None

    def _check(self, answer: Answer) -> None:
        status = answer.status
        if status == 200:
            return
        if status in (401, 403):
            said = self._consent.key_in_words
            raise Refused(f"{self.title} at {self.url} answers HTTP {status}: it refuses {said}")
        if 300 <= status < 400:
            raise Refused(f"{self.url} redirects to another address; name that address")
        said = message_of(answer.content, self._key) or _vespas_message(answer.content)
        if status == 404:
            raise Missing(f"{self.title} at {self.url} has no such index (HTTP 404{said})")
        raise Refused(f"{self.title} at {self.url} refuses the request (HTTP {status}{said})")


def split_fields(text: str) -> list[str]:
    """Return the names in "title,text"."""
    return [name.strip() for name in text.split(",") if name.strip()]


def needs(settings: EngineSettings, title: str) -> None:
    """Raise Refused unless the settings say what to search."""
    if not settings.collection:
        raise Refused(f"name the index of {title} with --collection")
    if bool(settings.fields) == bool(settings.vector_field):
        raise Refused(
            f"name what {title} searches: --fields for BM25, as in title,text, or --vector-field with --encoder"
        )
    if settings.encoder and not settings.vector_field:
        raise Refused("--encoder goes with --vector-field")


def malformed(server: SearchServer, error: Exception) -> BlindspotError:
    """Return the error for an answer of another form."""
    return BlindspotError(f"{server.url} answers in another form than {server.title} ({type(error).__name__}: {error})")


def said_by(error: Mapping[str, Any] | Any) -> str:
    """Return the reason inside an error object of an engine."""
    if isinstance(error, Mapping):
        cause = (error.get("root_cause") or [error])[0]
        error = cause.get("reason") or cause.get("message") or error
    return " ".join(str(error).split())[:200]


def _vespas_message(content: bytes) -> str:
    """Return the first error of Vespa's answer, as the end of a message; "" without one."""
    try:
        return f": {said_by(json.loads(content)['root']['errors'][0])}"
    except (ValueError, KeyError, IndexError, TypeError):
        return ""
