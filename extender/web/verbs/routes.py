"""The verbs as FastAPI routes: documented, and for the requests that do not take the fast path (protocol.py)."""

from __future__ import annotations

import asyncio
from functools import partial
from time import perf_counter

from fastapi import APIRouter
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from extender.web.errors import JSON, BadRequest
from extender.web.pages.schemas import documented
from extender.web.verbs.body import read_body
from extender.web.verbs.handler import Reply, VerbHandler, Verbs


def verb_routes(verbs: Verbs) -> APIRouter:
    """The verbs under all prefixes."""
    router = APIRouter(tags=["kube-scheduler"])
    for path, handler in verbs.endpoints.items():
        prefix, _, name = path.rpartition("/")
        router.add_api_route(path, _Route(handler).respond, methods=["POST"], **documented(name, prefix))
    return router


class _Route:
    def __init__(self, handler: VerbHandler) -> None:
        self._handler = handler

    async def respond(self, request: Request) -> Response:
        """Serve the verb. If this is called off, a write goes on, and its outcome is still heard."""
        handler, started = self._handler, perf_counter()
        try:
            body = await read_body(request, handler.max_body, handler.bodies)
        except BadRequest as error:
            reply = handler.refuse(error, started)
        except ClientDisconnect:
            reply = handler.refuse_disconnected(started)
        else:
            loop = asyncio.get_running_loop()
            answered: asyncio.Future[Reply] = loop.create_future()
            handler.answer(body, partial(_resolve, answered), loop.call_soon_threadsafe)
            reply = await answered
        headers = {"connection": "close"} if reply.close else None
        return Response(reply.body, reply.status, headers, media_type=JSON)


def _resolve(answered: asyncio.Future[Reply], reply: Reply) -> None:
    if not answered.done():
        answered.set_result(reply)
