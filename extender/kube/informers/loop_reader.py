"""Reads watches in an event loop that runs anyway, for the threads that would otherwise wait for them.

    thread: read --> sleeps ................................................ --> returns
    loop:        `--> step, whenever data has arrived --NEVER, or it raised--^
                                                      --loop left------------^

In a process whose event loop answers calls, a thread that wakes up for each watch event takes the interpreter away from
that loop, and the loop then waits until the event is handled: that costs as much as the event itself. In the loop,
events that arrive during a call are handled together after it.

Promises: steps never overlap, and what a step raises is raised in the thread. If something holds the loop up for more
than a second or two, the thread takes the steps. A step is short, so calls are delayed by no more than a millisecond.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
from collections.abc import Callable
from enum import Enum, auto

#: Seconds between two looks of the thread at the loop, and since the last step until the thread takes one.
_LOOK, _HELD_UP = 0.5, 1.0


class Next(Enum):
    """When the next step is due."""

    #: When more data has arrived.
    ON_DATA = auto()
    #: Soon, also if nothing arrives.
    SOON = auto()
    #: Never: there is nothing more to read, or nothing that the loop should do.
    NEVER = auto()


Step = Callable[[], Next]


class LoopReader:
    """Thread-safe. One serves any number of threads; each blocks in `read`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._readings: set[_Reading] = set()

    @property
    def has_loop(self) -> bool:
        return self._loop is not None

    def enter_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read in this loop until `leave_loop`. A thread that waits for data comes over with the next piece."""
        self._loop = loop

    def leave_loop(self) -> None:
        """Have the threads read themselves again. Idempotent."""
        with self._lock:
            self._loop = None
            left = tuple(self._readings)
        for reading in left:
            reading.over.set()

    def read(self, descriptor: int, step: Step, left: Callable[[], float]) -> None:
        """Take a step whenever the descriptor is readable. Return at the end, when the loop was left, or when no time
        is `left` (seconds). Raise what a step raises."""
        with self._lock:
            if (loop := self._loop) is None:
                return
            reading = _Reading(loop, descriptor, step)
            self._readings.add(reading)
        try:
            reading.begin()
            while (seconds := left()) > 0 and not reading.over.wait(min(_LOOK, seconds)):
                reading.stand_in()
        finally:
            with self._lock:
                self._readings.discard(reading)
            reading.end()
        if reading.error is not None:
            raise reading.error


class _Reading:
    """One connection that is read in the loop. `over` is set when the thread has to go on."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int, step: Step) -> None:
        self.over = threading.Event()
        self.error: BaseException | None = None
        self._loop = loop
        #: A descriptor of our own: the loop may learn later than the connection is closed, and its number used again.
        self._descriptor = os.dup(descriptor)
        self._step = step
        #: Held during a step.
        self._turn = threading.Lock()
        self._ended = False
        self._scheduled = False
        self._last = time.monotonic()

    # -- in the thread ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._enter)
        except RuntimeError:  # the loop is closed
            self.over.set()

    def stand_in(self) -> None:
        """Take a step if the loop does not."""
        if time.monotonic() - self._last <= _HELD_UP:
            return
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        if poll.poll(0):
            with self._turn:
                self._take_step()

    def end(self) -> None:
        """Take no further step: the thread goes on."""
        with self._turn:
            self._ended = True
        try:
            self._loop.call_soon_threadsafe(self._forget)
        except RuntimeError:  # the loop is closed
            self._close()

    # -- in the loop ------------------------------------------------------------------------------------------------

    def _enter(self) -> None:
        if not self._ended:
            self._loop.add_reader(self._descriptor, self._on_data)
            self._soon()  # TLS may have decrypted something already

    def _on_data(self) -> None:
        if self._scheduled:
            return
        with self._turn:
            more = self._take_step()
        if self._ended:
            self._unwatch()
        elif more:
            self._soon()

    def _soon(self) -> None:
        self._scheduled = True
        self._loop.call_soon(self._run_scheduled)

    def _run_scheduled(self) -> None:
        self._scheduled = False
        self._on_data()

    def _forget(self) -> None:
        self._unwatch()
        self._close()

    def _unwatch(self) -> None:
        if self._descriptor >= 0:
            self._loop.remove_reader(self._descriptor)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)

    # -- in both, under the lock ------------------------------------------------------------------------------------

    def _take_step(self) -> bool:
        """Returns whether the next step is due without more data."""
        if self._ended:
            return False
        try:
            due = self._step()
        except BaseException as error:
            self.error, due = error, Next.NEVER
        self._last = time.monotonic()
        if due is Next.NEVER:
            self._ended = True
            self.over.set()
        return due is Next.SOON
