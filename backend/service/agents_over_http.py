"""Serve the agents' server over HTTP, protected by the service's `Guard` and its token."""

from __future__ import annotations

import asyncio
import hmac
import socket
from typing import TYPE_CHECKING

from blindspot.backend.service.guard import Guard, Hosts, PatientProtocol, TokenGuesses

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/mcp"
NEEDS_TOKEN = "this server needs a token: send 'Authorization: Bearer TOKEN'"


class NeedsToken:
    """Middleware that refuses requests without the token, and slows down client addresses that guess tokens."""

    def __init__(self, app: ASGIApp, token: str):
        self._app, self._token, self._guesses = app, f"Bearer {token}".encode(), TokenGuesses()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import JSONResponse

        sent = dict(scope.get("headers", [])).get(b"authorization", b"")
        if scope["type"] != "http" or hmac.compare_digest(sent, self._token):
            await self._app(scope, receive, send)
            return
        status, line, headers = self._guesses.refusal((scope.get("client") or ("",))[0], NEEDS_TOKEN)
        await JSONResponse({"error": line}, status, headers)(scope, receive, send)


def agents_app(server: MCPServer, token: str | None) -> ASGIApp:
    """Return the server as an ASGI application that serves localhost at PATH (streamable HTTP)."""
    app: ASGIApp = server.streamable_http_app(streamable_http_path=PATH, json_response=True, stateless_http=True)
    if token is not None:
        app = NeedsToken(app, token)
    return Guard(app, Hosts("localhost"))


def serve_agents(server: MCPServer, listening: socket.socket, token: str | None) -> None:
    """Serve on a bound socket of this machine until the process gets a signal to end."""
    import uvicorn

    config = uvicorn.Config(
        agents_app(server, token), http=PatientProtocol, ws="none", log_level="warning", server_header=False
    )
    try:
        asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))
    except KeyboardInterrupt:
        pass
