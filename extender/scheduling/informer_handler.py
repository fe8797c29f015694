"""Handles informer events: pods and nodes seen and gone. Events may be missed, doubled, late or out of order.

The API server overrides everything decided here, unless its record is late, by what the API server has shown before
(`Cache.is_late`).
"""

from __future__ import annotations

from collections import Counter

from algorithm.model import Pod, same_but_version
from algorithm.reasons import Code, Reason, reason
from extender.core.freshness import older
from extender.scheduling import commands
from extender.scheduling.events import BindAnswer, Instruction, NodeGone, NodeSeen, PodGone, PodSeen
from extender.scheduling.requeue import Requeuer
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState, TransitionContext
from extender.scheduling.trusted_claims import believed


class InformerHandler:
    """Handles informer events, and requeues waiting pods for room whose release kube-scheduler does not see."""

    def __init__(self, state: SchedulingState, requeuer: Requeuer, counts: Counter[tuple[str, str]]) -> None:
        self.state = state
        self.requeuer = requeuer
        self.policy = state.policy
        self.counts = counts

    # -- pods -----------------------------------------------------------------------------------------------------

    def pod_seen(self, event: PodSeen, now: float) -> list[Instruction]:
        """Handle PodSeen: bring the pod's state in line with the API server's record, unless the record is late.

        The pod may begin to wait, be confirmed as bound, or be removed. A pod of the same name with another UID is
        replaced.
        """
        pod = event.pod
        if self.state.cache.is_late(pod):
            return self._late()
        pod_info = self.state.pods.named(pod.key)
        if pod_info is not None and pod_info.uid != pod.uid and self._in_flight_and_younger(pod_info, pod):
            pod_info.older_namesake = pod
            return self._late()
        out: list[Instruction] = []
        known = self.state.pods.get(pod.uid)
        if not pod.uid or (known is not None and known is not pod_info):
            self.counts["anomalies", "uid_of_another_name"] += 1
            if known is None or self.state.shown(known):
                return []
            out += self.pod_gone(known, f"its UID is that of {pod.key}", now, tombstone=False)
        if pod_info is not None and pod_info.uid != pod.uid:
            # Bury only a pod that the API server has shown: one known from a caller alone may still appear.
            pod_info.older_namesake = None
            was_shown = bool(self.state.shown(pod_info))
            out += self.pod_gone(pod_info, f"replaced by a pod with UID {pod.uid}", now, tombstone=was_shown)
            pod_info = None
        return out + self._reconcile(pod_info, pod, now)

    def _in_flight_and_younger(self, pod_info: PodInfo, pod: Pod) -> bool:
        """Whether a write is in flight for the younger of two pods of one name: its outcome shows which one exists."""
        return self.state.in_flight(pod_info) and older(pod.resource_version, pod_info.pod.resource_version)

    def _late(self) -> list[Instruction]:
        self.counts["late_events", "pod"] += 1
        return []

    def pod_found(self, pod_info: PodInfo, pod: Pod, now: float) -> list[Instruction]:
        """A live read found the pod. Treat it like an event, except that it does not make the pod `informed`."""
        if pod_info.state is State.BOUND and self.state.cache.is_late(pod):
            return self._late()
        self.state.cache.show(pod)
        return self._finished(pod_info, pod, now) if pod.finished else self._bound(pod_info, pod, now)

    def _reconcile(self, pod_info: PodInfo | None, pod: Pod, now: float) -> list[Instruction]:
        if pod.finished:
            self.state.cache.remove_pod(pod.uid)
            return [] if pod_info is None else self._finished(pod_info, pod, now)
        if not pod.node_name:
            return self._unbound(pod_info, pod, now)
        if pod_info is None:
            pod_info = PodInfo(pod)
        self._inform(pod_info, pod)
        return self._bound(pod_info, pod, now)

    def _finished(self, pod_info: PodInfo, pod: Pod, now: float) -> list[Instruction]:
        return self.pod_gone(pod_info, f"it has {pod.phase.lower()}", now)

    def _inform(self, pod_info: PodInfo, pod: Pod) -> None:
        """The informer has reported the pod, so it will also report its end: no hold is needed to verify that."""
        pod_info.informed = True
        if pod_info.deferred:
            self.state.undeferred.append(pod_info)
        self.state.cache.show(pod)
        if pod_info.state in (State.WAITING, State.BOUND):
            self.state.release_hold(pod_info)

    def _bound(self, pod_info: PodInfo, pod: Pod, now: float) -> list[Instruction]:
        """The pod is bound. Answer pending bind requests too: the event may arrive before the write's own report.

        This is where the commands of `commands.BESIDE_BINDING` are given.
        """
        lost = None if pod.node_name == pod_info.node else reason(Code.BIND_LOST, node=pod.node_name)
        out = self.answer_binds(pod_info, lost) if pod_info.binds else []
        was_binding = pod_info.state is State.BINDING
        ours = pod_info.placed if lost is None else None
        as_placed = ours is not None and pod.annotations == ours.annotations
        placed = pod if as_placed else believed(self.state, pod_info, pod)
        self.state.move(pod_info, State.BOUND, now, TransitionContext("shown bound", placed=placed))
        pod_info.pod = pod
        if not was_binding:
            return out
        if lost is not None:
            return out + self.requeuer.room_freed(now)
        for beside in commands.BESIDE_BINDING:
            out += beside(pod)
        return out

    def _unbound(self, pod_info: PodInfo | None, pod: Pod, now: float) -> list[Instruction]:
        wanted = self.policy.should_schedule(pod)
        if pod_info is None:
            if wanted:
                pod_info = PodInfo(pod)
                self._inform(pod_info, pod)
                self.state.move(pod_info, State.WAITING, now, TransitionContext("the informer shows it"))
            else:
                self.state.cache.versions.ignore(pod.key, pod.uid, pod.resource_version)
            return []
        self._inform(pod_info, pod)
        pod_info.pod = pod
        if pod_info.state is State.BINDING:
            return [] if wanted else self._unwanted_while_binding(pod_info, pod, now)
        if not wanted:
            return self.pod_gone(pod_info, "it is terminating, gated or not ours any more", now, tombstone=False)
        self.state.driver.add_unallocated(pod_info.pod)
        return []

    def _unwanted_while_binding(self, pod_info: PodInfo, pod: Pod, now: float) -> list[Instruction]:
        """A pod became terminating, gated or not ours while it was being bound.

        A terminating or gated pod cannot be bound any more, unless a write is in flight. In every other case the bind
        goes on.
        """
        if (pod.terminating or pod.gated) and not self.state.in_flight(pod_info):
            return self.pod_gone(pod_info, "it is terminating or gated", now, tombstone=False)
        pod_info.informed = False  # if the write fails, the informer may report nothing more: then the hold is verified
        return []

    def pod_lost(self, event: PodGone, now: float) -> list[Instruction]:
        """Handle PodGone: by UID, or without one the pod of this name if the informer has reported it."""
        pod_info = self.state.pods.get(event.uid) if event.uid else self.state.pods.named(event.key)
        out: list[Instruction] = []
        if pod_info is not None and (event.uid or pod_info.informed):
            out = self.pod_gone(pod_info, "deleted", now)
        elif event.uid:
            self.state.cache.remove_pod(event.uid)
        return out

    def pod_gone(self, pod_info: PodInfo, why: str, now: float, *, tombstone: bool = True) -> list[Instruction]:
        """Remove a pod. If it held room without being bound, kube-scheduler does not see that room become free."""
        answers = self.answer_binds(pod_info, reason(Code.BIND_GONE))
        unseen = pod_info.state is not State.BOUND
        was_shown = bool(self.state.shown(pod_info))
        self.state.move(pod_info, State.UNKNOWN, now, TransitionContext(why))
        if tombstone:
            self.state.cache.remove_pod(pod_info.uid)
        if pod_info.older_namesake is not None and not was_shown:  # only a caller named this pod; the namesake exists
            answers += self.pod_seen(PodSeen(pod_info.older_namesake), now)
        if unseen:
            return answers + self.requeuer.room_freed(now)
        self.requeuer.room_shown(now)
        return answers

    def answer_binds(self, pod_info: PodInfo, error: Reason | None) -> list[Instruction]:
        """Give all pending bind requests for this pod the same answer."""
        requests, pod_info.binds = pod_info.binds, []
        return [BindAnswer(request, error) for request in requests]

    def let_go(self, pod_info: PodInfo, why: Reason, now: float, *, expired: bool = False) -> None:
        """Withdraw a proposal. The pod waits again; it is removed if it is not ours, or wants no place any more."""
        if not self.policy.should_schedule(pod_info.pod):
            self.state.move(pod_info, State.UNKNOWN, now, TransitionContext(why.text))
            return
        self.state.move(pod_info, State.WAITING, now, TransitionContext(why.text, reason=why, expired=expired))
        if pod_info.place_pinned:
            self.requeuer.enqueue(pod_info, now)

    # -- nodes ----------------------------------------------------------------------------------------------------

    def node_seen(self, event: NodeSeen, now: float) -> list[Instruction]:
        """Handle NodeSeen: add or update the node, unless the record is late."""
        if self.state.cache.is_late_node(event.node):
            self.counts["late_events", "node"] += 1
            return []
        self.state.driver.set_node(event.node)
        before = self.state.cache.set_node(event.node)
        if before is None or not same_but_version(before, event.node):
            self.requeuer.room_shown(now)
        return []

    def node_gone(self, event: NodeGone, now: float) -> list[Instruction]:
        """Handle NodeGone: withdraw the proposals for this node, except those with a write in flight."""
        freed = False
        why = reason(Code.NODE_DELETED, node=event.name)
        for pod_info in self.state.pods:
            if pod_info.state is State.BINDING and pod_info.node == event.name and not self.state.in_flight(pod_info):
                self.let_go(pod_info, why, now)
                freed = True
        self.state.driver.drop_node(event.name)
        self.state.cache.remove_node(event.name)
        return self.requeuer.room_freed(now) if freed else []
