"""Bounds what answers that cost much CPU time may take together, however often they are asked for.

One at a time is made, and all together take 1/SHARE of the time of one core. A caller that would wait for longer than
PATIENCE is refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: One core's time, divided by what answers may take of it.
SHARE = 2
#: Seconds that a caller waits for its turn.
PATIENCE = 3.0


class PlannerBusy(Exception):  # noqa: N818 - what happened, as LoopBusy
    """Other callers have used up the CPU time for answers. `seconds`: how long to wait before another try."""

    def __init__(self, seconds: float) -> None:
        super().__init__("too many dry runs are asked for at once; try again")
        self.seconds = seconds


class CpuShare:
    """Thread-safe. `cpu` returns the CPU time that the present turn has taken so far, plus any constant, seconds."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._clock, self._cpu, self._sleep = clock, cpu, sleep
        self._lock = threading.Lock()
        self._next = float("-inf")

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn of this caller; then account for what it took. Raises PlannerBusy."""
        asked = self._clock()
        if not self._lock.acquire(timeout=PATIENCE):
            raise PlannerBusy(1.0)
        try:
            wait = self._next - self._clock()
            if wait > PATIENCE - (self._clock() - asked):
                raise PlannerBusy(wait)
            if wait > 0:
                self._sleep(wait)
            began = self._cpu()
            try:
                yield
            finally:
                self._next = self._clock() + (self._cpu() - began) * (SHARE - 1)
        finally:
            self._lock.release()
