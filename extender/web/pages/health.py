"""Liveness and readiness, for the kubelet and load balancers.

Alive means that the process is worth keeping. Ready means that its answers are right: every informer has delivered,
every bound pod is known again, and this replica leads. Informed is a standby that knows everything and could lead at
once. The roll-out of a Deployment and a PodDisruptionBudget count the informed replicas; calls go to the ready one.
"""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from extender.server.runtime import Runtime
from extender.server.views import Readiness
from extender.web.errors import ErrorBody
from extender.web.limits.budget import budgets_of


class Health(BaseModel):
    """All is well; `detail` may say more."""

    status: str = "ok"
    detail: str = ""


def health_routes(runtime: Runtime, readiness_warning: Callable[[], str] = str) -> APIRouter:
    """The routes. `readiness_warning` returns what an operator should look at although the server is ready; /readyz
    includes it in its detail."""
    router = APIRouter(tags=["health"], responses={503: {"model": ErrorBody}})

    @router.get("/livez", summary="Is the process worth keeping")
    async def livez() -> Health:
        return _health("alive", runtime.liveness())

    @router.get("/readyz", summary="May kube-scheduler be served")
    async def readyz() -> Health:
        health = _health("ready", runtime.readiness())
        return Health(detail="; ".join(text for text in (health.detail, readiness_warning()) if text))

    @router.get("/readyz/informed", summary="Does it know all that a leader must know")
    async def informed() -> Health:
        return _health("informed", runtime.informed())

    return router


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
            await PlainTextResponse(f"this port has GET {paths}\n", 404)(scope, receive, send)


def _health(what: str, found: Readiness) -> Health:
    if not found.ready:
        raise HTTPException(503, f"extender is not {what}: {found.detail}")
    return Health(detail=found.detail)
