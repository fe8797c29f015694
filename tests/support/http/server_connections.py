"""What a running server holds for its clients, seen from a test beside its event loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from extender.web.http.server import ServerHandle

WAIT = 5.0


def connections(server: ServerHandle) -> list[Any]:
    """Its connections, as the objects that serve them."""
    return list(server._server.server_state.connections)


def connection(server: ServerHandle) -> Any:
    """The only one that there is, or will be soon."""
    until(lambda: len(connections(server)) == 1)
    return connections(server)[0]


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def later(connection: Any, seconds: float) -> None:
    """Lets it look at its deadlines as if so much time had gone by."""
    loop = getattr(connection, "loop", None) or connection._loop

    async def check() -> None:
        connection.check(loop.time() + seconds)

    asyncio.run_coroutine_threadsafe(check(), loop).result(WAIT)


@contextmanager
def held_loop(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """The event loop stands still in the block, and finds at its end all that was sent meanwhile."""
    held, released = threading.Event(), threading.Event()
    loop.call_soon_threadsafe(lambda: (held.set(), released.wait(WAIT)))
    assert held.wait(WAIT)
    try:
        yield
    finally:
        released.set()


@contextmanager
def nothing_stays(server: ServerHandle) -> Iterator[None]:
    """The connections that there are at the end of the block are closed by it; nothing may hold them after that.

    The garbage collector is switched off: what is in a reference cycle stays.
    """
    gc.collect()
    gc.disable()
    try:
        left: list[weakref.ref[Any]] = []
        kept = Kept(server, left)
        yield kept  # type: ignore[misc]
        until(lambda: not any(ref() for ref in left))
        assert left
    finally:
        gc.enable()


class Kept:
    def __init__(self, server: ServerHandle, left: list[weakref.ref[Any]]) -> None:
        self._server = server
        self._left = left

    def look(self, *parts: str) -> None:
        """Remember the connection, and those of its attributes."""
        found = connection(self._server)
        self._left.append(weakref.ref(found))
        self._left += [weakref.ref(getattr(found, part)) for part in parts]
