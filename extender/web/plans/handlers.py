"""The handler of `POST /v1/plan`. docs/plan.md explains plans; /openapi.json has every field.

The server's own process receives the bytes of the request, and passes on those of the answer: the request is read, the
plan made and the answer written by a process of its own. A caller that disconnects ends it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from extender.server.plans.child import Child
from extender.server.plans.frames import Answer
from extender.server.plans.requests import LARGEST_BODY
from extender.web.errors import BadRequest
from extender.web.limits.budget import Budget
from extender.web.limits.pool import Pool
from extender.web.plans.callers import PlanCallers
from extender.web.verbs.body import read_body

#: nginx's status for a caller that has disconnected. It appears in metrics only.
_GONE = 499
#: One plan is made at a time; a second caller waits for its turn for some seconds, and others are refused at once.
_THREADS, _WAITING = 2, 4
_RETRY_SECONDS = 3.0


class PlanSource(Protocol):
    """What is served: `extender.server.plans.service.PlanService`."""

    def plan(self, body: bytes, *, is_yaml: bool = False, format_: str = "", child: Child | None = None) -> Answer: ...


class PlanHandlers:
    """The handlers of one app, in its event loop."""

    def __init__(self, service: PlanSource, callers: PlanCallers, bodies: Budget) -> None:
        self._service = service
        self._callers = callers
        self._bodies = bodies
        self._pool = Pool("plans", _THREADS, _WAITING)

    async def plan(self, request: Request, wanted: str) -> Response:
        """`wanted` is the format of the answer; "": as the body says."""
        try:
            await self._callers.check(request)
            body = await read_body(request, LARGEST_BODY, self._bodies, advice="")
        except ClientDisconnect:
            return Response(status_code=_GONE)
        is_yaml = "yaml" in request.headers.get("content-type", "")
        answer = await self._answer(request, body, is_yaml=is_yaml, format_=wanted)
        if answer is None:
            return Response(status_code=_GONE)
        if answer.error:
            after = _RETRY_SECONDS if answer.status == 503 else None
            raise BadRequest(answer.error, answer.field, status=answer.status, code=answer.code, retry_after=after)
        return Response(answer.body, 200, media_type=answer.media, headers=_HEADERS)

    async def _answer(self, request: Request, body: bytes, *, is_yaml: bool, format_: str) -> Answer | None:
        """The answer; None if the caller disconnects, which ends the plan."""
        child = Child()
        work = partial(self._service.plan, body, is_yaml=is_yaml, format_=format_, child=child)
        made = asyncio.ensure_future(self._pool.run(child, work))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait((made, gone), return_when=asyncio.FIRST_COMPLETED)
            return made.result() if made.done() else None
        finally:
            gone.cancel()
            if not made.done():
                child.cancel()


#: What the browser makes of a picture or a text that names what strangers wrote: nothing.
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'",
}


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
