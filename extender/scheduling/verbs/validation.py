"""What a caller's word about a pod is worth: kube-scheduler may be ahead of our informer, behind it, or mistaken.

The pod may be unknown to the informer yet: the request is proof enough, to be reconciled or verified later. But a
caller's word alone neither ends another pod nor revives one that is gone.
"""

from __future__ import annotations

from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from extender.core.freshness import older
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState, TransitionContext


class RequestValidator:
    """Holds what a caller says of a pod against what is known."""

    def __init__(self, transitions: SchedulingState) -> None:
        self.t = transitions

    def bound_to(self, pod: Pod) -> str | None:
        """The node it is bound to, as we know or as the caller says."""
        entry = self.t.roster.get(pod.uid)
        return entry.node if entry is not None and entry.state is State.BOUND else pod.node_name or None

    def is_over(self, pod: Pod) -> Reason | None:
        """Whether the pod is beyond scheduling, as the caller says or as we know better."""
        if pod.finished:
            return reason(Code.POD_FINISHED)
        if pod.oversized:
            return reason(Code.POD_TOO_LARGE, detail=pod.oversized)
        entry = self.t.roster.get(pod.uid)
        ending = pod.terminating or (entry is not None and entry.pod.terminating) or self.t.cache.removed(pod.uid)
        return reason(Code.POD_TERMINATING) if ending else None

    def mistaken_for(self, pod: Pod, now: float) -> Reason | None:
        """Another pod has this name or this UID. A caller's word alone does not end it: the informer's will.

        Only one that nobody but a caller has spoken of, and that holds nothing, makes way.
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
        """The pod's entry with the younger record, the caller's or ours; the informer may not have shown it yet."""
        entry = self.t.roster.get(pod.uid)
        if entry is None:
            entry = PodInfo(pod)
            self.t.move(entry, State.WAITING, now, TransitionContext("kube-scheduler asks for it"))
        elif not older(pod.resource_version, entry.pod.resource_version):
            entry.pod = pod
        return entry
