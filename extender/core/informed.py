"""What the informers say: pods and nodes seen and gone, perhaps missed, twice, late, or out of order.

The API server's word counts over everything decided here, except for being *older* than what is known: a record with a
lower resourceVersion, of a UID known to be gone, or of a bound pod as unbound, is late news and changes nothing.
"""

from __future__ import annotations

from collections import Counter

from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from extender.core.entry import Entry, State
from extender.core.events import (
    BindAnswer,
    Instruction,
    NodeGone,
    NodeSeen,
    Nudge,
    PodGone,
    PodSeen,
)
from extender.core.transitions import Facts, Transitions
from extender.core.verbs import ROOM
from extender.core.version import older


class Informed:
    """Handles informer events, and wakes whom they leave waiting for room that kube-scheduler does not see."""

    def __init__(self, transitions: Transitions, counts: Counter[tuple[str, str]]) -> None:
        self.t = transitions
        self.policy = transitions.policy
        self.counts = counts
        self._to_nudge: dict[str, None] = {}

    # -- pods -----------------------------------------------------------------------------------------------------

    def pod_seen(self, event: PodSeen, now: float) -> list[Instruction]:
        pod = event.pod
        if self.t.cache.removed(pod.uid):
            return self._late()
        entry = self.t.roster.named(pod.key)
        if entry is not None and entry.informed and older(pod.resource_version, entry.pod.resource_version):
            return self._late()
        out: list[Instruction] = []
        if entry is not None and entry.uid != pod.uid:
            # Only an end that the informer could have shown is believed for good; what a caller said may yet come true.
            out = self.pod_gone(entry, f"replaced by a pod with UID {pod.uid}", now, bury=entry.informed)
            entry = None
        return out + self._reconcile(entry, pod, now, informed=True)

    def _late(self) -> list[Instruction]:
        self.counts["late_events", "pod"] += 1
        return []

    def pod_found(self, entry: Entry, pod: Pod, now: float) -> list[Instruction]:
        """A live read found it; that is as good as an event, but the informer has yet to show it."""
        return self._reconcile(entry, pod, now, informed=False)

    def _reconcile(self, entry: Entry | None, pod: Pod, now: float, *, informed: bool) -> list[Instruction]:
        if pod.finished:
            self.t.cache.remove_pod(pod.uid)
            return [] if entry is None else self.pod_gone(entry, f"it has {pod.phase.lower()}", now)
        if pod.node_name:
            return self._bound(entry, pod, now, informed=informed)
        return self._unbound(entry, pod, now)

    def _bound(self, entry: Entry | None, pod: Pod, now: float, *, informed: bool) -> list[Instruction]:
        """Whoever waits for the bind learns it here too: the event may be quicker than the write's own answer."""
        entry = entry or Entry(pod)
        lost = None if pod.node_name == entry.node else reason(Code.BIND_LOST, node=pod.node_name)
        out = self.answer_binds(entry, lost)
        freed = entry.state is State.BINDING and lost is not None
        entry.informed = entry.informed or informed
        self.t.move(entry, State.BOUND, now, Facts("shown bound", placed=pod))
        entry.pod = pod
        return out + (self.room_freed(now) if freed else [])

    def _unbound(self, entry: Entry | None, pod: Pod, now: float) -> list[Instruction]:
        wanted = self.policy.ours(pod) and not pod.terminating and not pod.gated
        if entry is None:
            if wanted:
                self.t.move(Entry(pod, informed=True), State.WAITING, now, Facts("the informer shows it"))
            return []
        if entry.state is State.BOUND:
            return self._late()
        self._inform(entry, pod)
        if entry.state is State.BINDING:
            return self._unbound_while_binding(entry, pod, now)
        if not wanted:
            return self.pod_gone(entry, "it is terminating, gated or not ours any more", now, bury=False)
        self.t.teller.wants_place(pod)
        return []

    def _inform(self, entry: Entry, pod: Pod) -> None:
        if not older(pod.resource_version, entry.pod.resource_version):
            entry.pod = pod
        entry.informed = True
        if entry.state is State.WAITING:
            self.t.release_hold(entry)

    def _unbound_while_binding(self, entry: Entry, pod: Pod, now: float) -> list[Instruction]:
        """Expected until the bind is confirmed. A pod that is being deleted will never be bound."""
        if pod.terminating and not self.t.is_insisted(entry, now):
            return self.pod_gone(entry, "it is being deleted", now, bury=False)
        return []

    def pod_lost(self, event: PodGone, now: float) -> list[Instruction]:
        """PodGone: by UID, or whoever has the name as far as the informer has shown it."""
        entry = self.t.roster.get(event.uid) if event.uid else self.t.roster.named(event.key)
        out: list[Instruction] = []
        if entry is not None and (event.uid or entry.informed):
            out = self.pod_gone(entry, "deleted", now)
        elif event.uid:
            self.t.cache.remove_pod(event.uid)
        return out

    def pod_gone(self, entry: Entry, why: str, now: float, *, bury: bool = True) -> list[Instruction]:
        """Takes a pod out. Room that it held unbound is freed without kube-scheduler seeing it."""
        answers = self.answer_binds(entry, reason(Code.BIND_GONE))
        unseen = entry.state is not State.BOUND
        self.t.move(entry, State.UNKNOWN, now, Facts(why))
        if bury:
            self.t.cache.remove_pod(entry.uid)
        return answers + (self.room_freed(now) if unseen else [])

    def answer_binds(self, entry: Entry, error: Reason | None) -> list[Instruction]:
        """Everybody who asked for this bind gets the same answer."""
        requests, entry.binds = entry.binds, []
        return [BindAnswer(request, error) for request in requests]

    def let_go(self, entry: Entry, why: Reason, now: float, *, expired: bool = False) -> None:
        """A proposal came to nothing. A pod that is none of ours is not kept waiting here."""
        if self.policy.ours(entry.pod):
            self.t.move(entry, State.WAITING, now, Facts(why.text, reason=why, expired=expired))
        else:
            self.t.move(entry, State.UNKNOWN, now, Facts(why.text))

    # -- nodes ----------------------------------------------------------------------------------------------------

    def node_seen(self, event: NodeSeen, _now: float) -> list[Instruction]:
        self.t.teller.set_node(event.node)
        self.t.cache.set_node(event.node)
        return []

    def node_gone(self, event: NodeGone, now: float) -> list[Instruction]:
        """Proposals for a node that is gone come to nothing; a write in flight is waited for."""
        freed = False
        why = reason(Code.NODE_DELETED, node=event.name)
        for entry in self.t.roster:
            if entry.state is State.BINDING and entry.node == event.name and not self.t.is_insisted(entry, now):
                self.let_go(entry, why, now)
                freed = True
        self.t.teller.drop_node(event.name)
        self.t.cache.remove_node(event.name)
        return self.room_freed(now) if freed else []

    # -- waking ---------------------------------------------------------------------------------------------------

    def room_freed(self, now: float) -> list[Instruction]:
        """Room became free by our doing: kube-scheduler has seen no event, so the pods that wait are nudged."""
        woken = [entry for uid in self.t.wake.touch(ROOM) if (entry := self.t.roster.get(uid))]
        for entry in sorted(woken, key=lambda entry: -entry.pod.priority):
            self._to_nudge[entry.uid] = None
        return self.nudge(now)

    def nudge(self, now: float) -> list[Instruction]:
        """As many as one batch allows; a pod nudged a moment ago stays in line."""
        out: list[Instruction] = []
        for uid in list(self._to_nudge):
            entry = self.t.roster.get(uid)
            if entry is None or entry.state is not State.WAITING:
                del self._to_nudge[uid]
            elif entry.nudged_at + self.policy.nudge_again <= now and len(out) < self.policy.nudge_batch:
                del self._to_nudge[uid]
                entry.nudged_at = now
                self.counts["nudges", "sent"] += 1
                out.append(Nudge(entry.key.namespace, entry.key.name, entry.uid))
        return out

    def next_nudge(self) -> float | None:
        """When the next pod in line may be nudged, seconds; None if none waits for it."""
        waiting = [entry for uid in self._to_nudge if (entry := self.t.roster.get(uid))]
        return min((entry.nudged_at + self.policy.nudge_again for entry in waiting), default=None)
