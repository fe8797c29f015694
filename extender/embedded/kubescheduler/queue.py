"""The scheduling queue: which pod is tried next, and when a pod that failed is tried again.

                        event, backoff over;  or pop from backoffQ while activeQ is empty
                   +------------------------------------------------------------------------+
                   v                                                                        |
    add --> [ activeQ ] -- pop --> (in flight) -- rejected --> [ unschedulable ] -- event --+--> [ backoffQ ]
                   ^                |   |                                                   |
                   |                |   +-- rejected, but an event came meanwhile ----------+
                   |                +------ error --> [ error backoffQ ] --+
                   +-------------------- whole second after its backoff ---+
    delete: out of the queue, from any state. A pod that is held stays unschedulable until it is released.

Rules (measured on 1.36.2): activeQ is ordered by priority, then by the time of the last failure. Backoff is 1, 2, 4, 8,
10, 10.. s. A backoffQ pod is popped at once when activeQ is empty (SchedulerPopFromBackoffQ), so a quiet scheduler
has no backoff for rejections. The error backoffQ is neither hastened by events nor popped early, and is looked at
once a second. A pod without a rejecter counts as an error. Who is unschedulable for over five minutes is tried
anyway, looked at every 30 s.

No clock inside: `now` is a parameter, in seconds, and never goes back.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from extender.embedded.kubescheduler.events import ClusterEvent, interested
from extender.embedded.kubescheduler.hints import Hint, always
from extender.embedded.kubescheduler.model import SchedPod

#: Seconds.
UNSCHEDULABLE_FLUSH_INTERVAL = 30.0
#: Seconds.
UNSCHEDULABLE_TIMEOUT = 300.0
#: Seconds.
ERROR_FLUSH_INTERVAL = 1.0


class Place(StrEnum):
    """Where a queued pod is."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    ERROR_BACKOFF = "error backoff"
    UNSCHEDULABLE = "unschedulable"
    IN_FLIGHT = "in flight"
    #: Kept back by a queue that tries one pod for many that are alike; never by this one.
    PARKED = "parked"


@dataclass(slots=True)
class QueuedPod:
    """A pod with what the queue remembers of it."""

    pod: SchedPod
    place: Place
    #: When it was added or last failed.
    timestamp: float
    #: The order of arrival, which decides between equals.
    order: int
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    rejecters: frozenset[str] = frozenset()
    #: Those under which it is listed while it is unschedulable.
    group: frozenset[str] = frozenset()
    #: Its preemption is being carried out; `wanted` tells that meanwhile a pod went away that would have woken it.
    held: bool = False
    wanted: bool = False
    #: Events since it was popped.
    missed: list[tuple[ClusterEvent, Hint]] = field(default_factory=list)


_Entry = tuple[float, float, float, int, str]


class SchedulingQueue:
    """All pods that wait for a node, by UID. Not thread-safe: one owner."""

    def __init__(self, *, now: float, initial_backoff: float = 1.0, max_backoff: float = 10.0) -> None:
        self._initial = initial_backoff
        self._max = max_backoff
        self._pods: dict[str, QueuedPod] = {}
        self._in: dict[Place, dict[str, QueuedPod]] = {place: {} for place in Place}
        # The unschedulable ones by their rejecters: most events are of no interest to most of them.
        self._rejected: dict[frozenset[str], dict[str, QueuedPod]] = {}
        # Entries of pods that have moved on since stay in the heaps until they come to the top.
        self._heaps: dict[Place, list[_Entry]] = {Place.ACTIVE: [], Place.BACKOFF: []}
        # When pods in backoffQ may be tried, the earliest first; with entries of pods that have moved on, too.
        self._expiries: list[tuple[float, str]] = []
        self._arrivals = 0
        self._error_flush = now + ERROR_FLUSH_INTERVAL
        self._unschedulable_flush = now + UNSCHEDULABLE_FLUSH_INTERVAL

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> QueuedPod | None:
        return self._pods.get(uid)

    def count(self, place: Place) -> int:
        return len(self._in[place])

    def _move(self, queued: QueuedPod, place: Place) -> None:
        uid = queued.pod.uid
        self._leave(queued)
        queued.place = place
        self._in[place][uid] = queued
        if place is Place.UNSCHEDULABLE:
            queued.group = queued.rejecters
            self._rejected.setdefault(queued.group, {})[uid] = queued
        if place in self._heaps:
            heapq.heappush(self._heaps[place], self._entry(queued))
        if place is Place.BACKOFF:
            heapq.heappush(self._expiries, (self._expiry(queued), uid))

    def _leave(self, queued: QueuedPod) -> None:
        uid = queued.pod.uid
        self._in[queued.place].pop(uid, None)
        if queued.place is Place.UNSCHEDULABLE:
            group = self._rejected[queued.group]
            del group[uid]
            if not group:
                del self._rejected[queued.group]

    def _entry(self, queued: QueuedPod) -> _Entry:
        """The order within activeQ, and within backoffQ: there whole seconds of expiry come first."""
        second = math.floor(self._expiry(queued)) if queued.place is Place.BACKOFF else 0
        return (second, -queued.pod.priority, queued.timestamp, queued.order, queued.pod.uid)

    def _take(self, place: Place) -> QueuedPod | None:
        heap = self._heaps[place]
        while heap:
            entry = heapq.heappop(heap)
            queued = self._in[place].get(entry[-1])
            if queued is not None and self._entry(queued) == entry:
                return queued
        return None

    # -- pods come, change and go -------------------------------------------------------------------------

    def add(self, pod: SchedPod, now: float) -> None:
        """A new pod, to be tried as soon as its turn comes."""
        self.delete(pod.uid)
        self._arrivals += 1
        queued = QueuedPod(pod, Place.ACTIVE, now, self._arrivals)
        self._pods[pod.uid] = queued
        self._move(queued, Place.ACTIVE)

    def update(self, pod: SchedPod, events: Iterable[ClusterEvent], now: float) -> None:
        """The pod itself changed; `events` is what the change means to it."""
        queued = self._pods[pod.uid]
        queued.pod = pod
        for event in events:
            self._notify(queued, event, always, now)

    def delete(self, uid: str) -> None:
        """The pod went away, was bound, or is not ours any more. An attempt under way ends with nothing to do."""
        queued = self._pods.pop(uid, None)
        if queued is not None:
            self._leave(queued)

    # -- attempts -----------------------------------------------------------------------------------------

    def pop(self) -> QueuedPod | None:
        """The next pod to try, now in flight; None if nothing is to be tried."""
        chosen = self._take(Place.ACTIVE) or self._take(Place.BACKOFF)
        if chosen is None:
            return None
        chosen.missed = []
        chosen.attempts += 1
        self._move(chosen, Place.IN_FLIGHT)
        return chosen

    def rejected(self, uid: str, rejecters: frozenset[str], now: float) -> None:
        """The attempt ended with no node. Without any rejecter nobody could say which event helps: an error."""
        if not rejecters:
            self.failed(uid, now)
            return
        queued = self._pods.get(uid)
        if queued is None:
            return
        queued.rejections += 1
        queued.errors = 0
        queued.timestamp, queued.rejecters = now, rejecters
        self._move(queued, Place.UNSCHEDULABLE)
        missed, queued.missed = queued.missed, []
        for event, hint in missed:
            self._notify(queued, event, hint, now)

    def failed(self, uid: str, now: float) -> None:
        """The attempt ended with an error: only time helps."""
        queued = self._pods.get(uid)
        if queued is None:
            return
        queued.errors += 1
        queued.timestamp, queued.rejecters, queued.missed = now, frozenset(), []
        self._move(queued, Place.ERROR_BACKOFF)

    # -- events and time ----------------------------------------------------------------------------------

    def happened(self, event: ClusterEvent, now: float, *, hint: Hint = always, up_to: float = math.inf) -> None:
        """Something in the cluster changed: wake those whose rejecters care, up to this priority."""
        groups = [self._in[Place.IN_FLIGHT]]
        groups += [group for rejecters, group in self._rejected.items() if interested(event, rejecters)]
        for queued in [queued for group in groups for queued in group.values()]:
            if queued.pod.priority <= up_to:
                self._notify(queued, event, hint, now)

    def _notify(self, queued: QueuedPod, event: ClusterEvent, hint: Hint, now: float) -> None:
        if queued.place is Place.IN_FLIGHT:
            queued.missed.append((event, hint))
        elif queued.place is Place.UNSCHEDULABLE and any(
            hint(plugin, queued.pod) for plugin in interested(event, queued.rejecters)
        ):
            if queued.held:
                queued.wanted = queued.wanted or event is ClusterEvent.ASSIGNED_POD_DELETE
            else:
                self._requeue(queued, now)

    def _requeue(self, queued: QueuedPod, now: float) -> None:
        if not queued.held:
            self._move(queued, Place.BACKOFF if self._expiry(queued) > now else Place.ACTIVE)

    def hold(self, uid: str) -> None:
        """Keep the pod back while its preemption is being carried out: only of pods that go is remembered."""
        queued = self._pods.get(uid)
        if queued is not None:
            queued.held, queued.wanted = True, False

    def release(self, uid: str, now: float) -> None:
        """The preemption was carried out: the pod may be tried again, and is if something happened meanwhile."""
        queued = self._pods.get(uid)
        if queued is not None and queued.held:
            queued.held = False
            if queued.wanted and queued.place is Place.UNSCHEDULABLE:
                self._requeue(queued, now)

    def activate(self, uid: str) -> None:
        """Try the pod now, whatever it waits for (errors excepted)."""
        queued = self._pods.get(uid)
        if queued is not None and queued.place in (Place.UNSCHEDULABLE, Place.BACKOFF):
            queued.held = False
            self._move(queued, Place.ACTIVE)

    def tick(self, now: float) -> None:
        """Time has passed: move what is due."""
        while self._next_expiry() <= now:
            _, uid = heapq.heappop(self._expiries)
            self._move(self._in[Place.BACKOFF][uid], Place.ACTIVE)
        if now >= self._error_flush:
            self._error_flush = _next_tick(self._error_flush, ERROR_FLUSH_INTERVAL, now)
            self._flush(Place.ERROR_BACKOFF, math.floor(now))
        if now >= self._unschedulable_flush:
            self._unschedulable_flush = _next_tick(self._unschedulable_flush, UNSCHEDULABLE_FLUSH_INTERVAL, now)
            for queued in list(self._in[Place.UNSCHEDULABLE].values()):
                if now - queued.timestamp > UNSCHEDULABLE_TIMEOUT:
                    self._requeue(queued, now)

    def _next_expiry(self) -> float:
        """When the first pod of backoffQ may be tried; infinity if there is none."""
        while self._expiries:
            expiry, uid = self._expiries[0]
            queued = self._in[Place.BACKOFF].get(uid)
            if queued is not None and self._expiry(queued) == expiry:
                return expiry
            heapq.heappop(self._expiries)
        return math.inf

    def _flush(self, place: Place, until: float) -> None:
        for queued in list(self._in[place].values()):
            if self._expiry(queued) <= until:
                self._move(queued, Place.ACTIVE)

    @property
    def next_error_tick(self) -> float | None:
        """When pods whose last attempt ended with an error are looked at next; None if there are none."""
        return self._error_flush if self.count(Place.ERROR_BACKOFF) else None

    def next_tick(self) -> float:
        """When `tick` has to be called next; infinity if nothing waits for time."""
        times = [self._next_expiry()]
        if self.count(Place.ERROR_BACKOFF):
            times.append(self._error_flush)
        if self.count(Place.UNSCHEDULABLE):
            times.append(self._unschedulable_flush)
        return min(times, default=math.inf)

    def _expiry(self, queued: QueuedPod) -> float:
        tries = queued.errors or queued.rejections
        if tries == 0:
            return queued.timestamp
        return queued.timestamp + min(self._initial * 2.0 ** min(tries - 1, 60), self._max)


def _next_tick(last: float, interval: float, now: float) -> float:
    return last + interval * (math.floor((now - last) / interval) + 1)
