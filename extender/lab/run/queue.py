"""kube-scheduler's queue for simulations: only one of several pods that are alike is tried again.

    refused --> the *representative* of its kind; other pods of this kind whose turn comes --> [ parked ] behind it
    it is placed, preempts or goes --> the first parked pod is tried --> it is placed, or is the next representative

A pod's kind is everything but its name that an algorithm and kube-scheduler's plug-ins read: pods of one kind get the
same answer at the same time. So it makes no difference whether each of a thousand such pods is tried whenever something
happens, or only the first one.

Attempts take no time here, so a refused pod does not back off, and no other pod overtakes it meanwhile: pods are tried
by priority, then in the order in which they were created. After an error a pod backs off, as live.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable, Iterable

from extender.embedded.kubescheduler.events import ClusterEvent
from extender.embedded.kubescheduler.hints import Hint, always
from extender.embedded.kubescheduler.model import SchedPod
from extender.embedded.kubescheduler.queue import Place, QueuedPod, SchedulingQueue
from extender.lab.run.queueing_hints import QueueingHints


class KindQueue(SchedulingQueue):
    """A scheduling queue that tries one pod of each kind. `kind_of` returns a pod's kind; None: it has no equal.

    With `retries_in_time`, pods are tried again after five minutes although nothing has happened.
    """

    def __init__(
        self,
        kind_of: Callable[[SchedPod], Hashable | None],
        hints: QueueingHints | None = None,
        *,
        now: float,
        initial_backoff: float,
        max_backoff: float,
        retries_in_time: bool,
    ) -> None:
        super().__init__(now=now, initial_backoff=initial_backoff, max_backoff=max_backoff)
        self._kind_of, self._hints = kind_of, hints
        #: The pod that is tried for its kind, by kind; and the kinds of these and of parked pods, by UID.
        self._representatives: dict[Hashable, str] = {}
        self._kinds: dict[str, Hashable] = {}
        # What is parked, in order of arrival, with entries of pods that have left since.
        self._behind: dict[Hashable, list[tuple[int, str]]] = {}
        # Pods that are tried themselves, whatever was said to others of their kind.
        self._insisting: set[str] = set()
        if not retries_in_time:
            self._unschedulable_flush = math.inf

    def representative_of(self, uid: str) -> str:
        """Return the UID of the pod whose last attempt counts for this one: its own, unless it is parked."""
        queued = self.get(uid)
        if queued is None or queued.place is not Place.PARKED:
            return uid
        return self._representatives.get(self._kinds[uid], uid)

    def _entry(self, queued: QueuedPod) -> tuple[float, float, float, int, str]:
        return (0.0, -queued.pod.priority, 0.0, queued.order, queued.pod.uid)

    def _expiry(self, queued: QueuedPod) -> float:
        return super()._expiry(queued) if queued.errors else queued.timestamp

    # -- attempts -------------------------------------------------------------------------------------------------

    def pop(self) -> QueuedPod | None:
        while (chosen := super().pop()) is not None:
            if self._hints is not None and self._hints.is_in_vain(chosen.pod):
                chosen.attempts -= 1
                self._move(chosen, Place.UNSCHEDULABLE)
                continue
            kind = self._kind_of(chosen.pod)
            if kind is None or chosen.pod.uid in self._insisting or not self._was_in_vain(kind):
                self._insisting.discard(chosen.pod.uid)
                return chosen
            self._park(chosen, kind)
        return None

    def _was_in_vain(self, kind: Hashable) -> bool:
        """Return whether the representative was refused, and no later event could have helped it."""
        uid = self._representatives.get(kind)
        representative = None if uid is None else self.get(uid)
        return representative is not None and representative.place is Place.UNSCHEDULABLE and not representative.held

    def _park(self, queued: QueuedPod, kind: Hashable) -> None:
        representative = self.get(self._representatives[kind])
        queued.rejecters = representative.rejecters if representative is not None else frozenset()
        self._move(queued, Place.PARKED)
        self._kinds[queued.pod.uid] = kind
        heapq.heappush(self._behind.setdefault(kind, []), (queued.order, queued.pod.uid))

    def rejected(self, uid: str, rejecters: frozenset[str], now: float) -> None:
        super().rejected(uid, rejecters, now)
        queued = self.get(uid)
        if queued is None:
            return
        if queued.place is Place.UNSCHEDULABLE and not queued.held:
            self._represent(queued)
        elif queued.held or queued.place is Place.ERROR_BACKOFF:
            self._step_down(uid)

    def _represent(self, queued: QueuedPod) -> None:
        uid, kind = queued.pod.uid, self._kind_of(queued.pod)
        if self._kinds.get(uid) != kind:
            self._step_down(uid)
        if kind is None:
            return
        if self._representatives.setdefault(kind, uid) == uid:
            self._kinds[uid] = kind
        else:
            self._park(queued, kind)

    def failed(self, uid: str, now: float) -> None:
        super().failed(uid, now)
        self._step_down(uid)

    def delete(self, uid: str) -> None:
        super().delete(uid)
        self._insisting.discard(uid)
        if self._hints is not None:
            self._hints.itself(uid)
        self._step_down(uid)

    def _step_down(self, uid: str) -> None:
        """Stop representing a kind by this pod: the next pod of the kind is tried."""
        kind = self._kinds.pop(uid, None)
        if kind is None or self._representatives.get(kind) != uid:
            return
        del self._representatives[kind]
        behind = self._behind.get(kind, [])
        while behind:
            _, first = heapq.heappop(behind)
            queued = self.get(first)
            if queued is not None and queued.place is Place.PARKED and self._kinds.get(first) == kind:
                self._representatives[kind] = first
                self._move(queued, Place.ACTIVE)
                return
        self._behind.pop(kind, None)

    # -- events ---------------------------------------------------------------------------------------------------

    def happened(
        self, event: ClusterEvent, now: float, *, hint: Hint = always, up_to: float = math.inf, by_room: bool = False
    ) -> None:
        """Move the pods that an event may help. `by_room`: the hint comes from `QueueingHints.room_on`."""
        if self._hints is not None and not by_room:
            self._hints.anything()
        super().happened(event, now, hint=hint, up_to=up_to)

    # -- parked pods that change ----------------------------------------------------------------------------------

    def reconsider(self, uids: Iterable[str]) -> None:
        """Try these pods if they are parked: their kind may have changed."""
        for uid in uids:
            queued = self.get(uid)
            if queued is not None and queued.place is Place.PARKED:
                del self._kinds[uid]
                self._move(queued, Place.ACTIVE)

    def update(self, pod: SchedPod, events: Iterable[ClusterEvent], now: float) -> None:
        if self._hints is not None:
            self._hints.itself(pod.uid)
        super().update(pod, events, now)
        queued = self.get(pod.uid)
        if queued is not None and queued.place is Place.PARKED and any(True for _ in events):
            self._insist(pod.uid)

    def activate(self, uid: str) -> None:
        if self._hints is not None:
            self._hints.itself(uid)
        queued = self.get(uid)
        if queued is not None and queued.place is Place.PARKED:
            self._insist(uid)
        super().activate(uid)

    def _insist(self, uid: str) -> None:
        self._insisting.add(uid)
        self.reconsider((uid,))
