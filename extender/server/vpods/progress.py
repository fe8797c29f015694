"""Measures from what the API server shows: how long vpods wait for their vreplicas, and how many vreplicas move.

    wants more or less than it has --> since when --> has what it wants --> the seconds between, in a histogram

The figures are those that the owner of a vpod sees: decision, write and watch together. A replica that does not lead
measures the same. Memory is bounded by the number of vpods. Thread-safe.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from extender.server.histogram import Histogram
from extender.server.views import Metric
from extender.vpods.records import VPodKey, VPodRecord

#: Upper bounds of the histogram, seconds.
BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class Progress:
    """`clock` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._since: dict[VPodKey, float] = {}
        self._seconds = Histogram(BOUNDS)
        #: Vreplicas that left a pod for another one.
        self._moves = 0

    def seen(self, before: VPodRecord | None, now: VPodRecord) -> None:
        """A vpod is shown, for the first time if there is nothing before."""
        at = self._clock()
        placed = sum(number for _, number in now.placements)
        with self._lock:
            if before is not None and before.uid == now.uid:
                self._moves += moves(before, now)
            if placed != now.wanted and not now.deleting:
                self._since.setdefault(now.key, at)
            elif (since := self._since.pop(now.key, None)) is not None and not now.deleting:
                self._seconds.observe(at - since)

    def gone(self, key: VPodKey) -> None:
        """A vpod is gone."""
        with self._lock:
            self._since.pop(key, None)

    def metrics(self) -> list[Metric]:
        """For a scrape."""
        with self._lock:
            moved = self._moves
            seconds = self._seconds.metric(
                "waggle_vpods_schedule_seconds",
                "Seconds from a change of a vpod's wanted number until it has all its vreplicas.",
            )
        return [
            seconds,
            Metric(
                "waggle_vpods_moves_total",
                "counter",
                "Vreplicas that left a pod for another one.",
                [({}, float(moved))],
            ),
        ]


def moves(before: VPodRecord, now: VPodRecord) -> int:
    """How many vreplicas have left a pod and are on another one."""
    if before.placements == now.placements:
        return 0
    old, new = _counts(before), _counts(now)
    return min((old - new).total(), (new - old).total())


def _counts(vpod: VPodRecord) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name, number in vpod.placements:
        counts[name] += max(0, number)
    return counts
