"""Where requests wait for their turn at the API server: first come, first served, as the throttle allows. Thread-safe.

    put --> waiting --take--> flight --release--> the throttle learns
               ^                         |
               +------- put_back --------+   throttled: certainly not done

Hints (nudges, Events) do not go through it; they have one place of their own beside it. They ask here when they may
go: not while the server wants to be left alone, and after what waits here, for which they are kept back for a second at
most. So they cannot starve a binding, and a binding cannot starve them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from extender.kube.writes.throttle import InFlight, Throttle

#: Seconds for which something waits here because the server asks for patience, before its owner hears of it.
PATIENCE = 2.0
#: Seconds for which hints let others go first.
_COURTESY = 1.0


class Waiting(Protocol):
    """What can wait. Times are in seconds of the gate's clock."""

    @property
    def kind(self) -> str:
        """Requests of one kind take about the same time."""

    @property
    def given(self) -> float:
        """When it came."""

    #: Until when it waits for a server that asks for patience; None: it has not met that yet.
    patient_until: float | None


W = TypeVar("W", bound=Waiting)


class WriteQueue(Generic[W]):
    """One queue and one throttle under one lock. `clock` is in seconds and never goes back."""

    def __init__(self, throttle: Throttle, clock: Callable[[], float]) -> None:
        self._throttle = throttle
        self._clock = clock
        self._waiting: deque[W] = deque()
        self._lock = threading.Lock()
        self._calm = threading.Condition(self._lock)
        self._closed = False

    def put(self, item: W) -> bool:
        """False: closed, not accepted."""
        with self._lock:
            if self._closed:
                return False
            self._waiting.append(item)
            return True

    def put_back(self, item: W) -> bool:
        """The server asked for patience: its turn comes again, before all others. False: nothing would come of that."""
        with self._lock:
            if self._closed or self._out_of_patience(item):
                return False
            self._waiting.appendleft(item)
            return True

    def take(self) -> tuple[W, InFlight | None] | None:
        """Who may go now; None: nobody, `patience` says for how long. Never blocks.

        Without a flight: it must not be sent, the server wants more patience than there is.
        """
        with self._lock:
            return self._turn()

    def patience(self) -> float | None:
        """Seconds until somebody may go by time alone; None: only when another comes or has ended."""
        with self._lock:
            return (self._throttle.paused(self._clock()) or None) if self._waiting else None

    def release(self, flight: InFlight) -> None:
        """The flight has ended, with its signal."""
        with self._lock:
            self._throttle.finish(flight, self._clock())

    def wait_calm(self) -> bool:
        """For a hint: waits until it may go. False: closed."""
        with self._lock:
            until = self._clock() + _COURTESY
            while not self._closed:
                now = self._clock()
                wait = self._throttle.paused(now) or (until - now if self._waiting else 0.0)
                if wait <= 0:
                    return True
                self._calm.wait(wait)
            return False

    def pause(self, seconds: float) -> None:
        """The server has asked for patience outside of any flight."""
        with self._lock:
            self._throttle.pause(seconds, self._clock())

    def close(self) -> list[W]:
        """Ends all waiting, and hands out what had no turn."""
        with self._lock:
            self._closed = True
            left = list(self._waiting)
            self._waiting.clear()
            self._calm.notify_all()
        return left

    # -- for metrics ----------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def oldest(self) -> float:
        """Seconds that the first in the queue has waited since it came."""
        with self._lock:
            return max(0.0, self._clock() - self._waiting[0].given) if self._waiting else 0.0

    @property
    def throttle(self) -> Throttle:
        """For reading its counters only."""
        return self._throttle

    # -- under the lock -------------------------------------------------------------------------------------------

    def _turn(self) -> tuple[W, InFlight | None] | None:
        """What may go now."""
        if not self._waiting:
            return None
        if self._throttle.wait(self._clock()) > 0:
            return (self._waiting.popleft(), None) if self._out_of_patience(self._waiting[0]) else None
        item = self._waiting.popleft()
        if not self._waiting:
            self._calm.notify()
        return item, self._throttle.start(item.kind, self._clock())

    def _out_of_patience(self, item: W) -> bool:
        """Whether it would still wait when its time is up; the time runs from when it first meets a pause."""
        now = self._clock()
        paused = self._throttle.paused(now)
        if not paused:
            return False
        if item.patient_until is None:
            item.patient_until = now + PATIENCE
        return now + paused > item.patient_until
