"""The probes (probes.py) as FastAPI documents them, and serves them to requests that it has already."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from extender.server.views import Readiness
from extender.web.error_answers import ErrorBody
from extender.web.pages.probes import Probes


class Health(BaseModel):
    """All is well; `detail` may say more."""

    status: str = "ok"
    detail: str = ""


def health_routes(probes: Probes) -> APIRouter:
    """The routes of the probes."""
    router = APIRouter(tags=["health"], responses={503: {"model": ErrorBody}})

    @router.get("/livez", summary="Is the process worth keeping")
    async def livez() -> Health:
        return _health(probes.alive())

    @router.get("/readyz", summary="May kube-scheduler be served")
    async def readyz() -> Health:
        return _health(probes.ready())

    @router.get("/readyz/informed", summary="Does it know all that a leader must know")
    async def informed() -> Health:
        return _health(probes.informed())

    if "/readyz/claims" in probes.by_path:

        @router.get("/readyz/claims", summary="Are claims served")
        async def claims() -> Health:
            return _health(probes.by_path["/readyz/claims"]())

    if "/readyz/vpods" in probes.by_path:

        @router.get("/readyz/vpods", summary="Are vpods placed, or could they be if this replica led")
        async def vpods() -> Health:
            return _health(probes.by_path["/readyz/vpods"]())

    return router


def _health(found: Readiness) -> Health:
    if not found.ready:
        raise HTTPException(503, found.detail)
    return Health(detail=found.detail)
