"""The last ten minutes of every pool, for the page: samples at fixed intervals, in memory."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

import structlog

from extender.claims.records import PoolKey
from extender.claims.views import PoolSnapshot

log = structlog.get_logger(__name__)

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
        self._stopping = threading.Event()
        self._is_logged = False
        self._thread = threading.Thread(target=self._run, name="waggle-claims-past", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. Idempotent; also works without a start."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

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

    def _run(self) -> None:
        while True:
            try:
                self.sample()
            except Exception:  # the page's figures must not stop the server
                if not self._is_logged:
                    self._is_logged = True
                    log.exception("taking samples of pools failed; the page lacks them")
            if self._stopping.wait(self._every):
                return


def coming(pool: PoolSnapshot) -> int:
    """Return how many pods are starting, stopping or not ready: they may become idle soon."""
    return pool.starting + pool.stopping + pool.unready
