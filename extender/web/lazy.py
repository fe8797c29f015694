"""The app that a server starts with: verbs and probes at once, FastAPI and the pages when they are needed.

    a verb             protocol.py and http2.py answer it from `verbs`, without any app
    a probe            answered here
    any other request  waits until FastAPI is imported and the app is made, in a thread

To import FastAPI and to make the app takes longer than the whole rest of the start. A server without it is ready, and
answers kube-scheduler, while nobody has looked at a page yet. The app is made two seconds after the server has
started, or for the first request that needs it. Meanwhile the event loop goes on: the thread that imports gives the
interpreter away every half millisecond (`server.py` sets that interval).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from extender.web.pages.probes import send_probe
from extender.web.parts import Parts

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

_log = structlog.get_logger(__name__)


class LazyApp:
    """An ASGI app around `parts`. `make` makes the app of all that is no probe; it is called once, in a thread."""

    def __init__(self, parts: Parts, make: Callable[[], ASGIApp]) -> None:
        self.verbs = parts.verbs.endpoints
        self.metrics = parts.metrics
        self.budgets = parts.budgets
        self.probes = parts.probes
        self._turnstile = parts.turnstile
        self._make = make
        self._making: asyncio.Future[ASGIApp] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        probe = self.probes.by_path.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        if probe is None:
            app = await self._made()
            await app(scope, receive, send)
            return
        who = ((scope.get("client") or ("",))[0], scope["path"])
        await self._turnstile.enter(who)
        found = probe()
        await self._turnstile.enter(who)  # answers take turns, too
        await send_probe(send, found)

    def _made(self) -> asyncio.Future[ASGIApp]:
        """The app, or what waits for it. Only the event loop calls this, so the app is made once."""
        if self._making is None:
            self._making = asyncio.get_running_loop().run_in_executor(None, self._make)
        return asyncio.shield(self._making)

    def prepare(self) -> None:
        """Make the app now, before a request needs it. Call it in the event loop."""
        self._made().add_done_callback(_report)


def _report(made: asyncio.Future[ASGIApp]) -> None:
    if not made.cancelled() and (error := made.exception()) is not None:
        _log.error("pages cannot be served", exc_info=error)
