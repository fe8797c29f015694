"""Gives connections turns in the event loop, so that a client that sends much does not make others wait.

    data_received --little, and the loop has time (admits)--> done at once
          |much, or too many came together: reading is paused, the rest waits with its connection
    Turns.add(connection) --> connection.turn() --more--> behind the others, and so on

A connection does one small piece of work a turn: it feeds some kilobytes to its parser, or answers one request. In one
iteration of the loop all turns together take a millisecond, however many connections wait. The work that is done at
once is limited in the same way (for calls of verbs to twice as long). Calls have their turns before everything else,
which gets one turn at least. In both queues client addresses take turns.

It also checks every connection once a second, so that deadlines need no timer for each request.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Final, Protocol
from weakref import WeakKeyDictionary

import structlog

from extender.web.limits.rounds import Rounds

_log = structlog.get_logger(__name__)

#: Seconds that all turns together take in one iteration of the event loop, and as many for data that is handled at
#: once.
SLICE: Final = 0.001
#: Bytes from which on reading stops until the connection had its turn. A transport would go on reading from one
#: connection for as long as data is available.
BULK: Final = 32 * 1024
#: Seconds between two checks of the deadlines of all connections.
LOOK_SECONDS: Final = 1.0


class Paced(Protocol):
    """A connection that takes turns."""

    @property
    def address(self) -> str:
        """Address of the peer."""

    @property
    def has_call(self) -> bool:
        """Whether its next turn is for a verb, as far as that can be seen without work."""

    def turn(self) -> bool:
        """Do one small piece of work; returns whether there is more to do."""

    def check(self, now: float) -> None:
        """End what is beyond its deadline; `now` is the event loop's time."""


class Turns:
    """The turns of one event loop. Used by its thread only."""

    def __init__(self) -> None:
        self._calls: Rounds[str, Paced] = Rounds()
        self._others: Rounds[str, Paced] = Rounds()
        self._scheduled = False
        self._slice_over = False
        #: Loop time of the last iteration in which data arrived, and when the first of that data arrived.
        self._iteration = self._admitting_since = 0.0
        self._watched: set[Paced] = set()
        self._look: asyncio.TimerHandle | None = None

    @staticmethod
    def of_running_loop() -> Turns:
        """The turns of the running event loop."""
        loop = asyncio.get_running_loop()
        found = _turns.get(loop)
        if found is None:
            found = _turns[loop] = Turns()
        return found

    # -- turns ------------------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether connections wait for their turn."""
        return bool(self._calls) or bool(self._others)

    def admits(self, *, call: bool) -> bool:
        """Whether new data may be handled at once: within one slice of a loop iteration, for a call within two."""
        now, iteration = perf_counter(), asyncio.get_running_loop().time()
        # uvloop's clock stands still within an iteration, in milliseconds; without uvloop, everything is admitted. A
        # callback that marks the end of the iteration would cost every call a further one.
        if iteration != self._iteration:
            self._iteration, self._admitting_since = iteration, now
        return now - self._admitting_since <= (2 * SLICE if call else SLICE)

    def add(self, connection: Paced) -> None:
        """Queue a connection for a turn. It may be queued already."""
        self._line_up(connection)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._take_turns)

    def _line_up(self, connection: Paced) -> None:
        mine, other = (self._calls, self._others) if connection.has_call else (self._others, self._calls)
        other.discard(connection.address, connection)
        mine.add(connection.address, connection)

    def end_slice(self) -> None:
        """Give no further turn in this iteration: the work that was begun continues elsewhere in the loop (a task)."""
        self._slice_over = True

    def _take_turns(self) -> None:
        """Give turns to waiting connections for one slice of time, calls first; schedule itself again if any still
        wait."""
        ends = perf_counter() + SLICE
        for queue in (self._calls, self._others):
            self._slice_over = False
            while queue and not self._slice_over:
                self._give_turn(queue.pop())
                self._slice_over |= perf_counter() >= ends
        self._scheduled = self.is_busy
        if self._scheduled:
            asyncio.get_running_loop().call_soon(self._take_turns)

    def _give_turn(self, connection: Paced) -> None:
        try:
            if connection.turn():
                self._line_up(connection)
        except Exception:
            _log.exception("turn_failed")

    # -- deadlines --------------------------------------------------------------------------------------------------

    def watch(self, connection: Paced) -> None:
        """Check the connection's deadlines once a second, until `unwatch`."""
        self._watched.add(connection)
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_at_all)

    def unwatch(self, connection: Paced) -> None:
        self._watched.discard(connection)
        for queue in (self._calls, self._others):
            queue.discard(connection.address, connection)

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
