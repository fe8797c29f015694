"""The HTTP API of claims as FastAPI routes, for its OpenAPI description. The handlers are in `handlers.py`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from extender.claims.codes import ClaimCode
from extender.claims.records import PoolKey
from extender.web.claims.bodies import (
    ClaimBody,
    ClaimListBody,
    ClaimRequest,
    PoolBody,
    PoolListBody,
    RenewRequest,
)
from extender.web.claims.handlers import ClaimHandlers, Keyed, Page, Wait, Which
from extender.web.claims.openapi import CLAIMING, CREATED, HOLDING, PREFER, refusals, takes
from extender.web.error_answers import ErrorBody


def claim_routes(handlers: ClaimHandlers) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["claims"], responses={"4XX": {"model": ErrorBody}, "5XX": {"model": ErrorBody}})

    @router.post(
        "/v1/pools/{namespace}/{pool}/claims",
        summary="Claim pods of a pool",
        response_model=ClaimBody,
        status_code=201,
        responses={**CREATED, **refusals(CLAIMING, has_body=True)},
        openapi_extra={"parameters": [PREFER], **takes(ClaimRequest)},
    )
    async def claim(request: Request, namespace: str, pool: str) -> Response:
        """The answer comes when the request has its pods, or has failed. With `Prefer: respond-async` it comes at once,
        with `Prefer: respond-async, wait=5` after five seconds at the latest: 202 with the position in the queue, and
        in `Location` the address at which to ask for the result."""
        return await handlers.claim(request, namespace, pool)

    @router.get(
        "/v1/pools", summary="All pools: pods and waiting requests", response_model=PoolListBody, responses=refusals()
    )
    async def pools(request: Request, which: Annotated[Which, Query()]) -> Response:
        return await handlers.pools(request, which.namespace)

    @router.get(
        "/v1/pools/{namespace}/{pool}",
        summary="A pool, with its queue by tenant",
        response_model=PoolBody,
        responses=refusals([ClaimCode.UNKNOWN_POOL]),
    )
    async def pool(request: Request, namespace: str, pool: str) -> Response:
        return await handlers.pool(request, namespace, pool)

    @router.get(
        "/v1/pools/{namespace}/{pool}/claims",
        summary="The claims of a pool",
        response_model=ClaimListBody,
        responses=refusals(),
    )
    async def claims(request: Request, namespace: str, pool: str, page: Annotated[Page, Query()]) -> Response:
        return await handlers.claims(request, namespace, pool, page)

    @router.delete(
        "/v1/pools/{namespace}/{pool}/claims",
        summary="Release the claim with a key, or cancel its request",
        response_model=ClaimBody,
        responses=refusals(HOLDING),
    )
    async def release_by_key(
        request: Request, namespace: str, pool: str, wanted: Annotated[Keyed, Query()]
    ) -> Response:
        """For a caller that did not get the answer to its request, and therefore knows no id. 404: no claim or request
        has this key now, but a request that is still on its way can arrive later."""
        return await handlers.release_by_key(request, PoolKey(namespace, pool), wanted)

    @router.get(
        "/v1/claims/{claim}",
        summary="A claim, or how its request ended",
        response_model=ClaimBody,
        responses=refusals([ClaimCode.UNKNOWN_CLAIM, ClaimCode.NOT_READY]),
    )
    async def get(request: Request, claim: str, wanted: Annotated[Wait, Query()]) -> Response:
        return await handlers.get(request, claim, wanted.wait)

    @router.post(
        "/v1/claims/{claim}/renew",
        summary="Renew a claim's lease",
        response_model=ClaimBody,
        responses=refusals(HOLDING, has_body=True),
        openapi_extra=takes(RenewRequest),
    )
    async def renew(request: Request, claim: str) -> Response:
        """The claim lasts `lease_seconds` from now, and never shorter than before."""
        return await handlers.renew(request, claim)

    @router.post(
        "/v1/claims/{claim}/release",
        summary="Release a claim, or cancel its request",
        response_model=ClaimBody,
        responses=refusals(HOLDING),
    )
    async def release(request: Request, claim: str) -> Response:
        return await handlers.release(request, claim)

    @router.delete(
        "/v1/claims/{claim}",
        summary="Release a claim, or cancel its request",
        response_model=ClaimBody,
        responses=refusals(HOLDING),
    )
    async def delete(request: Request, claim: str) -> Response:
        return await handlers.release(request, claim)

    return router
