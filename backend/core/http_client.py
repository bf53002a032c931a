"""Send HTTP requests to one server. Requests are repeated while the server is busy or unreachable, and redirects are
not followed.

Nothing is sent without a person's consent to that server (`blindspot.backend.core.consent`). The key is sent in one
header and is never written to a file, log or message.
"""

from __future__ import annotations

import ipaddress
import json
import random
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from blindspot.backend.core.consent import Consent, server_of
from blindspot.db.errors import BlindspotError, Refused

if TYPE_CHECKING:
    import urllib3

TRANSIENT = {408, 409, 425, 429, 500, 502, 503, 504, 529}
MAXIMUM_REPLY = 4_000_000  # bytes
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0  # seconds
LONGEST_ASKED_PAUSE = 600.0  # of what Retry-After may ask for
SECONDS_TO_CONNECT = 10.0


class ServerUnavailable(BlindspotError):
    """Raised if the server did not answer one request after all repetitions. Another request may succeed."""


class RequestAbandoned(BlindspotError):
    """Raised in requests that are still waiting when the work that needs their answers has ended."""


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A server's response. content: the body, cut after one byte more than the limit, so that a longer body
    is noticed.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Destination:
    """The server that receives texts of a study.

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


def check_url(url: str, option: str, example: str) -> str:
    """Return a server's URL without a trailing slash. Raises Refused if it is not a URL.

    Args:
        option, example: what gave the address, and a right one, for the message.
    """
    parts = urlsplit(url.strip())
    try:
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        port_is_valid = False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_valid:
        raise Refused(f"{option} must be a URL as in {example}, not {_without_secrets(url)!r}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Refused(
            f"{option} must have no user name, password or query, since the study stores it; give a key in the "
            "environment"
        )
    return url.strip().rstrip("/")


def destination(url: str) -> Destination:
    """Return the host of a URL, whether it is this machine, and whether the connection is encrypted."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost" or host.endswith(".localhost")
    return Destination(parts.netloc, local, parts.scheme == "https")


class HttpClient:
    """Sends requests to one URL. Threads may share a client; if the server asks one thread to wait, all threads wait.

    Args:
        url: The address of the requests.
        consent: To the server of this address.
        authorization: The header of that name, with the key; "" for requests without a key.
        timeout: Seconds for one answer.
        retries: How often a request is repeated.
        connections: How many requests may be under way at once.
    """

    def __init__(
        self,
        url: str,
        consent: Consent,
        authorization: str,
        timeout: float,
        retries: int,
        connections: int,
    ):
        import urllib3

        if server_of(url) != consent.server:
            raise Refused(f"{url} is not at {consent.server}, which was allowed; nothing was sent")

        self.url, self.timeout, self.retries = url, timeout, retries
        self._authorization = authorization
        self._pool = urllib3.PoolManager(maxsize=connections, block=True)
        self._wait_until = 0.0
        self._stopped = threading.Event()

    def stop_waiting(self) -> None:
        """End all waiting: requests that are waiting to be repeated raise RequestAbandoned."""
        self._stopped.set()

    def post(self, body: bytes) -> HttpResponse:
        """Send a request, repeat it while the server asks for that, and return the response.

        Raises:
            ServerUnavailable: no such answer after all repetitions.
        """
        problem = ""
        for attempt in range(self.retries + 1):
            self._pause(self._wait_until - time.monotonic())
            retry_after = None
            try:
                answer = self._send_once(body)
            except OSError as error:
                problem = plain_error(error)
            else:
                if answer.status not in TRANSIENT:
                    return answer
                problem, retry_after = f"HTTP {answer.status}", _retry_after(answer.headers)
            if attempt < self.retries:
                self._back_off(attempt, retry_after)
        requests = "1 request" if self.retries == 0 else f"{self.retries + 1} requests"
        raise ServerUnavailable(f"{self.url}: {problem} after {requests}")

    def _send_once(self, body: bytes) -> HttpResponse:
        import urllib3

        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._authorization:
            headers["Authorization"] = self._authorization
        try:
            answer = self._pool.request(
                "POST",
                self.url,
                body=body,
                headers=headers,
                timeout=urllib3.Timeout(connect=min(self.timeout, SECONDS_TO_CONNECT), read=self.timeout),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            return HttpResponse(answer.status, answer.headers, self._read_content(answer))
        except urllib3.exceptions.HTTPError as error:
            raise OSError(plain_error(error)) from None

    def _read_content(self, answer: urllib3.BaseHTTPResponse) -> bytes:
        """Read a response, at most one byte over the maximum. Raises TimeoutError if the body arrives too slowly."""
        deadline, blocks, size = time.monotonic() + self.timeout, [], 0
        while size <= MAXIMUM_REPLY and (block := answer.read1(65_536) or b""):
            blocks.append(block)
            size += len(block)
            if time.monotonic() > deadline:
                answer.close()
                raise TimeoutError(f"no whole answer within {self.timeout:g} s")
        if size > MAXIMUM_REPLY:
            answer.close()
        else:
            answer.release_conn()
        return b"".join(blocks)[: MAXIMUM_REPLY + 1]

    def _back_off(self, attempt: int, retry_after: float | None) -> None:
        if retry_after is None:
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt) * (0.5 + random.random())
            self._pause(pause)
            return
        self._wait_until = max(self._wait_until, time.monotonic() + min(retry_after, LONGEST_ASKED_PAUSE))

    def _pause(self, seconds: float) -> None:
        if self._stopped.wait(max(seconds, 0)) if seconds > 0 else self._stopped.is_set():
            raise RequestAbandoned("stopped")


def message_of(content: bytes, secret: str = "") -> str:
    """Return the server's own error text, to append to a message; "" if the body has no readable text."""
    try:
        answer = json.loads(content[:10_000])
        error = answer.get("error", answer)
        if isinstance(error, dict):
            error = error.get("message") or error.get("reason") or ""
    except (ValueError, AttributeError):
        return ""
    text = " ".join(str(error).split())[:160]
    text = text.replace(secret, "***") if secret else text
    return f": {text}" if text else ""


def plain_error(error: BaseException) -> str:
    """Return one line about a failed connection, without the memory addresses that urllib3's messages contain."""
    words = re.sub(r"<[^>]*>:?\s*|\w+\(.*?\):\s*", "", str(error)).strip()
    return words[:160] or type(error).__name__


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait by the header Retry-After (a number or a date); None if it is absent."""
    from urllib3.exceptions import InvalidHeader
    from urllib3.util import Retry

    value = headers.get("Retry-After")
    if not value:
        return None
    try:
        return float(Retry().parse_retry_after(value))
    except (InvalidHeader, ValueError):
        return None


def _without_secrets(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)[:80]
