"""Back-off for pods that cannot be evicted, and for preemptors whose preemption was just given up.

Both only after a refusal by the API server or a time-out. Without a pause, every filter would try the same again. When
the pause is over, pods that waited because of it are retried: no event says that a disruption budget allows it now.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from algorithm.reasons import Code, Reason
from extender.scheduling.state.pod_info import PodInfo
from extender.scheduling.state.transitions import SchedulingState


class EvictionBackoff:
    """Pods by UID, each with the end of its back-off, seconds of the engine's clock."""

    def __init__(self, transitions: SchedulingState) -> None:
        self.t = transitions
        self._pause = transitions.policy.protection
        self._protected: dict[str, float] = {}
        self._resting: dict[str, tuple[float, Reason]] = {}

    @property
    def uids(self) -> frozenset[str]:
        """UIDs of the pods that cannot be evicted now."""
        return frozenset(self._protected)

    def protect(self, uid: str, now: float) -> None:
        """Start the back-off of a pod that could not be evicted: plans must not name it."""
        self._protected[uid] = now + self._pause
        self.t.teller.protects(self.uids)

    @contextmanager
    def reduced_to(self, uids: frozenset[str]) -> Iterator[None]:
        """Make only these pods protected for the algorithm, inside the context."""
        if uids != self.uids:
            self.t.teller.protects(uids)
        try:
            yield
        finally:
            if uids != self.uids:
                self.t.teller.protects(self.uids)

    def rest(self, uid: str, why: Reason, now: float) -> None:
        """Start the back-off of a pod whose preemption was given up for this reason, which it shows meanwhile."""
        self._resting[uid] = now + self._pause, why

    def resting(self, uid: str) -> Reason | None:
        """Why the pod backs off from preemption now; None if it does not."""
        rest = self._resting.get(uid)
        return rest[1] if rest is not None else None

    def tick(self, now: float) -> list[PodInfo]:
        """End the back-offs that are due. Returns the pods that waited for that, the highest priority first."""
        rested = [uid for uid, (until, _) in self._resting.items() if until <= now]
        for uid in rested:
            del self._resting[uid]
        free = [uid for uid, until in self._protected.items() if until <= now]
        for uid in free:
            del self._protected[uid]
        if free:
            self.t.teller.protects(self.uids)
        if not free and not rested:
            return []
        waited = [entry for entry in self.t.roster if entry.uid in rested or (free and _is_blocked(entry))]
        return sorted(waited, key=lambda entry: (-entry.pod.priority, entry.key))

    def next_due(self) -> float | None:
        if not (self._protected or self._resting):
            return None
        times = [*self._protected.values(), *(until for until, _ in self._resting.values())]
        return min(times, default=None)


def _is_blocked(entry: PodInfo) -> bool:
    return entry.reason is not None and entry.reason.code is Code.VICTIM_PROTECTED
