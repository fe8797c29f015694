"""Measures how long gates take: from the event that met the dependencies until the API server has taken the patch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from extender.core.outcomes import OutcomeKind
from extender.ordering.writes.gate import GateRemoved, RemoveGate
from extender.server.histogram import Histogram
from extender.server.views import Metric

#: Seconds. One round trip to an API server takes 3 to 20 ms.
BOUNDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0, 30.0)
#: Removals in flight that are remembered. A removal that is never reported must not take memory for ever.
_MOST = 100_000


class _Removal:
    """The removal of one gate. `is_sent`: an attempt has not ended yet. `is_over`: there will be no other one."""

    __slots__ = ("began", "is_over", "is_sent")

    def __init__(self, began: float) -> None:
        self.began = began
        self.is_sent = True
        self.is_over = False


class GateTimes:
    """Thread-safe. A removal that has to be repeated is measured from its first attempt."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._removals: dict[str, _Removal] = {}
        self._seconds = Histogram(BOUNDS)

    def began(self, write: RemoveGate) -> None:
        """The engine wants this gate removed."""
        with self._lock:
            if len(self._removals) < _MOST:
                self._removals.setdefault(write.uid, _Removal(self._clock())).is_sent = True

    def ended(self, report: GateRemoved) -> None:
        """An attempt has ended."""
        kind = report.outcome.kind
        with self._lock:
            removal = self._removals.get(report.uid)
            if removal is None:
                return
            removal.is_sent = False
            if kind is OutcomeKind.DONE:
                self._seconds.observe(self._clock() - removal.began)
            if removal.is_over or kind in (OutcomeKind.DONE, OutcomeKind.GONE, OutcomeKind.STALE):
                del self._removals[report.uid]

    def over(self, uid: str) -> None:
        """The pod is bound or gone. A watch may show that before the removal is answered."""
        with self._lock:
            removal = self._removals.get(uid)
            if removal is not None and removal.is_sent:
                removal.is_over = True
            elif removal is not None:
                del self._removals[uid]

    def metrics(self) -> list[Metric]:
        """For a scrape."""
        with self._lock:
            return [
                self._seconds.metric(
                    "waggle_ordering_gate_seconds",
                    "Seconds from the event that met a pod's dependencies until its scheduling gate was removed.",
                )
            ]
