"""Writes to an HTTP/1.1 peer: the transport's methods as uvicorn calls them, and a bound for the data that waits.

A transport buffers whatever it is given, and TLS copies it. So it gets a little at a time; the rest waits here, counted
in the server's budget for answers, and the connection begins no further request meanwhile (`is_full`). `stalled_since`
says since when a peer has taken nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from extender.web.limits.budget import Budget

#: Bytes that a transport is given at once, and in one iteration of the loop.
STEP: Final = 64 * 1024
_AT_ONCE: Final = 16 * STEP


class _Gone(asyncio.Transport):
    """Replaces a transport that has ended, so that no reference keeps it in memory."""

    def is_closing(self) -> bool:
        return True

    def get_extra_info(self, _name: str, default: Any = None) -> Any:
        return default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def close(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


GONE: Final = _Gone()


class Outlet(asyncio.Transport):
    """Stands for `transport`. `on_change` is called when the outlet becomes full, or has room again."""

    def __init__(
        self, transport: asyncio.Transport, budget: Budget, on_change: Callable[[], None], client: str
    ) -> None:
        super().__init__()
        self.client = client
        self._transport = transport
        self._budget = budget
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[memoryview] = deque()
        self._paused = False
        self._draining = False
        #: Bytes that wait.
        self.held = 0
        self._closing_since: float | None = None
        self._moved_at = 0.0

    @property
    def is_full(self) -> bool:
        """Whether the peer has yet to take its data."""
        return self._paused or bool(self._unsent)

    def stalled_since(self) -> float | None:
        """Loop time at which the peer last took data, or was asked to close; None if nothing waits for it."""
        if self.is_full:
            return self._moved_at
        return self._closing_since

    # -- as a transport ---------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing_since is not None:
            return
        if len(data) <= STEP and not self._unsent and not self._paused:
            self._transport.write(data)
            return
        if not self.is_full:
            self._moved_at = self._loop.time()
        self._unsent.append(memoryview(data))
        self._budget.hold(self, self.held + len(data))
        if not self._draining:
            self._drain()

    def close(self) -> None:
        """Close the connection once everything is sent."""
        if self._closing_since is None:
            self._closing_since = self._loop.time()
            if self._unsent:
                self.pause_reading()
            else:
                self._transport.close()

    def abort(self) -> None:
        self._drop()
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._closing_since is not None or self._transport.is_closing()

    def pause_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.is_closing():
            self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self.held + self._transport.get_write_buffer_size()

    # -- as a holder, and for its protocol ----------------------------------------------------------------------------

    def give_up(self) -> None:
        self.abort()

    def pause_writing(self) -> None:
        """The transport is full."""
        if not self.is_full:
            self._moved_at = self._loop.time()
        self._paused = True
        self._on_change()

    def resume_writing(self) -> None:
        self._paused = False
        self._moved_at = self._loop.time()
        self._drain()

    def lost(self) -> None:
        """The connection has ended."""
        self._drop()
        self._closing_since = self._closing_since or 0.0
        self._transport = GONE
        self._on_change = _nothing

    def _drop(self) -> None:
        self._unsent.clear()
        self._budget.hold(self, 0)

    def _drain(self) -> None:
        """Write as much as the transport takes, but not all at once: a fast peer must not block the loop, either."""
        self._draining = True  # `write` may call `pause_writing`, which is checked below
        moved = 0
        while self._unsent and not self._paused and moved < _AT_ONCE:
            piece = self._unsent.popleft()
            if len(piece) > STEP:
                self._unsent.appendleft(piece[STEP:])
                piece = piece[:STEP]
            self._transport.write(piece)
            moved += len(piece)
        self._draining = False
        if moved:
            self._moved_at = self._loop.time()
            self._budget.hold(self, max(self.held - moved, 1) if self._unsent else 0)
        if self._unsent and not self._paused:
            self._draining = True
            self._loop.call_soon(self._drain)
        elif not self._unsent and self._closing_since is not None:
            self._transport.close()
        self._on_change()


def limit_read_buffer(transport: asyncio.Transport) -> None:
    """Limit TLS's buffer: while reading is paused, it goes on to receive, half a megabyte by default."""
    limit = getattr(transport, "set_read_buffer_limits", None)
    if limit is not None:
        limit(high=STEP)


def _nothing() -> None:
    pass
