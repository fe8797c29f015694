"""What is left alone for a while: pods that cannot be evicted, and preemptors whose preemption was just given up.

Both only after the API server, or time, has said no; without a pause the same would be tried again at every filter.
When the pause is over, whoever waited because of it is nudged: nobody tells us that a budget allows it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from algorithm.reasons import Code, Reason
from extender.core.entry import State
from extender.core.transitions import Transitions
from extender.core.waking import Waking


class Protection:
    """Pods by UID, each until its time, seconds of the heart's clock."""

    def __init__(self, transitions: Transitions, waking: Waking) -> None:
        self.t = transitions
        self.waking = waking
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

    def tick(self, now: float) -> None:
        """Ends what is due, and lines up for a nudge who waited for that."""
        rested = [uid for uid, (until, _) in self._resting.items() if until <= now]
        for uid in rested:
            del self._resting[uid]
        free = [uid for uid, until in self._protected.items() if until <= now]
        for uid in free:
            del self._protected[uid]
        if free:
            self.t.teller.protects(self.uids)
        for entry in self.t.roster if free or rested else ():
            blocked = bool(free) and entry.reason is not None and entry.reason.code is Code.VICTIM_PROTECTED
            if entry.state is State.WAITING and (blocked or entry.uid in rested):
                self.waking.line_up(entry, now)

    def forget(self) -> None:
        """Another leader may have learnt better since."""
        self._protected.clear()
        self._resting.clear()
        self.t.teller.protects(frozenset())

    def next_due(self) -> float | None:
        times = [*self._protected.values(), *(until for until, _ in self._resting.values())]
        return min(times, default=None)
