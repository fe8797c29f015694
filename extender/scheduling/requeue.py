"""Wakes pods that wait for room when room becomes free and kube-scheduler does not see it, or saw it before we did.

    refused: park --> [parked on ROOM] --- room freed by our doing ---------> in line --> Nudge (a batch at a time)
                       [and its GANG] ---- the gang is complete --------------^ ^   |
                            |                                                   |   +--> asked meanwhile: out of line
                            +--- asked again while the informer was behind -----+

kube-scheduler tries a waiting pod again when a pod is deleted or a node changes: it watches these itself. Three kinds
of news it cannot have, and here they become a nudge (an annotation on the pod, which makes it try again):

* a proposal that came to nothing: to kube-scheduler that room was never taken;
* it may learn of a deleted pod *before our informer does*, ask at once, and be refused by what is no longer true. So
  who was refused within `LAG` seconds before our informer showed free room is nudged `SETTLE` seconds later, unless
  it was asked about meanwhile.
* that a gang is complete says nobody. Where its last member is bound at once, kube-scheduler tries the others for that
  (1.36 does, 1.30 does not); so they are nudged `GATHER` seconds later, unless they were asked about meanwhile.
"""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict

from extender.scheduling.commands import RequeuePod
from extender.scheduling.events import Instruction
from extender.scheduling.policy import Policy
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState

#: What waiting pods are parked on.
ROOM = "room"
#: What those are parked on who were told to wait for others of their gang, before its name.
_GANG = "gang "
#: By how much our informer may be behind kube-scheduler's, and how long we wait for it to ask by itself, seconds.
LAG = 5.0
SETTLE = 1.0
#: How long kube-scheduler may take to try a complete gang by itself, seconds.
GATHER = 0.3
#: A batch of nudges is for that many seconds.
PAUSE = 1.0


class Requeuer:
    """Who waits for room, and who is in line for a nudge."""

    def __init__(self, transitions: SchedulingState, counts: Counter[tuple[str, str]]) -> None:
        self.t = transitions
        self.policy: Policy = transitions.policy
        self.counts = counts
        #: When each pod in line may be nudged; the heap has leftovers of those that left the line.
        self._line: dict[str, float] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._entered = 0
        #: The batch of now: when it began, and how many nudges it had.
        self._batch_began = float("-inf")
        self._batch_sent = 0
        #: Who was refused last, the latest at the end, with the time; older than LAG is of no interest.
        self._refused: OrderedDict[str, float] = OrderedDict()
        #: Who preempts through kube-scheduler and was refused: kube-scheduler may have seen all victims go before us.
        self._early: dict[str, None] = {}
        #: The informer showed free room: first and last time, and nobody has been looked after yet.
        self._shown: tuple[float, float] | None = None

    # -- asking ---------------------------------------------------------------------------------------------------

    def asked(self, entry: PodInfo) -> None:
        """kube-scheduler asks about the pod: it need not be made to."""
        self._line.pop(entry.uid, None)
        self._refused.pop(entry.uid, None)
        self._early.pop(entry.uid, None)

    def park(self, entry: PodInfo, now: float, *, gang: str = "") -> None:
        """It was refused, and waits: for room, and with `gang` for others of that gang.

        What was freed in the course of its own refusal is no news.
        """
        keys = [ROOM, _GANG + gang] if gang else [ROOM]
        self.t.wake.park(entry.uid, self.t.wake.look(keys))
        self._refused[entry.uid] = now
        horizon = now - LAG if self._shown is None else self._shown[0] - LAG
        while self._refused and next(iter(self._refused.values())) < horizon:
            self._refused.popitem(last=False)

    def wait_for_victims(self, entry: PodInfo) -> None:
        """It preempts by kube-scheduler's hand and was refused: looked after when our informer shows them gone."""
        self._early[entry.uid] = None

    # -- room -----------------------------------------------------------------------------------------------------

    def room_freed(self, now: float, *, by: PodInfo | None = None) -> list[Instruction]:
        """Room became free by our doing. The pod that it was taken from is not woken by it."""
        keys = self.t.wake.keys_of(by.uid) if by is not None else ()
        if by is not None:
            self.t.wake.drop(by.uid)
        woken = [entry for uid in self.t.wake.touch(ROOM) if (entry := self.t.roster.get(uid))]
        for entry in sorted(woken, key=lambda entry: -entry.pod.priority):
            self.line_up(entry, now)
        if by is not None and keys:
            self.t.wake.park(by.uid, self.t.wake.look(keys))
        return self.nudge(now)

    def gathered(self, gang: str, now: float, *, by: PodInfo) -> None:
        """One of a gang was not told to wait for others: those who were may be told something better, too."""
        for uid in self.t.wake.touch(_GANG + gang):
            entry = self.t.roster.get(uid)
            if entry is not None and entry is not by:
                self.line_up(entry, now, after=GATHER)

    def room_shown(self, now: float) -> None:
        """The informer shows free room. kube-scheduler sees it too, sooner or later than we do."""
        if self._refused or self._early:
            self._shown = (self._shown[0] if self._shown else now, now)

    def line_up(self, entry: PodInfo, now: float, *, at_once: bool = False, after: float = 0.0) -> None:
        """The pod is nudged as soon as that is decent, not before `after` seconds; or at once."""
        due = now if at_once else max(now + after, entry.nudged_at + self.policy.nudge_again)
        if self._line.get(entry.uid, due + 1) <= due:
            return
        self._entered += 1
        self._line[entry.uid] = due
        heapq.heappush(self._heap, (due, self._entered, entry.uid))

    def _look_after_refused(self, now: float) -> None:
        if self._shown is None or now < self._shown[0] + SETTLE:
            return
        first, last = self._shown
        self._shown = None
        for uid, at in self._refused.items():
            entry = self.t.roster.get(uid)
            if entry is not None and first - LAG <= at <= last:
                self.line_up(entry, now)
        for uid in list(self._early):
            entry = self.t.roster.get(uid)
            if entry is None or entry.state is not State.PREEMPTING:
                del self._early[uid]
            elif all(self.t.cache.pod(victim.uid) is None for victim in entry.victims):
                del self._early[uid]
                self.line_up(entry, now)

    # -- nudging --------------------------------------------------------------------------------------------------

    def nudge(self, now: float) -> list[Instruction]:
        """One batch of those in line; a pod nudged a moment ago stays in line."""
        if self.t.term is None:
            return []  # whoever leads sees the room too; all are nudged when a term begins here
        self._look_after_refused(now)
        if now >= self._batch_began + PAUSE:
            self._batch_began, self._batch_sent = now, 0
        out: list[Instruction] = []
        while self._batch_sent < self.policy.nudge_batch and self._first_due() <= now:
            uid = heapq.heappop(self._heap)[2]
            del self._line[uid]
            entry = self.t.roster.get(uid)
            if entry is not None and (entry.state in (State.WAITING, State.PREEMPTING) or entry.insisted):
                entry.nudged_at = now
                self._batch_sent += 1
                self.counts["nudges", "sent"] += 1
                out.append(RequeuePod(entry.key.namespace, entry.key.name, entry.uid))
        return out

    def next_due(self) -> float | None:
        """When `nudge` has something to do next, seconds; None if nobody waits for it."""
        if self.t.term is None or not (self._shown or self._heap):
            return None
        times = [self._shown[0] + SETTLE] if self._shown else []
        first = self._first_due()
        if first != float("inf"):
            full = self._batch_sent >= self.policy.nudge_batch
            times.append(max(first, self._batch_began + PAUSE) if full else first)
        return min(times, default=None)

    def _first_due(self) -> float:
        while self._heap and self._line.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else float("inf")
