"""An OpenAI-compatible chat endpoint: one request at a time, repeated while the endpoint is busy or away.

The key comes from the environment and goes into one header. It is in no file, log or message.
"""

from __future__ import annotations

import ipaddress
import json
import os
import random
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from db.errors import BlindspotError, Refused

if TYPE_CHECKING:
    import urllib3

TRANSIENT = {408, 409, 425, 429, 500, 502, 503, 504, 529}
MAXIMUM_REPLY = 4_000_000  # bytes
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0  # seconds
LONGEST_ASKED_PAUSE = 600.0  # of what Retry-After may ask for
_SNAPSHOT = re.compile(r"[-@:][\w.\-]*")


class EndpointAway(BlindspotError):
    """An endpoint that did not answer one request, repetitions included. Another request may succeed."""


class Stopped(BlindspotError):
    """The work that wanted an answer has ended."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer.

    Attributes:
        text: What the model wrote; None if the endpoint sent something else.
        model: The model that the endpoint says has answered; "" if it does not say.
        tokens_in, tokens_out: Its count of tokens; 0 if it does not say.
    """

    text: str | None
    model: str
    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the texts of a study go.

    Attributes:
        host: Host and port.
        local: Whether that is this machine.
        encrypted: Whether the connection is.
    """

    host: str
    local: bool
    encrypted: bool

    def __str__(self) -> str:
        if self.local:
            return f"{self.host} (this machine)"
        return self.host if self.encrypted else f"{self.host} (not encrypted)"


def check_url(url: str) -> str:
    """Return the address of an endpoint without a slash at its end. Raises Refused for one that is none."""
    parts = urlsplit(url.strip())
    try:
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        port_is_valid = False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_valid:
        raise Refused(f"--endpoint must be a URL as in http://localhost:8000/v1, not {_without_secrets(url)!r}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Refused(
            "--endpoint must have no user name, password or query, since the study stores it; give a key in the "
            "environment"
        )
    return url.strip().rstrip("/")


def destination(url: str) -> Destination:
    """Return where requests to an endpoint go."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost" or host.endswith(".localhost")
    return Destination(parts.netloc, local, parts.scheme == "https")


def is_same_model(asked: str, answered: str) -> bool:
    """Whether an endpoint answered with the model that was asked for: the same name, a dated snapshot, or no name."""
    if not answered or answered == asked:
        return True
    short = asked.rpartition("/")[2], answered.rpartition("/")[2]
    return short[0] == short[1] or _SNAPSHOT.fullmatch(short[1].removeprefix(short[0])) is not None


class Endpoint:
    """A chat endpoint. Threads may share it; one that is told to wait makes all of them wait.

    Args:
        url: The base, as in https://host/v1, or the whole address of the chat completions.
        key_variable: The environment variable with the key. Without it requests carry no key.
        connections: How many requests may be under way at once.
    """

    def __init__(self, url: str, key_variable: str, timeout: float, retries: int, connections: int):
        import urllib3

        self.url = url if url.endswith("/chat/completions") else f"{url}/chat/completions"
        self.key_variable, self.timeout, self.retries = key_variable, timeout, retries
        self._key = os.environ.get(key_variable, "").strip()
        self._pool = urllib3.PoolManager(maxsize=connections, block=True)
        self._structured = True
        self._wait_until = 0.0
        self._stopped = threading.Event()

    def stop(self) -> None:
        """End every pause; requests that wait raise Stopped."""
        self._stopped.set()

    def ask(self, model: str, messages: Sequence[Mapping[str, str]], **options: Any) -> Reply:
        """Return the answer to one request.

        Args:
            options: Further fields of the request. `response_format` is left out if the endpoint does not know it.

        Raises:
            Refused: the endpoint will refuse every request: wrong key, unknown model, a redirect.
            EndpointAway: no answer after all repetitions.
        """
        body = {"model": model, "messages": list(messages), **options}
        for attempt in range(self.retries + 1):
            self._pause(self._wait_until - time.monotonic())
            asked_pause, problem = None, ""
            if not self._structured:
                body.pop("response_format", None)
            try:
                status, headers, content = self._post(body)
            except OSError as error:
                problem = _plain(error)
            else:
                if status == 200:
                    return _reply(content)
                if status == 400 and "response_format" in body and b"response_format" in content:
                    self._structured = False
                    body.pop("response_format")
                    status, headers, content = self._post(body)
                    if status == 200:
                        return _reply(content)
                self._refuse(status, content, model)
                problem, asked_pause = f"HTTP {status}", _retry_after(headers)
            if attempt < self.retries:
                self._wait(attempt, asked_pause)
        raise EndpointAway(f"{self.url}: {problem} after {self.retries + 1} requests")

    def _post(self, body: Mapping[str, Any]) -> tuple[int, Mapping[str, str], bytes]:
        import urllib3

        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            answer = self._pool.request(
                "POST",
                self.url,
                body=json.dumps(body).encode(),
                headers=headers,
                timeout=urllib3.Timeout(connect=min(self.timeout, 10), read=self.timeout),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            return answer.status, answer.headers, _content(answer, self.timeout)
        except urllib3.exceptions.HTTPError as error:
            raise OSError(_plain(error)) from None

    def _refuse(self, status: int, content: bytes, model: str) -> None:
        """Raise Refused for an answer that every other request would get as well."""
        if status in TRANSIENT:
            return
        if status in (401, 403):
            key = (
                f"the key in ${self.key_variable}"
                if self._key
                else f"a request without a key (${self.key_variable} is not set)"
            )
            raise Refused(f"{self.url} refuses {key} (HTTP {status}); set the variable to a valid key")
        if 300 <= status < 400:
            raise Refused(
                f"{self.url} redirects to another address; texts are only sent to the endpoint that was named"
            )
        said = self._without_key(_message(content))
        if status == 404:
            raise Refused(f"{self.url} has no model {model!r} or is no chat endpoint (HTTP 404{said})")
        raise Refused(f"{self.url} refuses the request (HTTP {status}{said})")

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "***") if self._key else text

    def _wait(self, attempt: int, asked: float | None) -> None:
        if asked is None:
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt) * (0.5 + random.random())
            self._pause(pause)
            return
        self._wait_until = max(self._wait_until, time.monotonic() + min(asked, LONGEST_ASKED_PAUSE))

    def _pause(self, seconds: float) -> None:
        if self._stopped.wait(max(seconds, 0)) if seconds > 0 else self._stopped.is_set():
            raise Stopped("stopped")


def _content(answer: urllib3.BaseHTTPResponse, seconds: float) -> bytes:
    """Read an answer, at most one byte over MAXIMUM_REPLY. Raises TimeoutError if it drips in for too long."""
    deadline, content = time.monotonic() + seconds, b""
    while len(content) <= MAXIMUM_REPLY and (block := _some(answer)):
        content += block
        if time.monotonic() > deadline:
            answer.close()
            raise TimeoutError(f"no whole answer within {seconds:g} s")
    if len(content) > MAXIMUM_REPLY:
        answer.close()
    else:
        answer.release_conn()
    return content


def _some(answer: urllib3.BaseHTTPResponse) -> bytes:
    return answer.read1(65_536) or b""


def _reply(content: bytes) -> Reply:
    if len(content) > MAXIMUM_REPLY:
        return Reply(None, "", 0, 0)
    try:
        found = json.loads(content)
        text = found["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError):
        return Reply(None, "", 0, 0)
    usage = found.get("usage") or {}
    counts = [usage.get(name) if isinstance(usage, dict) else 0 for name in ("prompt_tokens", "completion_tokens")]
    tokens_in, tokens_out = (count if isinstance(count, int) and 0 <= count < 10**9 else 0 for count in counts)
    model = found.get("model")
    return Reply(
        text if isinstance(text, str) else None, model if isinstance(model, str) else "", tokens_in, tokens_out
    )


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of Retry-After, which may be a number or a date; None without it."""
    from urllib3.exceptions import InvalidHeader
    from urllib3.util import Retry

    value = headers.get("Retry-After")
    if not value:
        return None
    try:
        return float(Retry().parse_retry_after(value))
    except (InvalidHeader, ValueError):
        return None


def _message(content: bytes) -> str:
    """Return what an endpoint says about an error, as the end of a message; "" if it says nothing readable."""
    try:
        found = json.loads(content[:10_000])
        error = found.get("error", found)
        said = error.get("message", "") if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        return ""
    text = " ".join(str(said).split())[:160]
    return f": {text}" if text else ""


def _plain(error: BaseException) -> str:
    """Return one line about a failed connection, without objects and addresses in memory."""
    words = re.sub(r"<[^>]*>:?\s*|\w+\(.*?\):\s*", "", str(error)).strip()
    return words[:160] or type(error).__name__


def _without_secrets(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)[:80]
