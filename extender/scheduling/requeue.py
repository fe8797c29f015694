"""Requeues waiting pods when room becomes free and kube-scheduler does not see it, or saw it before we did.

    refused: park --> [parked on ROOM] --- room freed by our doing ---------> in line --> RequeuePod (in batches)
                       [and its GANG] ---- the gang is complete --------------^ ^   |
                            |                                                   |   +--> asked meanwhile: out of line
                            +--- asked while the informer was behind, or -------+
                                 room is kept for it, and nobody asks

kube-scheduler requeues a waiting pod by itself when a pod is deleted or a node changes: it watches both. It cannot see
the following four changes. For these, we requeue the pod: an annotation makes kube-scheduler try it again.

* A proposal was withdrawn. For kube-scheduler that room was never taken.
* A pod was deleted, and kube-scheduler's informer showed it *before ours did*. kube-scheduler asked at once, and was
  refused from our outdated state. So every pod that was refused within `informer_lag` seconds before our informer
  showed free room is requeued `settle` seconds later, unless kube-scheduler has asked about it meanwhile.
* A gang is complete. Nothing announces that. If the last member is bound at once, kube-scheduler may try the others
  because of that bind (1.36 does, 1.30 does not). So the others are requeued `gather` seconds later, unless
  kube-scheduler has asked about them meanwhile.
* Room is kept for a pod that was refused. For example, another member of its gang was offered more nodes, and the gang
  fits there. So the pod is requeued `unasked` seconds later, unless kube-scheduler has asked about it meanwhile.

`policy.Limits` has these times.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

from extender.core.deadlines import Deadlines, first_of
from extender.scheduling.commands import RequeuePod
from extender.scheduling.events import Instruction
from extender.scheduling.policy import Policy
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState

#: The key on which waiting pods are parked.
ROOM = "room"
#: Prefix of the key, before the gang's name, on which pods that wait for other members of their gang are parked.
_GANG = "gang "


class Requeuer:
    """The pods that wait for room, and the queue of pods to requeue."""

    def __init__(self, state: SchedulingState, counts: Counter[tuple[str, str]]) -> None:
        self.state = state
        self.policy: Policy = state.policy
        self._limits = self.policy.limits
        self.counts = counts
        #: When each queued pod may be requeued, by UID.
        self.queue: Deadlines[str] = Deadlines()
        #: The current batch: when it began, and how many requeues were sent in it.
        self._batch_began = float("-inf")
        self._batch_sent = 0
        #: Pods refused last, the latest at the end, with the time; entries older than `informer_lag` are dropped.
        self._refused: OrderedDict[str, float] = OrderedDict()
        #: Refused pods that preempt through kube-scheduler, which may have seen all their victims go before we did.
        self._early: dict[str, None] = {}
        #: First and last time at which the informer showed free room for which no refused pod was queued yet.
        self.shown: tuple[float, float] | None = None

    # -- asking ---------------------------------------------------------------------------------------------------

    def asked(self, pod_info: PodInfo) -> None:
        """kube-scheduler asks about the pod, so it need not be requeued."""
        self.queue.discard(pod_info.uid)
        self._refused.pop(pod_info.uid, None)
        self._early.pop(pod_info.uid, None)

    def park(self, pod_info: PodInfo, now: float, *, gang: str = "") -> None:
        """Park a refused pod: it waits for room, and with `gang` also for other members of that gang.

        Room that its own refusal freed does not wake it.
        """
        keys = [ROOM, _GANG + gang] if gang else [ROOM]
        self.state.wait_index.park(pod_info.uid, self.state.wait_index.look(keys))
        pod_info.requeuable = True
        self._refused.pop(pod_info.uid, None)
        self._refused[pod_info.uid] = now
        horizon = (now if self.shown is None else self.shown[0]) - self._limits.informer_lag
        while self._refused and next(iter(self._refused.values())) < horizon:
            self._refused.popitem(last=False)

    def wait_for_victims(self, pod_info: PodInfo) -> None:
        """Queue this refused pod, which preempts through kube-scheduler, when our informer shows its victims gone."""
        pod_info.requeuable = True
        self._early[pod_info.uid] = None

    # -- room -----------------------------------------------------------------------------------------------------

    def room_freed(self, now: float, *, by: PodInfo | None = None) -> list[Instruction]:
        """Room became free by our own action. The pod `by` that gave it up is not woken by it."""
        keys = self.state.wait_index.keys_of(by.uid) if by is not None else ()
        if by is not None:
            self.state.wait_index.drop(by.uid)
        woken = [pod_info for uid in self.state.wait_index.touch(ROOM) if (pod_info := self.state.pods.get(uid))]
        for pod_info in sorted(woken, key=lambda pod_info: -pod_info.pod.priority):
            self.enqueue(pod_info, now)
        if by is not None and keys:
            self.state.wait_index.park(by.uid, self.state.wait_index.look(keys))
        return self.requeue_due(now)

    def gang_complete(self, gang: str, now: float, *, by: PodInfo) -> None:
        """A member of the gang need not wait for others: queue the members that were told to wait."""
        for uid in self.state.wait_index.touch(_GANG + gang):
            pod_info = self.state.pods.get(uid)
            if pod_info is not None and pod_info is not by:
                self.enqueue(pod_info, now, after=self._limits.gather)

    def room_kept(self, uid: str, now: float) -> None:
        """The algorithm keeps room for this waiting pod: queue it for `unasked` seconds later if it was refused."""
        pod_info = self.state.pods.get(uid)
        if pod_info is None or pod_info.state is not State.WAITING:
            return
        if pod_info.requeuable and self._limits.unasked:
            self.enqueue(pod_info, now, after=self._limits.unasked)

    def room_shown(self, now: float) -> None:
        """The informer shows free room. kube-scheduler sees it too, earlier or later than we do."""
        if self._refused or self._early:
            self.shown = (self.shown[0] if self.shown else now, now)

    def enqueue(self, pod_info: PodInfo, now: float, *, at_once: bool = False, after: float = 0.0) -> None:
        """Queue the pod: due at once, or after `after` seconds and the requeue interval after its last requeue."""
        pod_info.requeuable = True
        due = now if at_once else max(now + after, pod_info.requeued_at + self.policy.requeue_interval)
        known = self.queue.get(pod_info.uid)
        if known is None or known > due:
            self.queue.set(pod_info.uid, due)

    def _look_after_refused(self, now: float) -> None:
        if self.shown is None or now < self.shown[0] + self._limits.settle:
            return
        first, last = self.shown
        self.shown = None
        for uid, at in self._refused.items():
            pod_info = self.state.pods.get(uid)
            if pod_info is not None and first - self._limits.informer_lag <= at <= last:
                self.enqueue(pod_info, now)
        for uid in list(self._early):
            pod_info = self.state.pods.get(uid)
            if pod_info is None or pod_info.state is not State.PREEMPTING:
                del self._early[uid]
            elif all(self.state.cache.pod(victim.uid) is None for victim in pod_info.victims):
                del self._early[uid]
                self.enqueue(pod_info, now)

    # -- requeueing ------------------------------------------------------------------------------------------------

    def requeue_due(self, now: float) -> list[Instruction]:
        """Return a RequeuePod for each queued pod that is due, at most one batch every `requeue_pause` seconds."""
        if self.state.term is None:
            return []  # the leader sees the room too; all waiting pods are requeued when a term begins here
        self._look_after_refused(now)
        if now >= self._batch_began + self._limits.requeue_pause:
            self._batch_began, self._batch_sent = now, 0
        out: list[Instruction] = []
        while self._batch_sent < self.policy.requeue_batch and (uid := self.queue.pop(now)) is not None:
            pod_info = self.state.pods.get(uid)
            if pod_info is not None and (pod_info.state in (State.WAITING, State.PREEMPTING) or pod_info.place_pinned):
                pod_info.requeued_at = now
                self._batch_sent += 1
                self.counts["nudges", "sent"] += 1
                out.append(RequeuePod(pod_info.key.namespace, pod_info.key.name, pod_info.uid))
        return out

    def next_due(self) -> float | None:
        """When `requeue_due` next has work to do, seconds; None if nothing is queued."""
        if self.state.term is None:
            return None
        settled = self.shown[0] + self._limits.settle if self.shown else None
        first = self.queue.first()
        if first is not None and self._batch_sent >= self.policy.requeue_batch:
            first = max(first, self._batch_began + self._limits.requeue_pause)
        return first_of(settled, first)
