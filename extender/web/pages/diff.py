"""Compares the cache with the API server on demand: reports the differences, which the comparison has repaired."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response

from extender.scheduling.comparison import Difference
from extender.server.cache_comparer import CacheComparer, CompareError
from extender.web.error_answers import ErrorBody
from extender.web.errors import JSON
from extender.web.limits.pool import Pool


class DifferenceBody(BaseModel):
    """One object about which the cache was wrong. It is right now."""

    resource: str = Field(description="nodes or pods")
    kind: str = Field(description="phantom (does not exist), missing (not known), misplaced (elsewhere) or outdated")
    namespace: str
    name: str
    uid: str
    detail: str


class DiffBody(BaseModel):
    items: list[DifferenceBody] = Field(description="What differed; empty is normal")


def diff_routes(comparer: CacheComparer) -> APIRouter:
    router = APIRouter(tags=["people"], responses={"5XX": {"model": ErrorBody}})
    #: It waits for the API server, which may hang; only one comparison can run at a time.
    pool = Pool("comparisons", threads=1)

    @router.get(
        "/v1/inspect/cache/diff",
        summary="The cache held against a live list; heals what differs",
        response_model=DiffBody,
    )
    @pool.page
    def diff() -> Response:
        try:
            found = comparer.run()
        except CompareError as error:
            raise HTTPException(503, f"the API server cannot be read: {error}") from error
        body = DiffBody(items=[_body(difference) for difference in found])
        return Response(body.model_dump_json(), media_type=JSON)

    return router


def _body(found: Difference) -> DifferenceBody:
    return DifferenceBody(
        resource=found.resource,
        kind=found.kind.value,
        namespace=found.namespace,
        name=found.name,
        uid=found.uid,
        detail=found.detail,
    )
