"""The page that Prometheus scrapes: /metrics, in the format that it asks for."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request
from starlette.responses import PlainTextResponse, Response

from extender.web.limits.pool import Pool
from extender.web.pages.metrics import Metrics, encoder


def scrape_routes(shown: Metrics) -> APIRouter:
    """The route of these metrics. Scrapes have a thread of their own."""
    router = APIRouter(tags=["health"])
    pool = Pool("scrapes", threads=1)

    @router.get("/metrics", summary="Metrics for Prometheus", response_class=PlainTextResponse)
    async def metrics(request: Request) -> Response:
        encode, content_type = encoder(request.headers.get("accept", ""))
        body = await pool.run(content_type, partial(encode, shown.registry))
        return Response(body, headers={"content-type": content_type})

    return router
