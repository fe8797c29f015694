"""Reads a request's body, and never more of it than allowed.

A body that is declared too large is not read at all; one that turns out too large is read only up to the limit. The
HTTP server discards the rest as it arrives, so that the caller gets its answer and may reuse the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extender.web.errors import BadRequest
from extender.web.limits.budget import Budget

if TYPE_CHECKING:
    from starlette.requests import Request

_MIB = 1 << 20
#: What makes the bodies of kube-scheduler's verbs smaller.
_SHRINK = "use nodeCacheCapable: true, or raise server.max_body_mib"


class _Body:
    """The received part of a body, counted in the budget of all bodies."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.received = bytearray()
        self.held = 0
        self.is_given_up = False

    def give_up(self) -> None:
        self.is_given_up = True
        self.received = bytearray()


async def read_body(request: Request, limit: int, bodies: Budget, advice: str = _SHRINK) -> bytes:
    """Return the whole body.

    Raises BadRequest if it has more than `limit` bytes (413, with the `advice`), or if the budget `bodies` has no more
    room for incomplete bodies (503). Raises ClientDisconnect if the client disconnects before the end.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large(limit, advice)
    body = _Body(request.client.host if request.client else "")
    try:
        async for chunk in request.stream():
            if body.is_given_up:
                raise crowded()
            body.received += chunk
            if len(body.received) > limit:
                raise too_large(limit, advice)
            bodies.hold(body, len(body.received))
        if body.is_given_up:
            raise crowded()
        return bytes(body.received)
    finally:
        bodies.hold(body, 0)


def crowded() -> BadRequest:
    """The refusal of a body that the budget of all incomplete bodies has no room for."""
    return BadRequest("body: too many requests are being received at the same time; try again", "body", status=503)


def too_large(limit: int, advice: str = _SHRINK) -> BadRequest:
    """The refusal of a body of more than `limit` bytes."""
    shown = f"{limit / _MIB:g} MiB" if limit >= _MIB else f"{limit} bytes"
    return BadRequest(f"body: larger than {shown}" + (f"; {advice}" if advice else ""), "body", status=413)
