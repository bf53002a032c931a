"""Send requests to an OpenAI-compatible chat endpoint, and repeat them while the endpoint is busy or unreachable.

Texts and the key are sent only with a person's consent to that server (`blindspot.backend.core.consent`). The key is
sent in one header and is never written to a file, log or message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blindspot.backend.core import http_client
from blindspot.backend.core.consent import Consent
from blindspot.backend.core.http_client import MAXIMUM_REPLY, HttpClient, ServerUnavailable, destination, message_of
from blindspot.db.errors import Refused

__all__ = ["Endpoint", "EndpointAway", "Reply", "check_url", "destination", "is_same_model"]

EndpointAway = ServerUnavailable
LONGEST_SENT = 2000  # bytes of an unreadable answer that are kept
_SNAPSHOT = re.compile(r"[-@:][\w.\-]*")
_OPTIONAL = ("response_format", "temperature", "seed")  # left out for an endpoint that refuses them
_RENAMED = {"max_tokens": "max_completion_tokens"}  # never left out: it bounds what an answer costs


@dataclass(frozen=True, slots=True)
class Reply:
    """One response of the endpoint.

    Attributes:
        text: What the model wrote; None if the endpoint sent something else.
        sent: What the endpoint sent if `text` is None, for a message; cut.
        model: The model that the endpoint says has answered; "" if it does not say.
        tokens_in, tokens_out: Its count of tokens; 0 if it does not say.
    """

    text: str | None
    model: str
    tokens_in: int
    tokens_out: int
    sent: str = ""


def check_url(url: str) -> str:
    """Return an endpoint's URL without a trailing slash. Raises Refused for an invalid URL."""
    return http_client.check_url(url, "--endpoint", "http://localhost:8000/v1")


def is_same_model(requested_model: str, reported_model: str) -> bool:
    """Return whether an endpoint used the requested model: it reports the same name, a dated snapshot of it, or no
    name.
    """
    if not reported_model or reported_model == requested_model:
        return True
    short = requested_model.rpartition("/")[2], reported_model.rpartition("/")[2]
    return short[0] == short[1] or _SNAPSHOT.fullmatch(short[1].removeprefix(short[0])) is not None


class Endpoint:
    """A chat endpoint. Threads may share it; if the server asks one thread to wait, all threads wait.

    Args:
        url: The base, as in https://host/v1, or the whole address of the chat completions.
        consent: To that server, with the key.
        connections: How many requests may be under way at once.
    """

    def __init__(self, url: str, consent: Consent, timeout: float, retries: int, connections: int):
        self.url = url if url.endswith("/chat/completions") else f"{url}/chat/completions"
        self._consent, self._key = consent, consent.key
        authorization = f"Bearer {self._key}" if self._key else ""
        self._http = HttpClient(self.url, consent, authorization, timeout, retries, connections)
        self.refused: set[str] = set()
        """Options that the endpoint refused; later requests leave them out."""

    def stop_waiting(self) -> None:
        """End all waiting: requests that are waiting to be repeated raise Stopped."""
        self._http.stop_waiting()

    def request_reply(self, model: str, messages: Sequence[Mapping[str, str]], **options: Any) -> Reply:
        """Return the answer to one request.

        Args:
            options: Further fields of the request. One that the endpoint refuses is left out from then on, or has the
                newer name; `refused` says which.

        Raises:
            Refused: the endpoint will refuse every request: wrong key, unknown model, a redirect.
            EndpointAway: no answer after all repetitions.
        """
        body = self._without_refused_options({"model": model, "messages": list(messages), **options})
        answer = self._http.post(json.dumps(body).encode())
        while answer.status in (400, 422) and (refused := _refused_options(body, answer.content)):
            self.refused.update(refused)
            body = self._without_refused_options(body)
            answer = self._http.post(json.dumps(body).encode())
        if answer.status == 200:
            return _reply(answer.content, self._key)
        raise self._refusal_message(answer.status, answer.content, model)

    def _without_refused_options(self, body: Mapping[str, Any]) -> dict[str, Any]:
        wanted = {name: value for name, value in body.items() if name not in self.refused}
        return wanted | {_RENAMED[name]: body[name] for name in self.refused if name in _RENAMED and name in body}

    def _refusal_message(self, status: int, content: bytes, model: str) -> Refused:
        """Return the error for a response that every further request would get as well, such as a wrong key."""
        if status in (401, 403):
            return Refused(f"{self.url} answers HTTP {status}: it refuses {self._consent.key_in_words}")
        if 300 <= status < 400:
            return Refused(
                f"{self.url} redirects to another address; texts are only sent to the endpoint that was named"
            )
        said = message_of(content, self._key)
        if status == 404:
            return Refused(f"{self.url} has no model {model!r} or is no chat endpoint (HTTP 404{said})")
        return Refused(f"{self.url} refuses the request (HTTP {status}{said})")


def _refused_options(body: Mapping[str, Any], content: bytes) -> list[str]:
    """Return the options of a request that the endpoint's error message names and that can be left out or renamed."""
    said = content[:10_000].decode(errors="replace")
    return [name for name in (*_OPTIONAL, *_RENAMED) if name in body and re.search(rf"\b{name}\b", said)]


def _reply(content: bytes, secret: str) -> Reply:
    sent = content[:LONGEST_SENT].decode(errors="replace")
    sent = sent.replace(secret, "***") if secret else sent
    if len(content) > MAXIMUM_REPLY:
        return Reply(None, "", 0, 0, sent)
    try:
        found = json.loads(content)
        text = found["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError):
        return Reply(None, "", 0, 0, sent)
    usage = found.get("usage") or {}
    counts = [usage.get(name) if isinstance(usage, dict) else 0 for name in ("prompt_tokens", "completion_tokens")]
    tokens_in, tokens_out = (count if isinstance(count, int) and 0 <= count < 10**9 else 0 for count in counts)
    model = found.get("model")
    said = text if isinstance(text, str) else None
    return Reply(said, model if isinstance(model, str) else "", tokens_in, tokens_out, sent)
