"""Use and waiting over the last hour: a ring of samples, taken by time, in memory.

    UsageSampler  a thread that takes a sample every EVERY seconds
    UsageHistory  keeps those of the last HOUR, KEPT at most

Promises: whatever happens in the cluster, and however long the process runs, there are at most KEPT samples of at most
RESOURCES resources each. A restart begins anew: an hour is too short to be worth a database.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from algorithm.model import CPU, MEMORY
from extender.scheduling.state.cache import Snapshot
from extender.server.repeating import RepeatingThread

#: Seconds between two samples, and for how long a sample is kept.
EVERY, HOUR = 30.0, 3600.0
KEPT = int(HOUR / EVERY) + 1
#: Resources of a sample.
RESOURCES = 6


class Taken(NamedTuple):
    """How much of a resource is taken, and how much there is. cpu in thousandths of a core, others in units."""

    resource: str
    taken: int
    there: int


class UsageSample(NamedTuple):
    """The cluster at one moment. `at` is in seconds since 1970; `devices` is what running pods were given, and
    what is proposed for pods that are not bound yet."""

    at: float
    running: int
    waiting: int
    preempting: int
    devices: int
    resources: tuple[Taken, ...]


class UsageHistory:
    """Thread-safe."""

    def __init__(self) -> None:
        self._samples: deque[UsageSample] = deque(maxlen=KEPT)
        self._lock = threading.Lock()

    def add(self, sample: UsageSample) -> None:
        """Keep a sample. Those that are older than an hour go."""
        with self._lock:
            self._samples.append(sample)
            while self._samples[0].at < sample.at - HOUR:
                self._samples.popleft()

    def samples(self) -> list[UsageSample]:
        """All samples, oldest first."""
        with self._lock:
            return list(self._samples)


class UsageSampler:
    """Adds what `take` returns to `history`, at once and then every `every` seconds, on a thread of its own."""

    def __init__(self, take: Callable[[], UsageSample], history: UsageHistory, *, every: float = EVERY) -> None:
        self._take, self._history, self._every = take, history, every
        self._thread = RepeatingThread("waggle-usage", self._sample, pause=every)
        self.start, self.stop = self._thread.start, self._thread.stop

    def _sample(self) -> float:
        self._history.add(self._take())
        return self._every


def amounts(snapshot: Snapshot) -> tuple[Taken, ...]:
    """Return what is in use on the nodes, and what they have: resources with a domain in their name (devices) first,
    then cpu and memory. A node that is not ready counts as long as it exists."""
    taken: dict[str, int] = {}
    there: dict[str, int] = {}
    for info in snapshot.nodes.values():
        if info.node is None:
            continue
        for name, amount in info.node.allocatable:
            there[name] = there.get(name, 0) + amount
        for name, amount in info.requested:
            taken[name] = taken.get(name, 0) + amount
    shown = [name for name, amount in there.items() if amount > 0 and _rank(name) < _UNSHOWN]
    shown.sort(key=lambda name: (_rank(name), name))
    return tuple(Taken(name, taken.get(name, 0), there[name]) for name in shown[:RESOURCES])


_UNSHOWN = 3


def _rank(name: str) -> int:
    return 0 if "/" in name else {CPU: 1, MEMORY: 2}.get(name, _UNSHOWN)
