"""Whether a peer has ended its side of the connection, asked right before an answer is sent.

The event loop notices the end of a connection when it reads it, and tells the protocol an iteration later. An answer
that is sent in between is dropped, or goes to nobody. So the kernel is asked, too: it knows once the end has arrived.

A peer that has shut down only its sending half has left as well. The event loop closes such a connection when it reads
the end, as Go's server cancels such a request, and the answer must not depend on which comes first.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

#: The ASGI extension whose value returns whether the peer has left. Every middleware hands the scope on.
_HAS_LEFT: Final = "waggle.has_left"
#: The peer sends nothing more; both halves are over; it was reset. Elsewhere than on Linux POLLHUP means the first.
_ENDED: Final = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


def has_left(transport: asyncio.Transport) -> bool:
    """Return whether the event loop or the kernel knows that the peer has ended its side.

    Data that waits to be read, such as a further request, does not hide that, as it would from a look at the next byte.
    With TLS the end of the TCP connection counts; a `close_notify` without it only once the event loop has read it.
    """
    if transport.is_closing():
        return True
    connection = transport.get_extra_info("socket")
    if connection is None or connection.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), _ENDED)
    return bool(poll.poll(0))


def departure_extension(transport: asyncio.Transport) -> dict[str, Callable[[], bool]]:
    """Return the `extensions` of the ASGI scopes of one connection."""
    return {_HAS_LEFT: partial(has_left, transport)}


def has_peer_left(scope: Mapping[str, Any]) -> bool:
    """Return whether the peer of a request has left; False if its server does not say."""
    asked: Callable[[], bool] | None = (scope.get("extensions") or {}).get(_HAS_LEFT)
    return asked is not None and asked()
