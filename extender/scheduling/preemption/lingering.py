"""Victims that do not go: they were deleted, and are still there at their deadline (a finalizer, for example).

    NAMED -- its grace period (an hour at most) and `policy.patience` are over --> LINGERING -- gone --> (forgotten)
                                                                                          |
                                           not even being deleted, and as long again -----+

A preemption lasts as long as kube-scheduler asks for the preemptor. If the victims never go, the preemptor would keep
free room from pods of its own priority for ever. So a preemption ends when a victim lingers: the preemptor gets that
reason, its room is released, and it may preempt other pods. A lingering pod is never a victim any more: the algorithm
receives the set of these pods, and a plan that names one all the same is not carried out.

A pod that is being deleted has one deadline for all preemptors: another preemptor does not restart it. If the pod was
not deleted yet, the next preemptor restarts it, as the previous one may never have come to the eviction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from algorithm.interface import Victim
from extender.scheduling.preemption.planner import PreemptionPlanner
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.preemption_record import gone_by
from extender.scheduling.state.transitions import SchedulingState


class _Deadline(NamedTuple):
    at: float
    #: The pod was being deleted while it was a victim.
    deleted: bool


class Lingering:
    """The deadlines of victims, and the victims that are past them. Times in seconds, on the clock of `now`."""

    def __init__(self, state: SchedulingState, planner: PreemptionPlanner) -> None:
        self.state = state
        self._planner = planner
        self._policy = state.policy
        self._deadlines: dict[str, _Deadline] = {}
        #: Lingering pods by UID. Each lingers until this time, seconds, or as long as it is being deleted.
        self._lingering: dict[str, float] = {}
        self._uids: frozenset[str] = frozenset()

    @property
    def uids(self) -> frozenset[str]:
        """UIDs of the pods that must not be victims."""
        return self._uids

    def named(self, pod_info: PodInfo, victims: Iterable[Victim], now: float) -> None:
        """Record that these victims of the pod are named to kube-scheduler, which deletes them.

        Call it before they are stored in the PodInfo.
        """
        kept = {victim.uid for victim in pod_info.victims} if pod_info.state is State.PREEMPTING else set()
        self._deadlines = {uid: each for uid, each in self._deadlines.items() if self.state.cache.pod(uid) is not None}
        for victim in victims:
            known = self._deadlines.get(victim.uid)
            if known is None or not (known.deleted or victim.uid in kept):
                at = gone_by(self.state.cache.pod(victim.uid), now, self._policy)
                self._deadlines[victim.uid] = _Deadline(at, self._is_deleted(victim.uid))

    def late(self, pod_info: PodInfo, now: float) -> list[Victim]:
        """Return the pod's victims that are past their deadline and still there. From now on they linger."""
        self._forget(now)
        if pod_info.state is not State.PREEMPTING or pod_info.preemption is not None:
            return []
        remaining = [victim for victim in pod_info.victims if self._planner.remains(victim)]
        for victim in remaining:
            known = self._deadlines.get(victim.uid)
            if known is not None and not known.deleted and self._is_deleted(victim.uid):
                self._deadlines[victim.uid] = known._replace(deleted=True)
        late = [victim for victim in remaining if victim.uid in self._uids or self._is_late(victim.uid, now)]
        self.add((victim.uid for victim in late), now)
        return late

    def among(self, victims: Collection[Victim], now: float) -> list[Victim]:
        """Return those of these victims that linger."""
        late = [
            victim.uid for victim in victims if self._is_late(victim.uid, now) and self._deadlines[victim.uid].deleted
        ]
        self.add(late, now)
        return [victim for victim in victims if victim.uid in self._uids]

    def _is_late(self, uid: str, now: float) -> bool:
        known = self._deadlines.get(uid)
        return known is not None and known.at <= now

    def _is_deleted(self, uid: str) -> bool:
        pod = self.state.cache.pod(uid)
        return pod is not None and pod.terminating

    def add(self, uids: Iterable[str], now: float) -> None:
        """Record that these pods were evicted and did not go in time."""
        for uid in uids:
            self._lingering.setdefault(uid, gone_by(self.state.cache.pod(uid), now, self._policy))
        self._report()

    def tell_again(self) -> None:
        """Pass the lingering pods to a new algorithm that has taken over."""
        self.state.driver.set_lingering(self._uids)

    def _forget(self, now: float) -> None:
        if not self._lingering:
            return
        over = [uid for uid, until in self._lingering.items() if self._is_over(uid, until, now)]
        for uid in over:
            del self._lingering[uid]
            self._deadlines.pop(uid, None)
        if over:
            self._report()

    def _is_over(self, uid: str, until: float, now: float) -> bool:
        return self.state.cache.pod(uid) is None or (until <= now and not self._is_deleted(uid))

    def _report(self) -> None:
        uids = frozenset(self._lingering)
        if uids != self._uids:
            self._uids = uids
            self.state.driver.set_lingering(uids)
