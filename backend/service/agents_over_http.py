"""The agents' server over HTTP, behind the guard and the token of the service."""

from __future__ import annotations

import asyncio
import hmac
import socket
from typing import TYPE_CHECKING

from blindspot.backend.service.guard import Guard, Hosts, PatientProtocol

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/mcp"


class NeedsToken:
    """Middleware that refuses a request without the token."""

    def __init__(self, app: ASGIApp, token: str):
        self._app, self._token = app, f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import JSONResponse

        sent = dict(scope.get("headers", [])).get(b"authorization", b"")
        if scope["type"] == "http" and not hmac.compare_digest(sent, self._token):
            refusal = JSONResponse({"error": "send 'Authorization: Bearer TOKEN'"}, 401, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def agents_app(server: MCPServer, token: str | None) -> ASGIApp:
    """Return the server as an application that answers on localhost at PATH (streamable HTTP)."""
    app: ASGIApp = server.streamable_http_app(streamable_http_path=PATH, json_response=True, stateless_http=True)
    if token is not None:
        app = NeedsToken(app, token)
    return Guard(app, Hosts("localhost"))


def serve_agents(server: MCPServer, listening: socket.socket, token: str | None) -> None:
    """Serve on a bound socket of this machine until this process is told to end."""
    import uvicorn

    config = uvicorn.Config(
        agents_app(server, token), http=PatientProtocol, ws="none", log_level="warning", server_header=False
    )
    try:
        asyncio.run(uvicorn.Server(config).serve(sockets=[listening]))
    except KeyboardInterrupt:
        pass
