"""Links with a key: `?key=SECRET` is exchanged for the cookie of a session and leaves the address.

Streamlit cannot set a cookie that scripts cannot read, so the exchange happens before it sees the request.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from blindspot.db.errors import BlindspotError
from blindspot.db.people import SESSION_SECONDS, People

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

KEY = "key"
LINK, INVALID = "link", "invalid"
"""The parameter and value that say after the redirect that the key was not valid."""


def cookie_name(labels_path: Path) -> str:
    """Return the name of the cookie that holds a person's name (local app). Each study has its own cookie name, because
    cookies of one host are shared by all ports.
    """
    return "blindspot-" + hashlib.sha256(str(labels_path).encode()).hexdigest()[:12]


def session_cookie(labels_path: Path) -> str:
    """Return the name of the cookie that holds the token of a session."""
    return cookie_name(labels_path) + "-session"


class LinkKeys:
    """ASGI middleware that answers a request with a key by a redirect to the same page without it."""

    def __init__(self, app: ASGIApp, labels_path: Path):
        self._app, self._labels_path = app, labels_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._exchange(scope) if scope["type"] == "http" and scope["method"] == "GET" else None
        await (answer or self._app)(scope, receive, send)

    async def _exchange(self, scope: Scope) -> Response | None:
        from starlette.concurrency import run_in_threadpool
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse

        request = Request(scope)
        if (key := request.query_params.get(KEY)) is None or not self._labels_path.is_file():
            return None
        try:
            return self._redirect(request, await run_in_threadpool(self._sign_in, key))
        except BlindspotError as error:
            return PlainTextResponse(str(error), 503)

    def _sign_in(self, key: str) -> str | None:
        people = People(self._labels_path)
        try:
            return people.sign_in(key)
        finally:
            people.close()

    def _redirect(self, request: Request, token: str | None) -> Response:
        from starlette.responses import RedirectResponse

        parameters = parse_qsl(request.scope["query_string"].decode("latin-1"))
        kept = [pair for pair in parameters if pair[0] not in (KEY, LINK)] + ([] if token else [(LINK, INVALID)])
        # A relative address lets a proxy serve the app under a path, and prevents redirects to other sites.
        page = "./" + quote(request.scope["path"].rsplit("/", 1)[-1])
        answer = RedirectResponse(f"{page}?{urlencode(kept)}" if kept else page, 303)
        answer.headers["Cache-Control"] = "no-store"
        answer.headers["Referrer-Policy"] = "no-referrer"
        if token:
            answer.set_cookie(
                session_cookie(self._labels_path),
                token,
                max_age=int(SESSION_SECONDS),
                httponly=True,
                secure="https" in (request.url.scheme, request.headers.get("x-forwarded-proto")),
                samesite="strict",
            )
        return answer
