"""Gives the committer its turns: in a thread of its own, or in an event loop that runs anyway.

    thread      turn, sleep until there is more to do, turn, ...
    event loop  a turn when the multiplexer is readable, when a command was queued, and when a time is up

A turn reads what has arrived, and sends what may be sent; it never blocks. In a process whose event loop answers calls,
a second thread that wakes up for each request and for each response takes the interpreter away from that loop some ten
times for each binding. Without it, a decision with its bind takes a fifth less CPU.

Promises: turns never overlap. If a decision that does not end blocks the loop, writes are delayed by no more than a
second or two: the thread then takes the turns, so that deadlines and the end of a term are kept.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from math import inf

from extender.kube.writes.multiplexer import HttpMultiplexer

#: Seconds that one turn in an event loop takes at most, if more than one request is ready.
_SLICE = 0.001
#: Seconds between two looks of the thread at a loop that has the turns, and since its last turn until the thread takes
#: one.
_LOOK, _HELD_UP = 0.5, 1.0


class Pilot:
    """Thread-safe. `enter_loop` is called in the loop.

    `launch(until)` sends what may be sent, until the queue is empty or that time on the monotonic clock has come; it
    returns whether there is more. `patience` returns for how many seconds there is nothing to send unless somebody
    calls `wake`, None: for ever. `is_over` says whether no turn is needed any more; `ended` is then called once, by the
    thread. `failed` is called with bugs in a turn.
    """

    def __init__(
        self,
        multiplexer: HttpMultiplexer,
        launch: Callable[[float], bool],
        patience: Callable[[], float | None],
        is_over: Callable[[], bool],
        ended: Callable[[], None],
        failed: Callable[[str, Exception], None],
    ) -> None:
        self._multiplexer = multiplexer
        self._launch = launch
        self._patience = patience
        self._is_over = is_over
        self._ended = ended
        self._failed = failed
        #: Held during a turn, also while the thread waits in it.
        self._turn_lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread = 0
        #: Whether a turn is scheduled in the loop, and the timer of a later one.
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._last_turn = 0.0
        self._left = threading.Event()
        #: Not started yet.
        self.thread = threading.Thread(target=self._run, name="commit", daemon=True)

    def wake(self) -> None:
        """There is something to do: soon there is a turn."""
        loop = self._loop
        if loop is None or threading.get_ident() != self._loop_thread:
            self._multiplexer.wake()
        elif not self._scheduled:
            self._scheduled = True
            loop.call_soon(self._launch_in_loop)

    # -- in a thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_over():
                if self._loop is None:
                    self._turn_in_thread()
                elif not self._left.wait(_LOOK) and time.monotonic() - self._last_turn > _HELD_UP:
                    self._stand_in()
        finally:
            self._ended()

    def _turn_in_thread(self) -> None:
        with self._turn_lock:
            self._launch(inf)
            self._multiplexer.sleeps = True
            self._launch(inf)
            if self._loop is None and not self._is_over():
                self._poll(self._patience())

    def _stand_in(self) -> None:
        with self._turn_lock:
            if self._loop is not None:
                self._turn(inf)

    def _poll(self, timeout: float | None, until: float = inf) -> None:
        try:
            self._multiplexer.poll(timeout, until)
        except Exception as error:
            self._failed("pilot failed", error)
            self._multiplexer.break_off()

    def _turn(self, until: float, *, reads: bool = True) -> bool:
        """Take a turn without waiting. Returns whether there was no time for everything."""
        if reads:
            self._poll(0.0, until)
        self._multiplexer.sleeps = True
        more = self._launch(until)
        self._last_turn = time.monotonic()
        return more

    # -- in an event loop -----------------------------------------------------------------------------------------

    def enter_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take the turns in this loop, which is the running one, until `leave_loop`."""
        self._left.clear()
        self._scheduled, self._timer = False, None
        self._loop, self._loop_thread = loop, threading.get_ident()
        self._multiplexer.wake()
        loop.add_reader(self._multiplexer.fileno(), self._turn_in_loop)
        self.wake()

    def leave_loop(self) -> None:
        """Take the turns in a thread again. In the loop, or once it has ended, this is at once; else soon."""
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._forget, loop, self._multiplexer.fileno())
        self._left.set()

    def _forget(self, loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
        loop.remove_reader(descriptor)
        if self._timer is not None:
            self._timer.cancel()

    def _launch_in_loop(self) -> None:
        """Send what was queued. The loop says by itself when there is something to read."""
        self._scheduled = False
        self._turn_in_loop(reads=False)

    def _turn_in_loop(self, *, reads: bool = True) -> None:
        with self._turn_lock:
            loop = self._loop
            if loop is None:
                return
            more = self._turn(time.monotonic() + _SLICE, reads=reads)
            wait = self._multiplexer.patience(self._patience())
        if more:
            self.wake()
        self._set_timer(loop, wait)

    def _set_timer(self, loop: asyncio.AbstractEventLoop, wait: float | None) -> None:
        """Have a turn after so many seconds. A timer that fires sooner stays: it costs less than another one."""
        if wait is None:
            return
        if self._timer is not None:
            if self._timer.when() <= loop.time() + wait:
                return
            self._timer.cancel()
        self._timer = loop.call_later(wait, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._turn_in_loop()
