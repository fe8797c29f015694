"""The page of a replay with the pods that have a scheduling gate: a live server learns of them in start-up ordering."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field
from starlette.responses import Response

from extender.server.views import HeldBack
from extender.web.error_answers import ErrorBody
from extender.web.errors import JSON
from extender.web.limits.pool import Pool
from extender.web.pages.inspect import ExplanationBody, PodListBody, explanation_body, pod_list


class HeldBackBody(PodListBody):
    """Pods with a scheduling gate."""

    unknown: str = Field(description="A sentence about those that the recording does not have; empty if it has all")


def replayed_explanation(held: HeldBack, namespace: str, pod: str) -> ExplanationBody | None:
    """Return why a pod was held back; None: it was not."""
    found = held.find(namespace, pod)
    return None if found is None else explanation_body(found)


def held_back_routes(held: HeldBack, pool: Pool) -> APIRouter:
    router = APIRouter(tags=["people"], responses={"4XX": {"model": ErrorBody}})

    @router.get("/v1/inspect/held-back", summary="Pods with a scheduling gate", response_model=HeldBackBody)
    @pool.page
    def held_back() -> Response:
        body = HeldBackBody(items=pod_list(held.pods).items, unknown=held.unknown)
        return Response(body.model_dump_json(by_alias=True) + "\n", media_type=JSON)

    return router
