"""What the informers say: pods and nodes seen and gone, perhaps missed, twice, late, or out of order.

The API server's word counts over everything decided here, except for being *older* than what is known: a record with a
lower resourceVersion, of a UID known to be gone, or of a bound pod as unbound, is late news and changes nothing.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from extender.core.freshness import older
from extender.scheduling.driver import same_node
from extender.scheduling.events import BindAnswer, Instruction, NodeGone, NodeSeen, PodGone, PodSeen
from extender.scheduling.requeue import Requeuer
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState, TransitionContext
from extender.scheduling.trusted_claims import believed

#: How many pods that do not wait are remembered with the version that said so.
ASIDE = 4096


class InformerHandler:
    """Handles informer events, and wakes whom they leave waiting for room that kube-scheduler does not see."""

    def __init__(self, transitions: SchedulingState, waking: Requeuer, counts: Counter[tuple[str, str]]) -> None:
        self.t = transitions
        self.waking = waking
        self.policy = transitions.policy
        self.counts = counts
        #: Unbound pods that do not wait (gated, terminating, not ours) and the version that said so, latest last.
        self._aside: OrderedDict[str, str] = OrderedDict()

    # -- pods -----------------------------------------------------------------------------------------------------

    def pod_seen(self, event: PodSeen, now: float) -> list[Instruction]:
        pod = event.pod
        if self.t.cache.removed(pod.uid) or older(pod.resource_version, self._aside.get(pod.uid, "")):
            return self._late()
        entry = self.t.roster.named(pod.key)
        if entry is not None and older(pod.resource_version, entry.shown):
            return self._late()
        if entry is not None and entry.uid != pod.uid and self._in_flight_and_younger(entry, pod):
            entry.rival = pod
            return self._late()
        out: list[Instruction] = []
        known = self.t.roster.get(pod.uid)
        if not pod.uid or (known is not None and known is not entry):
            self.counts["anomalies", "uid_of_another_name"] += 1
            if known is None or known.shown:
                return []
            out += self.pod_gone(known, f"its UID is that of {pod.key}", now, bury=False)
        if entry is not None and entry.uid != pod.uid:
            # Only an end that the informer could have shown is believed for good; what a caller said may yet come true.
            entry.rival = None
            out += self.pod_gone(entry, f"replaced by a pod with UID {pod.uid}", now, bury=bool(entry.shown))
            entry = None
        return out + self._reconcile(entry, pod, now)

    def _in_flight_and_younger(self, entry: PodInfo, pod: Pod) -> bool:
        """Whether the pod that is being bound came after this one of its name: then the write tells what is true."""
        return self.t.in_flight(entry) and older(pod.resource_version, entry.pod.resource_version)

    def _late(self) -> list[Instruction]:
        self.counts["late_events", "pod"] += 1
        return []

    def pod_found(self, entry: PodInfo, pod: Pod, now: float) -> list[Instruction]:
        """A live read found it; that is as good as an event, but not the informer's word."""
        entry.shown = pod.resource_version
        return self._finished(entry, pod, now) if pod.finished else self._bound(entry, pod, now)

    def _reconcile(self, entry: PodInfo | None, pod: Pod, now: float) -> list[Instruction]:
        if pod.finished:
            self.t.cache.remove_pod(pod.uid)
            return [] if entry is None else self._finished(entry, pod, now)
        if not pod.node_name:
            return self._unbound(entry, pod, now)
        if entry is None:
            return self._bound(PodInfo(pod, informed=True, shown=pod.resource_version), pod, now)
        self._inform(entry, pod)
        return self._bound(entry, pod, now)

    def _finished(self, entry: PodInfo, pod: Pod, now: float) -> list[Instruction]:
        return self.pod_gone(entry, f"it has {pod.phase.lower()}", now)

    def _inform(self, entry: PodInfo, pod: Pod) -> None:
        """The informer shows it: it will also tell its end, so nothing needs to be verified for that."""
        entry.informed, entry.shown = True, pod.resource_version
        if entry.state in (State.WAITING, State.BOUND):
            self.t.release_hold(entry)

    def _bound(self, entry: PodInfo, pod: Pod, now: float) -> list[Instruction]:
        """Whoever waits for the bind learns it here too: the event may be quicker than the write's own answer."""
        if entry.state is State.BOUND and older(pod.resource_version, entry.pod.resource_version):
            return self._late()
        lost = None if pod.node_name == entry.node else reason(Code.BIND_LOST, node=pod.node_name)
        out = self.answer_binds(entry, lost)
        freed = entry.state is State.BINDING and lost is not None
        self.t.move(entry, State.BOUND, now, TransitionContext("shown bound", placed=believed(self.t, entry, pod)))
        entry.pod = pod
        return out + (self.waking.room_freed(now) if freed else [])

    def _unbound(self, entry: PodInfo | None, pod: Pod, now: float) -> list[Instruction]:
        wanted = self.policy.wants_place(pod)
        self._aside.pop(pod.uid, None)
        if not wanted:
            self._set_aside(pod)
        if entry is None:
            if wanted:
                entry = PodInfo(pod, informed=True, shown=pod.resource_version)
                self.t.move(entry, State.WAITING, now, TransitionContext("the informer shows it"))
            return []
        if entry.state is State.BOUND:
            return self._late()
        self._inform(entry, pod)
        entry.pod = pod
        if entry.state is State.BINDING:
            return [] if wanted else self._unwanted_while_binding(entry, pod, now)
        if not wanted:
            return self.pod_gone(entry, "it is terminating, gated or not ours any more", now, bury=False)
        self.t.teller.wants_place(entry.pod)
        return []

    def _set_aside(self, pod: Pod) -> None:
        """So that a late record, from before it stopped waiting, does not bring it back."""
        self._aside[pod.uid] = pod.resource_version
        if len(self._aside) > ASIDE:
            self._aside.popitem(last=False)

    def _unwanted_while_binding(self, entry: PodInfo, pod: Pod, now: float) -> list[Instruction]:
        """A pod that is being deleted or gated will never be bound; any other still may, if a write is on its way."""
        if (pod.terminating or pod.gated) and not self.t.in_flight(entry):
            return self.pod_gone(entry, "it is terminating or gated", now, bury=False)
        entry.informed = False  # if the write fails, the informer has nothing more to say: then it is verified
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

    def pod_gone(self, entry: PodInfo, why: str, now: float, *, bury: bool = True) -> list[Instruction]:
        """Takes a pod out. Room that it held unbound is freed without kube-scheduler seeing it."""
        answers = self.answer_binds(entry, reason(Code.BIND_GONE))
        unseen = entry.state is not State.BOUND
        self.t.move(entry, State.UNKNOWN, now, TransitionContext(why))
        if bury:
            self.t.cache.remove_pod(entry.uid)
        if entry.rival is not None and not entry.shown:  # then only a caller spoke of it, and the other pod is real
            answers += self.pod_seen(PodSeen(entry.rival), now)
        if unseen:
            return answers + self.waking.room_freed(now)
        self.waking.room_shown(now)
        return answers

    def answer_binds(self, entry: PodInfo, error: Reason | None) -> list[Instruction]:
        """Everybody who asked for this bind gets the same answer."""
        requests, entry.binds = entry.binds, []
        return [BindAnswer(request, error) for request in requests]

    def let_go(self, entry: PodInfo, why: Reason, now: float, *, expired: bool = False) -> None:
        """A proposal came to nothing. A pod that is none of ours, or being deleted, is not kept waiting here."""
        if not self.policy.wants_place(entry.pod):
            self.t.move(entry, State.UNKNOWN, now, TransitionContext(why.text))
            return
        self.t.move(entry, State.WAITING, now, TransitionContext(why.text, reason=why, expired=expired))
        if entry.insisted:
            self.waking.line_up(entry, now)

    # -- nodes ----------------------------------------------------------------------------------------------------

    def node_seen(self, event: NodeSeen, now: float) -> list[Instruction]:
        known = self.t.cache.node(event.node.name)
        if known is not None and older(event.node.resource_version, known.resource_version):
            self.counts["late_events", "node"] += 1
            return []
        self.t.teller.set_node(event.node)
        before = self.t.cache.set_node(event.node)
        if before is None or not same_node(before, event.node):
            self.waking.room_shown(now)
        return []

    def node_gone(self, event: NodeGone, now: float) -> list[Instruction]:
        """Proposals for a node that is gone come to nothing; a write in flight is waited for."""
        freed = False
        why = reason(Code.NODE_DELETED, node=event.name)
        for entry in self.t.roster:
            if entry.state is State.BINDING and entry.node == event.name and not self.t.in_flight(entry):
                self.let_go(entry, why, now)
                freed = True
        self.t.teller.drop_node(event.name)
        self.t.cache.remove_node(event.name)
        return self.waking.room_freed(now) if freed else []
