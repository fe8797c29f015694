"""Routes the two calls that every claim needs, to claim and to release, without FastAPI.

    POST   /v1/pools/NAMESPACE/POOL/claims   \
    DELETE /v1/claims/ID                      > handlers.py, at once        everything else --> FastAPI's routing
    POST   /v1/claims/ID/release             /

FastAPI's routing, its dependencies and its two middlewares take as long as the rest of such a call. The answers are the
same, errors included: a test compares both ways.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from extender.web.claims.handlers import ClaimHandlers
from extender.web.error_answers import bad_request_response, error_response
from extender.web.errors import BadRequest

_Call = Callable[[Request], Awaitable[Response]]


class ClaimShortcut:
    """An ASGI middleware, which must be the innermost one."""

    def __init__(self, app: ASGIApp, *, handlers: ClaimHandlers) -> None:
        self._app = app
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = (
            self._call(scope["method"], scope["path"])
            if scope["type"] == "http" and not scope["query_string"]
            else None
        )
        if call is None:
            await self._app(scope, receive, send)
            return
        try:
            response = await call(Request(scope, receive, send))
        except BadRequest as error:
            response = bad_request_response(error)
        except HTTPException as error:
            response = error_response(error.status_code, str(error.detail), headers=dict(error.headers or {}))
        await response(scope, receive, send)

    def _call(self, method: str, path: str) -> _Call | None:
        """Return the handler of a request; None: FastAPI routes it."""
        if method == "POST" and path.startswith("/v1/pools/"):
            parts = path.split("/")
            if len(parts) == 6 and parts[5] == "claims" and parts[3] and parts[4]:
                return lambda request: self._handlers.claim(request, parts[3], parts[4])
        if method in ("DELETE", "POST") and path.startswith("/v1/claims/"):
            parts = path.split("/")
            if parts[3] and (len(parts) == 4 if method == "DELETE" else parts[4:] == ["release"]):
                return lambda request: self._handlers.release(request, parts[3])
        return None
