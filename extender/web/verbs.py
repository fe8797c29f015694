"""kube-scheduler's verbs: filter, prioritize, preempt, bind.

    bytes --body.py--> bytes --wire.py--> request --runtime--> answer --answers.py--> bytes

This is the hot path: kube-scheduler stands still while filter is answered. Hence no pydantic, no thread pool, nothing
that waits, except for bind, which kube-scheduler calls beside its loop.

Who is not ready ends the connection with its answer: kube-scheduler keeps connections for as long as they are used, and
would go on asking a replica that leads no more, whatever the Service says.

How a verb fails follows from what kube-scheduler reads. filter and bind always answer 200 with their Error field, as
the body of anything else is thrown away unread. prioritize and preempt have no such field and answer 4xx or 5xx.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import NamedTuple

import structlog
from fastapi import APIRouter
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from extender.runtime import Runtime
from extender.web.answers import (
    encode_bind,
    encode_bind_error,
    encode_filter,
    encode_filter_error,
    encode_preempt,
    encode_prioritize,
)
from extender.web.body import read_body
from extender.web.errors import JSON, BadRequest, error_response
from extender.web.metrics import Metrics
from extender.web.schemas import documented
from extender.web.wire import decode_bind, decode_offer, decode_preempt

#: Where the verbs are found; users of HiveD have theirs under the second.
PREFIXES = ("", "/v1/extender")

_log = structlog.get_logger(__name__)


class Unavailable(Exception):  # noqa: N818
    """The verb cannot be served now, and its answer has no field to say so in: 503, with the text for logs."""


class Verb(NamedTuple):
    """One verb: how it is served, and how it says an error inside of a 200 (None: it cannot)."""

    name: str
    serve: Callable[[Runtime, bytes], Awaitable[bytes]]
    encode_error: Callable[[str], bytes] | None


async def _filter(runtime: Runtime, body: bytes) -> bytes:
    offer = decode_offer(body)
    return encode_filter(runtime.filter(offer.pod, offer.nodes), offer)


async def _prioritize(runtime: Runtime, body: bytes) -> bytes:
    offer = decode_offer(body)
    return encode_prioritize(runtime.prioritize(offer.pod, offer.nodes), offer.names)


async def _preempt(runtime: Runtime, body: bytes) -> bytes:
    request = decode_preempt(body)
    answer = runtime.preempt(request.pod, request.candidates)
    if answer.error:
        raise Unavailable(answer.reason.text if answer.reason else "extender cannot tell whom to evict")
    return encode_preempt(answer, request)


async def _bind(runtime: Runtime, body: bytes) -> bytes:
    outcome = runtime.bind(*decode_bind(body))
    # Shielded: when the server shuts down, the write goes on, and its outcome must still reach the heart.
    return encode_bind(await asyncio.shield(asyncio.wrap_future(outcome)))


VERBS = (
    Verb("filter", _filter, encode_filter_error),
    Verb("prioritize", _prioritize, None),
    Verb("preempt", _preempt, None),
    Verb("bind", _bind, encode_bind_error),
)


#: Answers one request whatever happens: it raises nothing.
Endpoint = Callable[[Request], Awaitable[Response]]


class Verbs:
    """All verbs under all prefixes; a body may have `max_body` bytes. `endpoints` are what is posted to, by path."""

    def __init__(self, runtime: Runtime, metrics: Metrics, *, max_body: int) -> None:
        served = {verb.name: _endpoint(verb, runtime, metrics, max_body) for verb in VERBS}
        self.endpoints = {f"{prefix}/{name}": served[name] for prefix in PREFIXES for name in served}

    def routes(self) -> APIRouter:
        """The same for FastAPI, which documents them."""
        router = APIRouter(tags=["kube-scheduler"])
        for path, endpoint in self.endpoints.items():
            prefix, _, name = path.rpartition("/")
            router.add_api_route(path, endpoint, methods=["POST"], **documented(name, prefix))
        return router


def _endpoint(verb: Verb, runtime: Runtime, metrics: Metrics, max_body: int) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        started = perf_counter()
        response = await _answer(verb, runtime, request, max_body)
        if not runtime.readiness().ready:
            response.headers["connection"] = "close"
        metrics.observe(verb.name, response.status_code, perf_counter() - started)
        return response

    return endpoint


async def _answer(verb: Verb, runtime: Runtime, request: Request, max_body: int) -> Response:
    try:
        body = await read_body(request, max_body)
        return Response(await verb.serve(runtime, body), media_type=JSON)
    except BadRequest as error:
        _log.warning("bad_request", verb=verb.name, field=error.field, error=error.text)
        return _refusal(verb, error.status, error.text, error.field)
    except Unavailable as error:
        return error_response(503, str(error), None)
    except ClientDisconnect:
        return _refusal(verb, 400, "body: connection closed before its end", "body")
    except Exception as error:
        _log.exception("verb_failed", verb=verb.name)
        text = f"extender failed to serve {verb.name}: {type(error).__name__}; its log says more"
        return _refusal(verb, 500, text, None)


def _refusal(verb: Verb, status: int, text: str, field: str | None) -> Response:
    if verb.encode_error is None:
        return error_response(status, text, field)
    return Response(verb.encode_error(text), media_type=JSON)
