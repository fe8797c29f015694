"""The HTTP API of vpods as FastAPI routes, for its OpenAPI description. The handlers are in `handlers.py`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from extender.web.error_answers import ErrorBody
from extender.web.errors import code_of
from extender.web.pages.schemas import described
from extender.web.vpods.answers import ExplanationBody, PlanBody
from extender.web.vpods.bodies import ExplainRequest, PlanRequest, SetDetailBody, SetListBody
from extender.web.vpods.handlers import Asked, Page, VPodHandlers, Which

_TEXTS = {
    400: "a field or a parameter that cannot be served; `field` names it",
    401: "no valid token (`server.inspect_authorization: kubernetes`)",
    403: "no right to see sets of this namespace",
    404: "`UnknownSet`: there is no such set; `UnknownVPod`: it has no such vpod. The text names those that are there",
    413: "the body is larger than 512 KiB",
    500: "a bug; the log says more",
    503: "`NotReady`: the sets are not known yet; or too many dry runs are asked for, or rights cannot be reviewed",
}


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The statuses of a call that is not served."""
    return {
        status: {"model": ErrorBody, "description": f"`{code_of(status)}`: {_TEXTS[status]}"}
        for status in sorted({400, 401, 403, 500, 503, *statuses})
    }


def vpod_routes(handlers: VPodHandlers) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["vpods"], responses={"4XX": {"model": ErrorBody}, "5XX": {"model": ErrorBody}})

    @router.get(
        "/v1/vpods",
        summary="All sets of vpods, in numbers",
        response_model=SetListBody,
        responses=_refusals(),
    )
    async def sets(request: Request, which: Annotated[Which, Query()]) -> Response:
        return await handlers.sets(request, which.namespace)

    @router.get(
        "/v1/vpods/{namespace}/{name}",
        summary="A set of vpods: its pods, and its vpods by the page",
        response_model=SetDetailBody,
        responses=_refusals(404),
    )
    async def one(request: Request, namespace: str, name: str, page: Annotated[Page, Query()]) -> Response:
        return await handlers.one(request, namespace, name, page)

    @router.post(
        "/v1/vpods/{namespace}/{name}/plan",
        summary="A dry run: what would happen to a set if something changed",
        response_model=PlanBody,
        responses=_refusals(404, 413),
        openapi_extra=described(PlanRequest),
    )
    async def plan(request: Request, namespace: str, name: str) -> Response:
        """The engine's own code runs on a copy of the set, in a simulated cluster, until it comes to rest. Nothing
        changes. All changes of the body happen at once; writes succeed, and new pods start at once."""
        return await handlers.plan(request, namespace, name)

    @router.get(
        "/v1/vpods/{namespace}/{name}/explain",
        summary="Why a vpod is where it is, why it waits, and what would help",
        response_model=ExplanationBody,
        responses=_refusals(404),
    )
    async def explain(request: Request, namespace: str, name: str, asked: Annotated[Asked, Query()]) -> Response:
        return await handlers.explain(request, namespace, name, asked.vpod)

    @router.post(
        "/v1/vpods/{namespace}/{name}/explain",
        summary="Why a vpod is where it is, why it waits, and what would help",
        response_model=ExplanationBody,
        responses=_refusals(404, 413),
        openapi_extra=described(ExplainRequest),
    )
    async def explain_posted(request: Request, namespace: str, name: str) -> Response:
        return await handlers.explain(request, namespace, name, None)

    return router
