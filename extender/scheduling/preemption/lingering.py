"""Victims that do not go: somebody deleted them, and they are still there when their time is up (a finalizer).

    NAMED -- its grace period (an hour at most) and `policy.patience` are over --> LINGERING -- gone --> (forgotten)
                                                                                          |
                                           not even being deleted, and as long again -----+

A preemption lasts as long as kube-scheduler asks for the preemptor. If the victims never go, the preemptor would keep
free room from pods of its own priority for ever. So a preemption is over when a victim lingers: the preemptor is told
so, its room is anybody's, and it may preempt others. A lingering pod is nobody's victim any more: the algorithm is
told, and a plan that names it all the same is not carried out.

A pod that is being deleted has one deadline, whoever preempts for it: another preemptor does not begin it anew. Where
nobody has deleted the pod, the next preemptor does, as the former one may never have come so far.
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
    #: The pod was being deleted while it was somebody's victim.
    deleted: bool


class Lingering:
    """Deadlines of victims, and those that have passed theirs. Times in seconds of the clock that `now` is of."""

    def __init__(self, transitions: SchedulingState, plans: PreemptionPlanner) -> None:
        self.t = transitions
        self._plans = plans
        self._patience = transitions.policy.patience
        self._deadlines: dict[str, _Deadline] = {}
        #: Each until then, or as long as it is being deleted.
        self._lingering: dict[str, float] = {}
        self._uids: frozenset[str] = frozenset()

    @property
    def uids(self) -> frozenset[str]:
        """Pods that must not be anybody's victims."""
        return self._uids

    def named(self, entry: PodInfo, victims: Iterable[Victim], now: float) -> None:
        """kube-scheduler is told these victims of the pod, and deletes them. To be called before they are its own."""
        kept = {victim.uid for victim in entry.victims} if entry.state is State.PREEMPTING else set()
        self._deadlines = {uid: each for uid, each in self._deadlines.items() if self.t.cache.pod(uid) is not None}
        for victim in victims:
            known = self._deadlines.get(victim.uid)
            if known is None or not (known.deleted or victim.uid in kept):
                at = gone_by(self.t.cache.pod(victim.uid), now, self._patience)
                self._deadlines[victim.uid] = _Deadline(at, self._is_deleted(victim.uid))

    def late(self, entry: PodInfo, now: float) -> list[Victim]:
        """The pod's victims that should be gone by now, and are not. From now on they linger."""
        self._forget(now)
        if entry.state is not State.PREEMPTING or entry.preemption is not None:
            return []
        standing = [victim for victim in entry.victims if self._plans.stands(victim)]
        for victim in standing:
            known = self._deadlines.get(victim.uid)
            if known is not None and not known.deleted and self._is_deleted(victim.uid):
                self._deadlines[victim.uid] = known._replace(deleted=True)
        late = [victim for victim in standing if victim.uid in self._uids or self._is_late(victim.uid, now)]
        self.add((victim.uid for victim in late), now)
        return late

    def among(self, victims: Collection[Victim], now: float) -> list[Victim]:
        """Those of these that linger."""
        late = [
            victim.uid for victim in victims if self._is_late(victim.uid, now) and self._deadlines[victim.uid].deleted
        ]
        self.add(late, now)
        return [victim for victim in victims if victim.uid in self._uids]

    def _is_late(self, uid: str, now: float) -> bool:
        known = self._deadlines.get(uid)
        return known is not None and known.at <= now

    def _is_deleted(self, uid: str) -> bool:
        pod = self.t.cache.pod(uid)
        return pod is not None and pod.terminating

    def add(self, uids: Iterable[str], now: float) -> None:
        """These pods were evicted, and have not gone in time."""
        for uid in uids:
            self._lingering.setdefault(uid, gone_by(self.t.cache.pod(uid), now, self._patience))
        self._tell()

    def tell_again(self) -> None:
        """Another algorithm has taken over."""
        self.t.teller.lingers(self._uids)

    def _forget(self, now: float) -> None:
        over = [uid for uid, until in self._lingering.items() if self._is_over(uid, until, now)]
        for uid in over:
            del self._lingering[uid]
            self._deadlines.pop(uid, None)
        if over:
            self._tell()

    def _is_over(self, uid: str, until: float, now: float) -> bool:
        return self.t.cache.pod(uid) is None or (until <= now and not self._is_deleted(uid))

    def _tell(self) -> None:
        uids = frozenset(self._lingering)
        if uids != self._uids:
            self._uids = uids
            self.t.teller.lingers(uids)
