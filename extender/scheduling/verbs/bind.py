"""The bind verb: bind a pod to the node that was proposed for it, and nowhere else. Two binds for one place cause one
write.

A pod that is not ours passes its filter with all nodes. Its bind goes through us like any other; from then on it is
counted on its node.
"""

from __future__ import annotations

from collections import Counter, OrderedDict

import msgspec

from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from extender.core.ledger import HoldState
from extender.scheduling.commands import WriteBinding
from extender.scheduling.driver import AlgorithmFault
from extender.scheduling.events import BindAnswer, BindRequested, Instruction
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState, TransitionContext


class BindHandler:
    """Answers the bind verb, and starts the binding writes."""

    def __init__(self, state: SchedulingState, counts: Counter[tuple[str, str]]) -> None:
        self.state = state
        self.policy = state.policy
        self.counts = counts
        self._passed: OrderedDict[str, Pod] = OrderedDict()

    def forget_passed(self) -> None:
        """Forget all passed pods: from now on, such a pod must pass a filter again before it can be bound."""
        self._passed.clear()

    def remember_passed(self, pod: Pod) -> None:
        """Remember that this pod passed a filter. It may then be bound to any known node.

        All offered nodes passed. The list is not kept, as it can have thousands of names. Labels and annotations are
        not kept either: the informer reports them when the pod is bound.
        """
        self._passed[pod.uid] = msgspec.structs.replace(pod, labels=(), annotations=())
        self._passed.move_to_end(pod.uid)
        if len(self._passed) > self.policy.limits.passed_pods:
            self._passed.popitem(last=False)

    def bind(self, event: BindRequested, now: float) -> list[Instruction]:
        """Handle a bind request: start the binding write, or answer at once.

        The answer comes at once if the bind is refused, or if the binding is written already. Otherwise it comes with
        the outcome of the write, or with the event that shows the pod bound.
        """
        pod_info = self._leave_other_place(self.state.pods.get(event.uid), event, now)
        refusal = self._cannot_bind(event, pod_info)
        if refusal is None and pod_info is None:
            try:
                pod_info = self._adopt(event, now)
            except AlgorithmFault as fault:
                refusal = reason(Code.ALGORITHM_FAILED, detail=str(fault))
        if refusal is not None or pod_info is None:
            self.counts["binds", "refused"] += 1
            return [BindAnswer(event.request, refusal)]
        if pod_info.state is State.BOUND:
            return [BindAnswer(event.request)]
        return self._bind_place(pod_info, event.request, now)

    def _leave_other_place(self, pod_info: PodInfo | None, event: BindRequested, now: float) -> PodInfo | None:
        """Release the earlier place of a pod that is not ours if kube-scheduler now wants another node.

        Its earlier bind failed, and no write is in flight. Returns the PodInfo, None if it was released.
        """
        if pod_info is None or pod_info.state is not State.BINDING or event.uid not in self._passed:
            return pod_info
        if pod_info.node == event.node or pod_info.key != event.key or self.state.in_flight(pod_info):
            return pod_info
        self.state.move(pod_info, State.UNKNOWN, now, TransitionContext(f"kube-scheduler now wants it on {event.node}"))
        return None

    def _cannot_bind(self, event: BindRequested, pod_info: PodInfo | None) -> Reason | None:
        if pod_info is None:
            return self._cannot_adopt(event)
        if pod_info.key != event.key:
            return reason(Code.BAD_REQUEST, detail=f"PodUID {event.uid} belongs to {pod_info.key}, not to {event.key}")
        if pod_info.state is State.BOUND:
            return None if pod_info.node == event.node else reason(Code.ALREADY_BOUND, node=pod_info.node)
        if pod_info.state is not State.BINDING:
            return reason(Code.NEVER_PROPOSED, node=event.node)
        if pod_info.node != event.node:
            return reason(Code.PROPOSED_OTHER_NODE, proposed=pod_info.node, node=event.node)
        return None

    def _cannot_adopt(self, event: BindRequested) -> Reason | None:
        """Why a pod without a PodInfo cannot be bound; None if it passed a filter as not ours and the node exists."""
        if self.state.cache.removed(event.uid):
            return reason(Code.BIND_GONE)
        passed = self._passed.get(event.uid)
        namesake = self.state.pods.named(event.key)
        if namesake is not None:
            return reason(Code.UID_MISMATCH, uid=namesake.uid)
        if passed is None or passed.key != event.key:
            return reason(Code.NEVER_PROPOSED, node=event.node)
        return None if self.state.cache.node(event.node) else reason(Code.NODE_UNKNOWN)

    def _adopt(self, event: BindRequested, now: float) -> PodInfo:
        pod_info = PodInfo(self._passed.pop(event.uid))
        placed = pod_info.pod.placed(event.node)
        self.state.move(
            pod_info, State.BINDING, now, TransitionContext("none of ours, bound through us", placed=placed)
        )
        return pod_info

    def _bind_place(self, pod_info: PodInfo, request: int, now: float) -> list[Instruction]:
        pod_info.unanswered = 0
        hold = self.state.ledger.get(pod_info.token)
        if hold is not None and hold.state is HoldState.COMMITTED:
            return [BindAnswer(request)]
        pod_info.binds.append(request)
        return self.write(pod_info, now)

    def write(self, pod_info: PodInfo, now: float) -> list[Instruction]:
        """Start the binding write. If one is already in flight, start none: its outcome answers both requests."""
        if not self.state.ledger.commit(pod_info.token, now=now) or pod_info.placed is None:
            return []
        pod_info.record(now, f"binding to {pod_info.node} is being written", self.state.sequence)
        pod_info.reading = None
        self.state.unresolved.set(pod_info.uid, now + self.policy.write_timeout)
        pod = pod_info.placed
        return [
            WriteBinding(
                pod_info.token,
                pod.namespace,
                pod.name,
                pod.uid,
                pod.node_name,
                pod_info.annotations,
                valid_for=self.policy.write_validity,
            )
        ]
