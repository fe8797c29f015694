"""What is left alone for a while: pods that cannot be evicted, and preemptors whose preemption was just given up.

Both only after the API server, or time, has said no; without a pause the same would be tried again at every filter.
When the pause is over, whoever waited because of it is tried again: nobody tells us that a budget allows it now.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from algorithm.reasons import Code, Reason
from extender.scheduling.state.pod_info import PodInfo
from extender.scheduling.state.transitions import SchedulingState


class EvictionBackoff:
    """Pods by UID, each until its time, seconds of the engine's clock."""

    def __init__(self, transitions: SchedulingState) -> None:
        self.t = transitions
        self._pause = transitions.policy.protection
        self._protected: dict[str, float] = {}
        self._resting: dict[str, tuple[float, Reason]] = {}

    @property
    def uids(self) -> frozenset[str]:
        """Who cannot be evicted now."""
        return frozenset(self._protected)

    def protect(self, uid: str, now: float) -> None:
        """The pod could not be evicted: plan around it."""
        self._protected[uid] = now + self._pause
        self.t.teller.protects(self.uids)

    @contextmanager
    def reduced_to(self, uids: frozenset[str]) -> Iterator[None]:
        """The algorithm is told that only these are protected, for one question."""
        if uids != self.uids:
            self.t.teller.protects(uids)
        try:
            yield
        finally:
            if uids != self.uids:
                self.t.teller.protects(self.uids)

    def rest(self, uid: str, why: Reason, now: float) -> None:
        """The pod's preemption was given up for this reason, which it goes on telling."""
        self._resting[uid] = now + self._pause, why

    def resting(self, uid: str) -> Reason | None:
        """Why the pod does not try to preempt now."""
        rest = self._resting.get(uid)
        return rest[1] if rest is not None else None

    def tick(self, now: float) -> list[PodInfo]:
        """Ends what is due. Returns who waited for that, the highest priority first."""
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
