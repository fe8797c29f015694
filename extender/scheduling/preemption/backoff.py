"""Back-off for pods that cannot be evicted, and for preemptors whose preemption was just given up.

Both only after a refusal by the API server or a time-out. Without a pause, every filter would try the same again. When
the pause is over, pods that waited because of it are retried: no event says that a disruption budget allows it now.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from algorithm.reasons import Code, Reason
from extender.core.deadlines import Deadlines
from extender.scheduling.state.pod_info import PodInfo
from extender.scheduling.state.transitions import SchedulingState


class EvictionBackoff:
    """Pods by UID, each with the end of its back-off, seconds of the engine's clock."""

    def __init__(self, state: SchedulingState) -> None:
        self.state = state
        self._pause = state.policy.eviction_backoff
        self.protected: Deadlines[str] = Deadlines()
        self.backing_off: Deadlines[str] = Deadlines()
        #: Why each of the resting pods backs off.
        self._why: dict[str, Reason] = {}

    @property
    def uids(self) -> frozenset[str]:
        """UIDs of the pods that cannot be evicted now."""
        return frozenset(self.protected)

    def protect(self, uid: str, now: float) -> None:
        """Start the back-off of a pod that could not be evicted: plans must not name it."""
        self.protected.set(uid, now + self._pause)
        self.state.driver.set_protected(self.uids)

    @contextmanager
    def reduced_to(self, uids: frozenset[str]) -> Iterator[None]:
        """Make only these pods protected for the algorithm, inside the context."""
        if uids != self.uids:
            self.state.driver.set_protected(uids)
        try:
            yield
        finally:
            if uids != self.uids:
                self.state.driver.set_protected(self.uids)

    def back_off(self, uid: str, why: Reason, now: float) -> None:
        """Start the back-off of a pod whose preemption was given up for this reason, which it shows meanwhile."""
        self.backing_off.set(uid, now + self._pause)
        self._why[uid] = why

    def backed_off(self, uid: str) -> Reason | None:
        """Why the pod backs off from preemption now; None if it does not."""
        return self._why.get(uid)

    def tick(self, now: float) -> list[PodInfo]:
        """End the back-offs that are due. Returns the pods that waited for that, the highest priority first."""
        over = self.backing_off.due(now)
        for uid in over:
            self.backing_off.discard(uid)
            del self._why[uid]
        free = self.protected.due(now)
        for uid in free:
            self.protected.discard(uid)
        if free:
            self.state.driver.set_protected(self.uids)
        if not free and not over:
            return []
        waited = [pod_info for pod_info in self.state.pods if pod_info.uid in over or (free and _is_blocked(pod_info))]
        return sorted(waited, key=lambda pod_info: (-pod_info.pod.priority, pod_info.key))


def _is_blocked(pod_info: PodInfo) -> bool:
    return pod_info.reason is not None and pod_info.reason.code is Code.VICTIM_PROTECTED
