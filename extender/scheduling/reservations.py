"""Room that an algorithm keeps for waiting pods. It expires if kube-scheduler does not ask about them in time.

    reserved --- kube-scheduler asks, the pod is placed or gone ----> (forgotten)
        |
        +------- `policy.reservation_timeout` seconds are over ---> LAPSED --- placed or gone ---> (forgotten)

A gang's plan keeps seats for members that kube-scheduler has not asked about yet. kube-scheduler asks within seconds,
also about those that were refused before (`requeue.py` sees to it), unless its own plug-ins accept no node for the pod:
then the seat would be kept for as long as the pod waits. An algorithm has no timer, so the deadlines are here: the
algorithm names the pods that it keeps room for, and receives the set of those whose room has lapsed. Such a pod loses
only its seat: it is placed like any other when kube-scheduler asks about it.

A pod's author can end a seat and bring it back, for example by changing the gang's minimum. So the time for which a
seat was kept is remembered for equally long, and counts when the seat comes back: no author can keep a seat for more
than half of the time.

All times begin again with a term: before it, this replica did not decide, so kube-scheduler could not ask.
"""

from __future__ import annotations

from collections import Counter

from extender.core.deadlines import Deadlines
from extender.scheduling.events import Event as AnyEvent
from extender.scheduling.events import Instruction, Synced, TermBegan, Ticked
from extender.scheduling.requeue import Requeuer
from extender.scheduling.state.pod_info import State
from extender.scheduling.state.transitions import SchedulingState


class Reservations:
    """Follows the algorithm's reserved pods. `after` is called while there are any, or past ones count (`active`)."""

    def __init__(self, state: SchedulingState, requeuer: Requeuer, counts: Counter[tuple[str, str]]) -> None:
        self.state = state
        self.requeuer = requeuer
        self.counts = counts
        #: When each reservation lapses, by UID.
        self.lapses: Deadlines[str] = Deadlines()
        #: Past reservations by UID: how long room was kept, and when that ended, seconds.
        self._spent: dict[str, tuple[float, float]] = {}
        self._lapsed: frozenset[str] = frozenset()
        self._seen: frozenset[str] = frozenset()
        #: Whether an event may change something although the algorithm reserves no room now.
        self.active = False

    @property
    def lapsed(self) -> frozenset[str]:
        """UIDs of the pods that still wait and whose room has lapsed."""
        return self._lapsed

    def after(self, event: AnyEvent, now: float) -> list[Instruction]:
        """Return further instructions after this event, which has been handled already."""
        if isinstance(event, Synced | TermBegan):
            for uid in sorted(self.lapses):
                self.lapses.set(uid, now + self.state.policy.reservation_timeout)
            self._spent.clear()
        if self.state.driver.reserved is not self._seen:
            self._follow(self.state.driver.reserved, now)
        if self._lapsed:
            self._forget()
        out = self._expire(now) if isinstance(event, Ticked) else []
        self.active = bool(self._seen or self._lapsed or self._spent)
        return out

    def tell_again(self) -> None:
        """Pass the lapsed pods to a new algorithm that has taken over."""
        self.state.driver.set_lapsed(self._lapsed)

    def _follow(self, reserved: frozenset[str], now: float) -> None:
        known = frozenset(self.lapses)
        for uid in known - reserved:
            self._spent[uid] = (now + self.state.policy.reservation_timeout - (self.lapses.get(uid) or now), now)
            self.lapses.discard(uid)
        for uid in sorted(reserved - known):
            self.lapses.set(uid, now - self._kept(uid, now) + self.state.policy.reservation_timeout)
            self.requeuer.room_kept(uid, now)
        self._spent = {
            uid: (kept, ended) for uid, (kept, ended) in self._spent.items() if now < ended + kept and self._waits(uid)
        }
        self._seen = reserved

    def _kept(self, uid: str, now: float) -> float:
        """Seconds for which room was kept for the pod before; 0 if it has been without for as long since."""
        kept, ended = self._spent.pop(uid, (0.0, now))
        return kept if now < ended + kept else 0.0

    def _forget(self) -> None:
        gone = frozenset(uid for uid in self._lapsed if not self._waits(uid))
        if gone:
            self._lapse(self._lapsed - gone)

    def _waits(self, uid: str) -> bool:
        pod_info = self.state.pods.get(uid)
        return pod_info is not None and pod_info.state in (State.WAITING, State.PREEMPTING)

    def _expire(self, now: float) -> list[Instruction]:
        due = self.lapses.due(now)
        if not due:
            return []
        for uid in due:
            self.lapses.discard(uid)
            self.counts["holds", "seat_lapsed"] += 1
            pod_info = self.state.pods.get(uid)
            if pod_info is not None:
                text = f"room kept for it was given back: nobody came in {self.state.policy.reservation_timeout:g} s"
                pod_info.record(now, text, self.state.sequence)
        self._lapse(self._lapsed.union(due))
        return self.requeuer.room_freed(now)

    def _lapse(self, uids: frozenset[str]) -> None:
        self._lapsed = uids
        self.state.driver.set_lapsed(uids)
        self._seen = self.state.driver.reserved
