"""A server that shows one moment of a recording: its pages can be read, and nothing can be asked of it.

Verbs, plans and every other request that is no GET get a 403 that says so. `pages/replayed.py` has what probes say.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from extender.web.error_answers import error_response

ABOUT_REPLAY: Final = "A replay of {}, read-only: the pages of that moment. It serves no verb of kube-scheduler."


class ReadOnly:
    """Middleware that refuses all but GET and HEAD."""

    def __init__(self, app: ASGIApp, replay: str) -> None:
        self._app = app
        self._replay = replay

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            text = f"this is a replay of {self._replay}, read-only: {scope['method']} {scope['path']} is refused"
            await error_response(403, text)(scope, receive, send)
            return
        await self._app(scope, receive, send)
