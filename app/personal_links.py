"""Personal links: the server exchanges the secret of a link for a session before any page sees the secret.

A request for `/?invite=SECRET` gets a cookie and a redirect to the same page without the secret. If the link of an
annotator or adjudicator names no page, it opens Judge. So the secret does not appear in the address bar, the history or
the cookies. The cookie contains the token of the session. Scripts cannot read the cookie, other sites cannot send it,
and over https it is only sent encrypted.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode

from blindspot.db.errors import BlindspotError
from blindspot.db.labels import Labels
from blindspot.db.people import SESSION_SECONDS, People, Person
from blindspot.db.queue import Queue

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

INVITATION = "invite"
LINK, INVALID = "link", "invalid"
"""The query parameter and value that mark an invalid link after the redirect."""
Work = tuple[str, list[tuple[str, str]]]
"""A page and the parameters of its address."""
HOME: Work = ("", [])
_OLD_SECRET = "link%3A"
"""Prefix of the cookies in which earlier versions stored the secret itself."""


def cookie_name(labels_path: Path) -> str:
    """Return the name of the cookie that holds a person's name (local app). Each study has its own cookie name, because
    cookies of one host are shared by all ports.
    """
    return "blindspot-" + hashlib.sha256(str(labels_path).encode()).hexdigest()[:12]


def session_cookie(labels_path: Path) -> str:
    """Return the name of the cookie that holds the token of a session."""
    return cookie_name(labels_path) + "-session"


class PersonalLinks:
    """ASGI middleware that exchanges personal links for sessions."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await _response(scope) if scope["type"] == "http" else None
        await (response or self._app)(scope, receive, send)


async def _response(scope: Scope) -> Response | None:
    """Return the redirect for a request with a secret; None for every other request."""
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse

    if scope["method"] != "GET" or (INVITATION + "=").encode() not in scope["query_string"]:
        return None
    request = Request(scope)
    secret = request.query_params.get(INVITATION)
    labels_path = _labels_path()
    if secret is None or labels_path is None:
        return None
    try:
        token, work = await run_in_threadpool(_sign_in, labels_path, secret)
    except BlindspotError as error:
        return PlainTextResponse(str(error), 503)
    return _redirect(request, labels_path, token, work)


def _sign_in(labels_path: Path, secret: str) -> tuple[str | None, Work]:
    """Return the token of a new session, and the page that a link opens if it names none."""
    people = People(labels_path)
    try:
        person = people.person_of_link(secret)
        return people.sign_in(secret), _work_of(labels_path, person) if person is not None else HOME
    finally:
        people.close()


def _work_of(labels_path: Path, person: Person) -> Work:
    """Return the page of a person's work: for an adjudicator the disputes that can be settled now, else the queue; for
    a lead, Home.
    """
    if person.is_allowed("make batches"):
        return HOME
    if person.is_allowed("adjudicate"):
        labels, queue = Labels(labels_path), Queue(labels_path)
        try:
            if labels.disputed_questions():
                return "judge", [("adjudicate", "1")]
        finally:
            labels.close()
            queue.close()
    return "judge", []


def _redirect(request: Request, labels_path: Path, token: str | None, work: Work) -> Response:
    from starlette.responses import RedirectResponse

    remaining = [
        pair for pair in parse_qsl(request.scope["query_string"].decode("latin-1")) if pair[0] not in (INVITATION, LINK)
    ]
    named = request.scope["path"].rsplit("/", 1)[-1]
    first_page, parameters = work
    more = [(LINK, INVALID)] if token is None else [] if named else parameters
    query = urlencode([*remaining, *more])
    # A relative address lets a proxy serve the app under a path, and prevents redirects to other sites.
    page = "./" + quote(named or first_page)
    response = RedirectResponse(f"{page}?{query}" if query else page, 303)
    response.headers["Cache-Control"] = "no-store"
    response.headers["Referrer-Policy"] = "no-referrer"
    if token:
        secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
        response.set_cookie(
            session_cookie(labels_path),
            token,
            max_age=int(SESSION_SECONDS),
            path="/",
            httponly=True,
            secure=secure,
            samesite="strict",
        )
    if request.cookies.get(cookie_name(labels_path), "").startswith(_OLD_SECRET):
        response.delete_cookie(cookie_name(labels_path), path="/", samesite="strict")
    return response


def _labels_path() -> Path | None:
    """Return the path of the served study's label store; None without a study."""
    from blindspot.backend.core.study import ENVIRONMENT_VARIABLE

    path = Path(os.environ.get(ENVIRONMENT_VARIABLE) or ".").resolve() / "labels.db"
    return path if path.is_file() else None
