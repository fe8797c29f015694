"""Probes of the kubelet and of load balancers, without FastAPI: they are asked before anything else is.

Alive means that the process is worth keeping. Ready means that its answers are right: every informer has delivered,
every bound pod is known again, and this replica leads. Informed is a standby that knows everything and could lead at
once. The roll-out of a Deployment and a PodDisruptionBudget count the informed replicas; calls go to the ready one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from extender.server.runtime import Runtime
from extender.server.views import Readiness
from extender.web.errors import JSON, error_body
from extender.web.limits.budget import budgets_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


class Probes:
    """The three probes. Each returns whether all is well, and a text: why not, or what an operator should look at.

    `readiness_warning` returns what an operator should look at although the server is ready.
    """

    def __init__(self, runtime: Runtime, readiness_warning: Callable[[], str] = str) -> None:
        self._runtime = runtime
        self._readiness_warning = readiness_warning
        self.by_path = {"/livez": self.alive, "/readyz": self.ready, "/readyz/informed": self.informed}

    def alive(self) -> Readiness:
        return _told("alive", self._runtime.liveness())

    def ready(self) -> Readiness:
        found = _told("ready", self._runtime.readiness())
        if not found.ready:
            return found
        return Readiness(True, "; ".join(text for text in (found.detail, self._readiness_warning()) if text))

    def informed(self) -> Readiness:
        return _told("informed", self._runtime.informed())


def _told(what: str, found: Readiness) -> Readiness:
    return found if found.ready else Readiness(False, f"extender is not {what}: {found.detail}")


async def send_probe(send: Send, found: Readiness) -> None:
    """Send the answer to a probe, as FastAPI would."""
    if found.ready:
        await send_answer(send, 200, msgspec.json.encode({"status": "ok", "detail": found.detail}), JSON.encode())
    else:
        await send_answer(send, 503, error_body(found.detail, None), JSON.encode())


async def send_answer(send: Send, status: int, body: bytes, content_type: bytes) -> None:
    """Send a complete answer."""
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", content_type)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class ProbesOnly:
    """Serves only the part of an app that any caller on the port may see: probes and metrics, read-only."""

    PATHS = frozenset({"/livez", "/readyz", "/readyz/informed", "/metrics"})

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.budgets = budgets_of(app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in self.PATHS and scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
        else:
            paths = ", ".join(sorted(self.PATHS))
            text = f"this port has GET {paths}\n".encode()
            await send_answer(send, 404, text, b"text/plain; charset=utf-8")
