"""Validates requests: kube-scheduler may be ahead of our informer, behind it, or mistaken about a pod.

A request may name a pod that the informer has not reported yet. The pod is then accepted, and reconciled or verified
later. A request alone neither ends another pod nor revives one that is gone.
"""

from __future__ import annotations

from typing import NamedTuple

from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from extender.core.freshness import older
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState, TransitionContext


class Rejection(NamedTuple):
    """Why a request about a pod is not decided. `error`: the request is mistaken about which pod it is."""

    reason: Reason
    error: bool = False


class RequestValidator:
    """Checks the pod in a request against the known state."""

    def __init__(self, state: SchedulingState) -> None:
        self.state = state

    def meet(self, pod: Pod, now: float, *, if_bound: Code) -> PodInfo | Rejection:
        """Return the PodInfo with the younger record, the request's or ours; an unknown pod gets a new one.

        A pod that is bound, by our state or by the request, is rejected with the code `if_bound`.
        """
        pod_info = self.state.pods.get(pod.uid)
        node = pod_info.node if pod_info is not None and pod_info.state is State.BOUND else pod.node_name
        if node:
            return Rejection(reason(if_bound, node=node))
        over = self._is_over(pod, pod_info)
        if over is not None:
            return Rejection(over)
        if pod_info is None:
            return self._meet_unknown(pod, now)
        if pod_info.key != pod.key:
            text = f"UID {pod.uid} belongs to {pod_info.key}, not to {pod.key}"
            return Rejection(reason(Code.BAD_REQUEST, detail=text), error=True)
        known = pod_info.pod.resource_version
        if pod.resource_version == known or not older(pod.resource_version, than=known):
            pod_info.pod = pod
        return pod_info

    def _is_over(self, pod: Pod, pod_info: PodInfo | None) -> Reason | None:
        """Why the pod can never be scheduled, by our state or by the request; None if it can."""
        if pod.finished:
            return reason(Code.POD_FINISHED)
        if pod.oversized:
            return reason(Code.POD_TOO_LARGE, detail=pod.oversized)
        ends = self.state.cache.removed(pod.uid) if pod_info is None else pod_info.pod.terminating
        return reason(Code.POD_TERMINATING) if ends or pod.terminating else None

    def _meet_unknown(self, pod: Pod, now: float) -> PodInfo | Rejection:
        """Add a PodInfo for a pod that only this request has named, unless another pod has its name.

        A request alone does not end the other pod: only the informer does. The exception is a waiting pod that is known
        only from a request itself: it is removed.
        """
        other = self.state.pods.named(pod.key)
        if other is not None:
            if other.informed or other.state is not State.WAITING:
                return Rejection(reason(Code.UID_MISMATCH, uid=other.uid), error=True)
            why = f"kube-scheduler asks for UID {pod.uid} of that name"
            self.state.move(other, State.UNKNOWN, now, TransitionContext(why))
        pod_info = PodInfo(pod)
        self.state.move(pod_info, State.WAITING, now, TransitionContext("kube-scheduler asks for it"))
        return pod_info
