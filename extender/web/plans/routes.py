"""The HTTP API of plans as FastAPI routes, for its OpenAPI description. The handler is in `handlers.py`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from extender.server.plans.requests import LARGEST_BODY, PlanRequest
from extender.web.error_answers import ErrorBody
from extender.web.errors import code_of
from extender.web.pages.schemas import described
from extender.web.plans.handlers import PlanHandlers

_TEXTS = {
    400: "a field, a manifest or a change that cannot be used; `field` names the field, the text the document",
    401: "no valid token (`server.inspect_authorization: kubernetes`)",
    403: "no right to `post` the non-resource URL /v1/plan",
    413: f"the body is larger than {LARGEST_BODY >> 20} MiB",
    422: "`PlanTimeout`, `PlanTooLarge`: the plan takes longer, or needs more memory, than the section `plans` allows",
    500: "a bug; the log says more",
    503: "`NotReady`: the cluster is not known yet; `Busy`: other plans are being made; `NoMemory`; or the API server "
    "cannot be read, or asked for rights",
}


class PlanBody(BaseModel):
    """The answer in the format json."""

    plan: dict[str, Any] = Field(description="Rows, totals, waves, warnings; docs/plan.md has the fields")
    difference: dict[str, Any] | None = Field(None, description="From the plan without the changes, with `compare`")
    graph: str | None = Field(None, description="SVG, with `graph`")


class _Wanted(BaseModel):
    model_config = ConfigDict(extra="forbid")

    format: str = Field("", max_length=20, description="Goes before the body's `format`")


def plan_routes(handlers: PlanHandlers) -> APIRouter:
    """Return the route."""
    router = APIRouter(tags=["plans"], responses={"4XX": {"model": ErrorBody}, "5XX": {"model": ErrorBody}})

    @router.post(
        "/v1/plan",
        summary="A plan: what would happen if something were applied, and why",
        response_model=PlanBody,
        responses=_refusals(),
        openapi_extra=_body(),
    )
    async def plan(request: Request, wanted: Annotated[_Wanted, Query()]) -> Response:
        """The scheduler that runs here makes all decisions, on a copy, until nothing more happens. Nothing changes."""
        return await handlers.plan(request, wanted.format)

    return router


def _body() -> dict[str, Any]:
    found = described(PlanRequest)
    text = {"schema": {"type": "string", "description": "The manifests alone"}}
    found["requestBody"]["content"]["application/yaml"] = text
    return found


def _refusals() -> dict[int | str, dict[str, Any]]:
    return {
        status: {"model": ErrorBody, "description": f"`{code_of(status)}`: {text}"} for status, text in _TEXTS.items()
    }
