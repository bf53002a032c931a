"""Protection of both servers, the app (`blindspot open`) and the retrieval service (`blindspot serve`).

`Guard` is ASGI middleware. It checks the headers Host and Origin, limits the size of requests and their rate, and sends
security headers. `PatientProtocol` is uvicorn's HTTP protocol with time limits, so that clients that send or read
slowly cannot occupy the server. `docs/security.md` describes the attacks that this prevents.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import math
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from blindspot.db.errors import Refused

MAX_BODY = 1 << 20  # bytes
SECONDS_TO_SEND_REQUEST = 15.0  # headers and body
SECONDS_TO_READ_ANSWER = 30.0  # seconds in which the client reads no byte of a waiting answer
UNFINISHED_REQUESTS = 128  # connections with an incomplete request; beyond this limit the oldest is closed
CONNECTIONS = 512  # open connections; beyond this limit uvicorn answers 503
REQUESTS_AT_ONCE, REQUESTS_PER_SECOND = 1000.0, 100.0  # per client address
WRONG_TOKENS_AT_ONCE, WRONG_TOKENS_PER_SECOND = 20.0, 0.2  # per client address
ADDRESSES_REMEMBERED = 4096
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"content-security-policy", b"frame-ancestors 'self'"),
    (b"referrer-policy", b"same-origin"),
)

EVERYWHERE = ("0.0.0.0", "::")


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach a server on this address: localhost, 127.0.0.0/8 or ::1."""
    if address.lower() == "localhost":
        return True
    ip = _parse_ip(address)
    return ip is not None and ip.is_loopback


def reachable_host(address: str) -> str:
    """Return the host name with which this machine can connect to a server that listens on this address. One cannot
    connect to 0.0.0.0 and ::.
    """
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)


def host_in_url(host: str) -> str:
    """Return a host as written in a URL: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def bind_socket(address: str, port: int) -> socket.socket:
    """Return a listening socket. Raises Refused if the port is taken or the address is not this machine's."""
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise Refused(f"cannot listen on {address}: {error.strerror or error}; give another --address") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address == "::":
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.bind((address, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        raise Refused(
            f"cannot listen on {host_in_url(address)}:{port} ({reason}); give another --port or --address"
        ) from error
    return listening


class Hosts:
    """The values of the Host header that a server accepts.

    A foreign web page can make its own host name point to this machine (DNS rebinding). The browser's requests then
    have that name in the Host header. A server on a loopback address therefore accepts only loopback names. A server on
    another address accepts any IP address (which cannot be rebound), this machine's own names, and the names that its
    operator gave. A server with such names is not treated as local even on a loopback address, because a proxy can
    forward requests from other machines.
    """

    def __init__(self, address: str, names: Iterable[str] = ()):
        names = list(names)
        self.is_local = is_loopback(address) and not names
        self._names = {name.lower().rstrip(".") for name in names} | {"localhost", address.lower()}
        if not self.is_local:
            self._names.add(socket.gethostname().lower())

    def __contains__(self, host: object) -> bool:
        name = _name_of_host(host) if isinstance(host, str) else None
        if name is None:
            return False
        ip = _parse_ip(name)
        if ip is not None:
            return ip.is_loopback or name in self._names or not self.is_local
        return name in self._names


class RequestRate:
    """A token bucket for each client address: `at_once` requests, refilled at `per_second`."""

    def __init__(self, at_once: float, per_second: float, clock: Callable[[], float] = time.monotonic):
        self._at_once, self._per_second, self._clock = at_once, per_second, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take_token(self, address: str) -> float:
        """Take a token from an address's bucket. Return 0, or the seconds until there is one."""
        now = self._clock()
        allowance, since = self._buckets.pop(address, (self._at_once, now))
        allowance = min(self._at_once, allowance + (now - since) * self._per_second)
        wait = 0.0 if allowance >= 1 else (1 - allowance) / self._per_second
        self._buckets[address] = (allowance - 1 if wait == 0 else allowance), now
        if len(self._buckets) > ADDRESSES_REMEMBERED:
            self._buckets.popitem(last=False)
        return wait


class TokenGuesses:
    """Handles requests without a valid token. Each is refused, and client addresses that send many of them are slowed
    down.
    """

    def __init__(self) -> None:
        self._rate = RequestRate(WRONG_TOKENS_AT_ONCE, WRONG_TOKENS_PER_SECOND)

    def refusal(self, address: str, line: str) -> tuple[int, str, dict[str, str]]:
        """Return the status, the message and the headers for refusing another request of an address.

        Args:
            line: what to send instead.
        """
        wait = self._rate.take_token(address)
        if wait > 0:
            return 429, "too many wrong tokens from your address; try again later", _retry_after(wait)
        return 401, line, {"WWW-Authenticate": "Bearer"}


class Guard:
    """Middleware that refuses invalid requests before they reach the application.

    Args:
        hosts: names that the server answers to; another Host is refused with 400, another Origin with 403.
        max_body: bytes of a request body; more is refused with 413.
        rate: requests per client address; more are refused with 429. None: no limit, as on a loopback address.
        uploads: beginning of the paths to which a file can be sent with PUT, and the most bytes of it.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Hosts,
        max_body: int = MAX_BODY,
        rate: RequestRate | None = None,
        uploads: tuple[str, int] | None = None,
    ):
        self._app, self._hosts, self._max_body, self._rate = app, hosts, max_body, rate
        self._uploads = uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(scope, receive, send, *refusal)
            return
        await self._app(
            scope,
            self._limit_body(receive, self._body_limit(scope)) if scope["type"] == "http" else receive,
            _with_headers(send),
        )

    def _refusal(self, scope: Scope) -> tuple[int, str, dict[str, str]] | None:
        headers = _headers(scope)
        host, origins = headers.get("host", [""])[-1], headers.get("origin", [])
        if len(headers.get("host", [])) != 1 or host not in self._hosts:
            return 400, _wrong_host(host, self._hosts.is_local), {}
        if any(_authority(origin) != host.lower() for origin in origins):
            return 403, "a page of another site sent this request; open this server's own page", {}
        length, most = headers.get("content-length", ["0"])[0], self._body_limit(scope)
        if length.isdigit() and int(length) > most:
            return 413, f"a request may have at most {most:,} bytes", {}
        if self._rate is not None:
            wait = self._rate.take_token((scope.get("client") or ("",))[0])
            if wait > 0:
                return 429, "too many requests from your address; try again in a moment", _retry_after(wait)
        return None

    def _body_limit(self, scope: Scope) -> int:
        """Return the maximum size of a request's body in bytes. Uploads have a separate limit above `max_body`."""
        if (
            self._uploads is None
            or scope.get("method") != "PUT"
            or not scope.get("path", "").startswith(self._uploads[0])
        ):
            return self._max_body
        return max(self._uploads[1], self._max_body)

    def _limit_body(self, receive: Receive, limit: int) -> Receive:
        """Return a `receive` that raises after `limit` bytes, for bodies of unknown length."""
        from starlette.exceptions import HTTPException

        read = 0

        async def receive_limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > limit:
                raise HTTPException(413, f"a request may have at most {limit:,} bytes")
            return message

        return receive_limited


class PatientProtocol(H11Protocol):
    """uvicorn's HTTP protocol with additional time limits.

    A client has SECONDS_TO_SEND_REQUEST to send headers and body, and must read some of the response at least every
    SECONDS_TO_READ_ANSWER. At most UNFINISHED_REQUESTS connections may have an incomplete request, and a further one
    closes the oldest. A flood of incomplete requests therefore cannot lock out other clients.
    """

    _unfinished: OrderedDict[PatientProtocol, None] = OrderedDict()

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._request_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._is_websocket = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begin_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_websocket:  # another protocol has the connection now; h11 still waits for the end of the request
            return
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY) or self.transport.is_closing():
            self._end_request()
        elif self._request_timer is None:  # the next request of a keep-alive connection
            self._begin_request()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._is_websocket = True
        self._end_request()
        super().handle_websocket_upgrade(event)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_request()
        self._end_write()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(SECONDS_TO_READ_ANSWER, self.transport.abort)

    def resume_writing(self) -> None:
        self._end_write()
        super().resume_writing()

    def _begin_request(self) -> None:
        self._request_timer = self.loop.call_later(SECONDS_TO_SEND_REQUEST, self.transport.abort)
        self._unfinished[self] = None
        if len(self._unfinished) > UNFINISHED_REQUESTS:
            oldest = next(iter(self._unfinished))
            oldest._end_request()
            oldest.transport.abort()

    def _end_request(self) -> None:
        self._unfinished.pop(self, None)
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def _end_write(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None


def _parse_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _name_of_host(host: str) -> str | None:
    """Return the name in a Host header in lower case, without port and brackets; None if the header is malformed."""
    try:
        parts = urlsplit(f"//{host}")
        name, _ = parts.hostname, parts.port
    except ValueError:
        return None
    if not name or parts.username is not None or parts.path or parts.query or parts.fragment:
        return None
    return name.rstrip(".")


def _authority(origin: str) -> str:
    """Return host and port from an Origin header, in the format of a Host header; "" for the origin `null`."""
    return urlsplit(origin).netloc.lower() if "://" in origin else ""


def _wrong_host(host: str, is_local: bool) -> str:
    if is_local:
        return f"this server answers only to localhost, not to {host[:80]!r}"
    return f"this server does not answer to the name {host[:80]!r}; its operator can add it with --host"


def _headers(scope: Scope) -> dict[str, list[str]]:
    headers: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return headers


def _retry_after(seconds: float) -> dict[str, str]:
    return {"Retry-After": str(math.ceil(seconds))}


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message.get("headers", [])}
            message["headers"] = [*message.get("headers", []), *(pair for pair in HEADERS if pair[0] not in present)]
        await send(message)

    return sending


async def _refuse(
    scope: Scope, receive: Receive, send: Send, status: int, message: str, headers: dict[str, str]
) -> None:
    """Respond to a request with one line of JSON, or refuse a websocket before it is accepted."""
    logging.getLogger(__name__).debug("refused with %d: %s", status, message)
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": message[:120]})
        return
    from starlette.responses import Response

    answer = Response(json.dumps({"error": message}), status, {**headers, "Connection": "close"}, "application/json")
    await answer(scope, receive, send)
