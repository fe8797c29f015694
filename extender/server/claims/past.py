"""The last ten minutes of every pool, for the page: samples at fixed intervals, in memory."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from extender.claims.records import PoolKey
from extender.claims.views import PoolSnapshot
from extender.server.repeating import RepeatingThread

#: Seconds between two samples, and how many are kept: ten minutes.
EVERY, KEPT = 10.0, 61
#: Pools that are sampled, the first by name.
_MOST_POOLS = 1000


class PoolSample(NamedTuple):
    """A pool at the time `at`, seconds since 1970: pods that are idle, claimed, and not ready yet; waiting requests."""

    at: float
    idle: int
    claimed: int
    coming: int
    pending: int


class PoolPast:
    """Takes a sample of every pool, at once and then every `every` seconds, in a thread. Thread-safe."""

    def __init__(self, take: Callable[[], Iterable[PoolSnapshot]], *, every: float = EVERY) -> None:
        self._take, self._every = take, every
        self._samples: dict[PoolKey, deque[PoolSample]] = {}
        self._lock = threading.Lock()
        self._thread = RepeatingThread("waggle-claims-past", self._turn, pause=every)
        self.start, self.stop = self._thread.start, self._thread.stop

    def sample(self) -> None:
        """Take a sample of every pool, and forget removed pools."""
        now, found = time.time(), sorted(self._take(), key=lambda each: each.key)[:_MOST_POOLS]
        with self._lock:
            before = self._samples
            self._samples = {each.key: before.get(each.key) or deque(maxlen=KEPT) for each in found}
            for each in found:
                self._samples[each.key].append(PoolSample(now, each.idle, each.claimed, coming(each), each.pending))

    def of(self, pool: PoolKey) -> list[PoolSample]:
        """Return the samples of a pool, oldest first."""
        with self._lock:
            return list(self._samples.get(pool, ()))

    def _turn(self) -> float:
        self.sample()
        return self._every


def coming(pool: PoolSnapshot) -> int:
    """Return how many pods are starting, stopping or not ready: they may become idle soon."""
    return pool.starting + pool.stopping + pool.unready
