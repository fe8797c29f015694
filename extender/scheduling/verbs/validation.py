"""Validates requests: kube-scheduler may be ahead of our informer, behind it, or mistaken about a pod.

A request may name a pod that the informer has not reported yet. The pod is then accepted, and reconciled or verified
later. A request alone neither ends another pod nor revives one that is gone.
"""

from __future__ import annotations

from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from extender.core.freshness import older
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState, TransitionContext


class RequestValidator:
    """Checks the pod in a request against the known state."""

    def __init__(self, transitions: SchedulingState) -> None:
        self.t = transitions

    def bound_to(self, pod: Pod) -> str | None:
        """The node that the pod is bound to, by our state or by the request; None if it is not bound."""
        entry = self.t.roster.get(pod.uid)
        return entry.node if entry is not None and entry.state is State.BOUND else pod.node_name or None

    def is_over(self, pod: Pod) -> Reason | None:
        """Why the pod can never be scheduled, by our state or by the request; None if it can."""
        if pod.finished:
            return reason(Code.POD_FINISHED)
        if pod.oversized:
            return reason(Code.POD_TOO_LARGE, detail=pod.oversized)
        entry = self.t.roster.get(pod.uid)
        ending = pod.terminating or (entry is not None and entry.pod.terminating) or self.t.cache.removed(pod.uid)
        return reason(Code.POD_TERMINATING) if ending else None

    def mistaken_for(self, pod: Pod, now: float) -> Reason | None:
        """Return the refusal if another pod has this name or this UID; None otherwise.

        A request alone does not end the other pod: only the informer does. The exception is a waiting pod that is known
        only from a request itself: it is removed.
        """
        known = self.t.roster.get(pod.uid)
        if known is not None and known.key != pod.key:
            return reason(Code.BAD_REQUEST, detail=f"UID {pod.uid} belongs to {known.key}, not to {pod.key}")
        other = self.t.roster.named(pod.key)
        if other is None or other.uid == pod.uid:
            return None
        if other.informed or other.state is not State.WAITING:
            return reason(Code.UID_MISMATCH, uid=other.uid)
        self.t.move(other, State.UNKNOWN, now, TransitionContext(f"kube-scheduler asks for UID {pod.uid} of that name"))
        return None

    def meet(self, pod: Pod, now: float) -> PodInfo:
        """Return the pod's entry with the younger record, the request's or ours. An unknown pod gets a new entry."""
        entry = self.t.roster.get(pod.uid)
        if entry is None:
            entry = PodInfo(pod)
            self.t.move(entry, State.WAITING, now, TransitionContext("kube-scheduler asks for it"))
        elif not older(pod.resource_version, entry.pod.resource_version):
            entry.pod = pod
        return entry
