"""The queue of requests to the API server: first in, first out, as fast as the throttle allows. Thread-safe.

    put --> waiting --take--> flight --release--> the throttle learns
               ^                         |
               +------- put_back --------+   throttled: certainly not done

Best-effort commands (hints) do not pass through this queue; they have their own (best_effort.py). They ask here when
they may go: not while the API server has asked for a pause, and after the requests that wait here, for which a hint is
held back for a second at most. So hints cannot starve a write, and writes cannot starve hints.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from extender.kube.writes.throttle import InFlight, Throttle

#: Seconds for which a request waits here because the server asked for a pause, before it is reported to its owner.
PATIENCE = 2.0
#: Seconds for which hints give way to the requests that wait here.
_COURTESY = 1.0


class Waiting(Protocol):
    """An item of the queue. Times are in seconds of the queue's clock."""

    @property
    def kind(self) -> str:
        """Requests of one kind take about the same time."""

    @property
    def given(self) -> float:
        """When it was queued."""

    #: The time until which it waits for a server that asked for a pause; None: it has not met a pause yet.
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
        """Append an item. Returns False if the queue is closed; the item is then not accepted."""
        with self._lock:
            if self._closed:
                return False
            self._waiting.append(item)
            return True

    def put_back(self, item: W) -> bool:
        """Put an item back at the front, since the server asked for a pause.

        Returns False if the queue is closed, or if the pause is longer than the item may still wait.
        """
        with self._lock:
            if self._closed or self._out_of_patience(item):
                return False
            self._waiting.appendleft(item)
            return True

    def take(self) -> tuple[W, InFlight | None] | None:
        """The next item that may be sent; None if there is none, and `patience` then says for how long. Never blocks.

        An item without a flight must not be sent: the server's pause is longer than the item can wait.
        """
        with self._lock:
            return self._turn()

    def patience(self) -> float | None:
        """Seconds until an item may be sent by the passing of time alone; None: only when another arrives or a flight
        ends."""
        with self._lock:
            return (self._throttle.paused(self._clock()) or None) if self._waiting else None

    def release(self, flight: InFlight) -> None:
        """End a flight; its signal says how the request went."""
        with self._lock:
            self._throttle.finish(flight, self._clock())

    def wait_calm(self) -> bool:
        """Block a hint until it may be sent. Returns False if the queue is closed."""
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
        """The server asked for a pause in the response to a request that has no flight."""
        with self._lock:
            self._throttle.pause(seconds, self._clock())

    def close(self) -> list[W]:
        """Wake all waiters, and return the items that were never sent."""
        with self._lock:
            self._closed = True
            left = list(self._waiting)
            self._waiting.clear()
            self._calm.notify_all()
        return left

    # -- for metrics ----------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """Number of items that wait."""
        return len(self._waiting)

    @property
    def oldest(self) -> float:
        """Seconds that the first item of the queue has waited since it was queued."""
        with self._lock:
            return max(0.0, self._clock() - self._waiting[0].given) if self._waiting else 0.0

    @property
    def throttle(self) -> Throttle:
        """The throttle, only for reading its counters."""
        return self._throttle

    # -- under the lock -------------------------------------------------------------------------------------------

    def _turn(self) -> tuple[W, InFlight | None] | None:
        """The next item that may be sent now."""
        if not self._waiting:
            return None
        if self._throttle.wait(self._clock()) > 0:
            return (self._waiting.popleft(), None) if self._out_of_patience(self._waiting[0]) else None
        item = self._waiting.popleft()
        if not self._waiting:
            self._calm.notify()
        return item, self._throttle.start(item.kind, self._clock())

    def _out_of_patience(self, item: W) -> bool:
        """Whether the pause outlasts the item's patience, which runs from when the item first meets a pause."""
        now = self._clock()
        paused = self._throttle.paused(now)
        if not paused:
            return False
        if item.patient_until is None:
            item.patient_until = now + PATIENCE
        return now + paused > item.patient_until
