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
        entry = self._leave_other_place(self.state.pods.get(event.uid), event, now)
        refusal = self._cannot_bind(event, entry)
        if refusal is None and entry is None:
            try:
                entry = self._adopt(event, now)
            except AlgorithmFault as fault:
                refusal = reason(Code.ALGORITHM_FAILED, detail=str(fault))
        if refusal is not None or entry is None:
            self.counts["binds", "refused"] += 1
            return [BindAnswer(event.request, refusal)]
        if entry.state is State.BOUND:
            return [BindAnswer(event.request)]
        return self._bind_place(entry, event.request, now)

    def _leave_other_place(self, entry: PodInfo | None, event: BindRequested, now: float) -> PodInfo | None:
        """Release the earlier place of a pod that is not ours if kube-scheduler now wants another node.

        Its earlier bind failed, and no write is in flight. Returns the entry, None if it was released.
        """
        if entry is None or entry.state is not State.BINDING or event.uid not in self._passed:
            return entry
        if entry.node == event.node or entry.key != event.key or self.state.in_flight(entry):
            return entry
        self.state.move(entry, State.UNKNOWN, now, TransitionContext(f"kube-scheduler now wants it on {event.node}"))
        return None

    def _cannot_bind(self, event: BindRequested, entry: PodInfo | None) -> Reason | None:
        if entry is None:
            return self._cannot_adopt(event)
        if entry.key != event.key:
            return reason(Code.BAD_REQUEST, detail=f"PodUID {event.uid} belongs to {entry.key}, not to {event.key}")
        if entry.state is State.BOUND:
            return None if entry.node == event.node else reason(Code.ALREADY_BOUND, node=entry.node)
        if entry.state is not State.BINDING:
            return reason(Code.NEVER_PROPOSED, node=event.node)
        if entry.node != event.node:
            return reason(Code.PROPOSED_OTHER_NODE, proposed=entry.node, node=event.node)
        return None

    def _cannot_adopt(self, event: BindRequested) -> Reason | None:
        """Why a pod without an entry cannot be bound; None if it passed a filter as not ours and the node exists."""
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
        entry = PodInfo(self._passed.pop(event.uid))
        placed = entry.pod.placed(event.node)
        self.state.move(entry, State.BINDING, now, TransitionContext("none of ours, bound through us", placed=placed))
        return entry

    def _bind_place(self, entry: PodInfo, request: int, now: float) -> list[Instruction]:
        entry.unanswered = 0
        hold = self.state.ledger.get(entry.token)
        if hold is not None and hold.state is HoldState.COMMITTED:
            return [BindAnswer(request)]
        entry.binds.append(request)
        return self.write(entry, now)

    def write(self, entry: PodInfo, now: float) -> list[Instruction]:
        """Start the binding write. If one is already in flight, start none: its outcome answers both requests."""
        if not self.state.ledger.commit(entry.token, now=now) or entry.placed is None:
            return []
        entry.record(now, f"binding to {entry.node} is being written", self.state.sequence)
        entry.reading = None
        self.state.unresolved.set(entry.uid, now + self.policy.write_timeout)
        pod = entry.placed
        return [
            WriteBinding(
                entry.token,
                pod.namespace,
                pod.name,
                pod.uid,
                pod.node_name,
                entry.annotations,
                valid_for=self.policy.write_validity,
            )
        ]
