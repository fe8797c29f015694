"""Is it alive, is it ready: what kubelet and load balancers ask.

Alive means that the process is worth keeping; ready, that its answers are: every informer has delivered, every bound
pod is known again.
"""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from extender.runtime import Runtime
from extender.views import Readiness
from extender.web.errors import ErrorBody


class Health(BaseModel):
    """All is well; `detail` may say more."""

    status: str = "ok"
    detail: str = ""


def health_routes(runtime: Runtime, remark: Callable[[], str] = str) -> APIRouter:
    """`remark` says what an operator should look at although all is well: it becomes part of the detail of /readyz."""
    router = APIRouter(tags=["health"], responses={503: {"model": ErrorBody}})

    @router.get("/livez", summary="Is the process worth keeping")
    async def livez() -> Health:
        return _health("alive", runtime.liveness())

    @router.get("/readyz", summary="May kube-scheduler be served")
    async def readyz() -> Health:
        health = _health("ready", runtime.readiness())
        return Health(detail="; ".join(text for text in (health.detail, remark()) if text))

    return router


def _health(what: str, found: Readiness) -> Health:
    if not found.ready:
        raise HTTPException(503, f"extender is not {what}: {found.detail}")
    return Health(detail=found.detail)
