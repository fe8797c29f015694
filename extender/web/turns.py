"""Turns of connections in the event loop, so that a client that sends much does not make others wait.

    data_received --little--> done at once
          |much: reading is paused, the rest waits with its connection
    Turns.add(connection) --> connection.turn() --more--> behind the others, and so on

A connection does one small piece of work a turn: it feeds some kilobytes to its parser, or answers one request. Turns
are taken for a millisecond in one iteration of the loop, however many connections wait, and at least one. What the loop
has to do otherwise (small requests of others, which are answered as they come) is done in between.

It also looks at every connection once a second, so that deadlines need no timer for each request.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from time import perf_counter
from typing import Final, Protocol
from weakref import WeakKeyDictionary

import structlog

_log = structlog.get_logger(__name__)

#: Seconds of one iteration of the event loop that all turns together may take.
SLICE: Final = 0.001
#: Connections whose little is handled where it is received, in one iteration of the event loop.
AT_ONCE: Final = 32
#: Bytes that are no longer little: reading stops after them until the connection had its turn. A transport would go on
#: reading from one connection for as long as there is something.
BULK: Final = 32 * 1024
#: Seconds between two looks at the deadlines of all connections.
LOOK_SECONDS: Final = 1.0


class Paced(Protocol):
    """A connection that takes turns."""

    def turn(self) -> bool:
        """Do one small piece of work; returns whether there is more to do."""

    def check(self, now: float) -> None:
        """End what is beyond its deadline; `now` is the event loop's time."""


class Turns:
    """The turns of one event loop. Used by its thread only."""

    def __init__(self) -> None:
        # Keys only: it finds out quickly whether somebody waits already, and keeps their order.
        self._waiting: OrderedDict[Paced, None] = OrderedDict()
        self._scheduled = False
        self._slice_over = False
        self._at_once = 0
        self._watched: set[Paced] = set()
        self._look: asyncio.TimerHandle | None = None

    @staticmethod
    def of_running_loop() -> Turns:
        """The turns of the event loop that runs."""
        loop = asyncio.get_running_loop()
        found = _turns.get(loop)
        if found is None:
            found = _turns[loop] = Turns()
        return found

    # -- turns ------------------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether connections wait for their turn."""
        return bool(self._waiting)

    def admits(self) -> bool:
        """Whether what came may be handled at once: for the first connections in an iteration of the loop."""
        if not self._at_once:
            asyncio.get_running_loop().call_soon(self._admit_again)
        self._at_once += 1
        return self._at_once <= AT_ONCE

    def _admit_again(self) -> None:
        self._at_once = 0

    def add(self, connection: Paced) -> None:
        """Give it a turn as soon as others had theirs. It may wait already."""
        self._waiting[connection] = None
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._take_turns)

    def end_slice(self) -> None:
        """The work that was begun goes on elsewhere in the loop (a task): no further turn in this iteration."""
        self._slice_over = True

    def _take_turns(self) -> None:
        self._slice_over = False
        ends = perf_counter() + SLICE
        while self._waiting and not self._slice_over:
            connection, _ = self._waiting.popitem(last=False)
            try:
                if connection.turn():
                    self._waiting[connection] = None
            except Exception:
                _log.exception("turn_failed")
            self._slice_over |= perf_counter() >= ends
        self._scheduled = bool(self._waiting)
        if self._scheduled:
            asyncio.get_running_loop().call_soon(self._take_turns)

    # -- deadlines --------------------------------------------------------------------------------------------------

    def watch(self, connection: Paced) -> None:
        """Look at its deadlines once a second, until `unwatch`."""
        self._watched.add(connection)
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_at_all)

    def unwatch(self, connection: Paced) -> None:
        self._watched.discard(connection)
        self._waiting.pop(connection, None)

    def _look_at_all(self) -> None:
        loop = asyncio.get_running_loop()
        self._look = loop.call_later(LOOK_SECONDS, self._look_at_all) if self._watched else None
        now = loop.time()
        for connection in tuple(self._watched):
            try:
                connection.check(now)
            except Exception:
                _log.exception("deadline_failed")


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()
