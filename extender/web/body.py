"""Reads a request's body, never more of it than allowed.

A body that is declared too large is not read at all, one that turns out too large only up to the limit. The rest is
thrown away by the HTTP server as it arrives, so that the caller gets its answer and may use the connection again.
"""

from __future__ import annotations

from starlette.requests import Request

from extender.web.errors import BadRequest

_MIB = 1 << 20


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body. Raises BadRequest (413) if it has more than `limit` bytes, ClientDisconnect if it breaks off."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise too_large(limit)
    chunks = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def too_large(limit: int) -> BadRequest:
    """The refusal of a body of more than `limit` bytes."""
    shown = f"{limit / _MIB:g} MiB" if limit >= _MIB else f"{limit} bytes"
    return BadRequest(
        f"body: larger than {shown}; use nodeCacheCapable: true, or raise server.max_body_mib", "body", status=413
    )
