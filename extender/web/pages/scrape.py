"""The page that Prometheus scrapes: /metrics, in the format that it asks for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fastapi import APIRouter, Request
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.responses import PlainTextResponse, Response

from extender.web.limits.pool import Pool
from extender.web.pages.metrics import Metrics


def scrape_routes(shown: Metrics) -> APIRouter:
    """The route of these metrics. Scrapes have a thread of their own."""
    router = APIRouter(tags=["health"])
    pool = Pool("scrapes", threads=1)

    @router.get("/metrics", summary="Metrics for Prometheus", response_class=PlainTextResponse)
    async def metrics(request: Request) -> Response:
        encode, content_type = _encoder(request.headers.get("accept", ""))
        body = await pool.run(content_type, partial(encode, shown.registry))
        return Response(body, headers={"content-type": content_type})

    return router


def _encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """The encoder of the requested format; the usual one if the requested version is invalid."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):
        return choose_encoder("")
