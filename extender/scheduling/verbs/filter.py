"""The filter verb: choose a node for the pod. The answer is a proposal with a lease.

The rules, each learned from the behaviour of a real kube-scheduler:

* a repeated filter renews the proposal's lease. If the node is no longer offered, it makes a new proposal, unless a
  write is in flight: then the proposed place is kept;
* the answer never names a node that was not offered: that would fail the pod's whole scheduling cycle;
* a filter with only the pod's nominated node is a trial: the full list follows at once, so a trial that fails costs the
  pod nothing.
"""

from __future__ import annotations

from collections import Counter

from algorithm.interface import Bind, Phase, Preempt, ScheduleResult, SuggestedNodes, Wait
from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from extender.scheduling.dependencies import DependencyHandler
from extender.scheduling.driver import AlgorithmFault
from extender.scheduling.events import FilterAnswer, FilterRequested, Instruction
from extender.scheduling.requeue import Requeuer
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState, TransitionContext
from extender.scheduling.trusted_claims import written
from extender.scheduling.verbs.bind import BindHandler
from extender.scheduling.verbs.preempt import PreemptHandler
from extender.scheduling.verbs.steady import SteadyRefusals
from extender.scheduling.verbs.validation import Rejection, RequestValidator


class FilterHandler:
    """Answers the filter verb."""

    def __init__(
        self,
        state: SchedulingState,
        requeuer: Requeuer,
        bind: BindHandler,
        preempt: PreemptHandler,
        dependencies: DependencyHandler,
        counts: Counter[tuple[str, str]],
    ) -> None:
        self.state = state
        self.policy = state.policy
        self.driver = state.driver
        self.requeuer = requeuer
        self.validator = RequestValidator(state)
        self.bind = bind
        self.preempt = preempt
        self._dependencies = dependencies
        self.counts = counts
        self._manages_all = state.policy.manages_all
        self._steady = SteadyRefusals(state.driver.fault_log, counts)

    def filter(self, event: FilterRequested, now: float) -> list[Instruction]:
        """Answer a filter request: the one node for the pod, a refusal with reasons, or all nodes if it is not ours.

        A pod with a place keeps it, with a new lease, if the place is offered again. The FilterAnswer is among the
        instructions; they may also write a binding, begin or end a preemption, and requeue other pods.
        """
        pod = event.pod
        if not self._manages_all and not self.policy.manages(pod):
            return [self._pass_on(pod, event.nodes)]
        pod_info = self.validator.meet(pod, now, if_bound=Code.ALREADY_BOUND)
        if isinstance(pod_info, Rejection):
            return [FilterAnswer(reason=pod_info.reason, error=pod_info.error)]
        pod_info.attempts += 1
        pod_info.place_pinned = False
        if pod_info.state is State.BINDING:
            return self._filter_again(pod_info, event.nodes, now)
        if (waits := self._dependencies.refuse(pod_info, now)) is not None:
            return [self._steady.of(pod_info, _refused(waits), now)]
        return self._propose(pod_info, event.nodes, now)

    def _propose(self, pod_info: PodInfo, nodes: SuggestedNodes, now: float) -> list[Instruction]:
        """Ask the algorithm for a place for a pod that has none. A failed trial leaves the state unchanged."""
        if pod_info.requeuable:
            self.requeuer.asked(pod_info)
        self.driver.add_unallocated(pod_info.pod)
        try:
            result = self.driver.schedule(pod_info.pod, nodes, Phase.FILTERING)
            if _is_trial(pod_info, nodes) and not (isinstance(result, Bind) and result.node in nodes):
                return [self._fail_trial(pod_info, result)]
            if isinstance(result, Bind):
                answer = self._place(pod_info, result, nodes, now)
                self._hear_of_gang(pod_info, result, now)
                return answer
            pod_info.tried = ""
            result, more = self.preempt.refused(pod_info, result, nodes, now)
        except AlgorithmFault as fault:
            return [self._steady.of(pod_info, self._fault(pod_info, fault), now)]
        pod_info.refuse(result, now, self.state.sequence)
        incomplete = self._hear_of_gang(pod_info, result, now)
        if pod_info.state is State.WAITING:
            self.requeuer.park(pod_info, now, gang=incomplete)
        elif pod_info.preemption is None:
            self.requeuer.wait_for_victims(pod_info)
        self.counts["attempts", "unschedulable"] += 1
        return [self._steady.of(pod_info, _refused(result.reason, result), now), *more]

    def _hear_of_gang(self, pod_info: PodInfo, result: ScheduleResult, now: float) -> str:
        """Return the gang whose other members the pod must wait for; "" if it need not wait for any.

        In the latter case, members that were told to wait for the gang are requeued, unless no node was offered.
        """
        gang = self.driver.gang(pod_info.pod)
        code = None if isinstance(result, Bind) else result.reason.code
        if gang is None or not gang.name:
            return ""
        if code is Code.GANG_INCOMPLETE:
            return gang.name
        if code is not Code.NOTHING_OFFERED:
            self.requeuer.gang_complete(gang.name, now, by=pod_info)
        return ""

    def _fail_trial(self, pod_info: PodInfo, result: ScheduleResult) -> FilterAnswer:
        """Refuse a trial. The full list follows at once, so only the tried node is recorded."""
        pod_info.tried = pod_info.pod.nominated_node_name
        if isinstance(result, Bind):
            return _refused(reason(Code.PLACED_ELSEWHERE, node=result.node))
        return _refused(result.reason, result)

    def _place(self, pod_info: PodInfo, bind: Bind, nodes: SuggestedNodes, now: float) -> list[Instruction]:
        offered = bind.node in nodes
        if not offered and not self.policy.force_bind_unoffered:
            raise self.driver.misbehaved("it chose node {}, which was not offered", bind.node, subject=pod_info.pod)
        if not offered and self.state.cache.node(bind.node) is None:
            raise self.driver.misbehaved("it chose node {}, which does not exist", bind.node, subject=pod_info.pod)
        if pod_info.state is State.PREEMPTING and pod_info.preemption is None:
            self.counts["preemptions", "kube-scheduler placed"] += 1
        annotations = bind.annotations
        if pod_info.pod.annotations:
            annotations = written(pod_info.pod, annotations, self.policy.claims)
        placed = pod_info.pod.placed(bind.node, annotations)
        self.state.move(pod_info, State.BINDING, now, TransitionContext("placed by the algorithm", placed=placed))
        pod_info.annotations = annotations
        return self._answer_placed(pod_info, offered, now)

    def _answer_placed(self, pod_info: PodInfo, offered: bool, now: float) -> list[Instruction]:
        """Return the place if it was offered. Also write the binding if the operator's force-bind settings say so."""
        pod_info.unanswered += 1
        pod_info.tried = ""
        self.counts["attempts", "scheduled"] += 1
        force_bind_due = 0 < self.policy.force_bind_after < pod_info.unanswered
        write = [] if offered and not force_bind_due else self.bind.write(pod_info, now)
        if write:
            self.counts["force_binds", "tired" if offered else "unoffered"] += 1
        if offered:
            return [FilterAnswer(node=pod_info.node), *write]
        return [self._insist(pod_info), *write]

    def _pass_on(self, pod: Pod, nodes: SuggestedNodes) -> FilterAnswer:
        """Pass all nodes for a pod that is not ours.

        If our own binding write for it may still arrive, only the node of that binding passes.
        """
        self.bind.remember_passed(pod)
        pod_info = self.state.pods.get(pod.uid)
        if (
            pod_info is None
            or pod_info.key != pod.key
            or pod_info.state is not State.BINDING
            or not self.state.in_flight(pod_info)
        ):
            return FilterAnswer(pass_through=True)
        return FilterAnswer(node=pod_info.node) if pod_info.node in nodes else self._insist(pod_info)

    def _insist(self, pod_info: PodInfo) -> FilterAnswer:
        """Refuse: the pod's place is not offered, but it is kept because we are binding the pod there."""
        pod_info.place_pinned = True
        return _refused(reason(Code.BIND_IN_FLIGHT, node=pod_info.node))

    def _filter_again(self, pod_info: PodInfo, nodes: SuggestedNodes, now: float) -> list[Instruction]:
        if pod_info.node in nodes:
            if not self.state.is_writing(pod_info) and self.state.renew(pod_info, now):
                pod_info.reading = None
            return self._answer_placed(pod_info, True, now)
        if self.state.in_flight(pod_info):
            return [self._insist(pod_info)]
        if self.policy.force_bind_unoffered and not _is_trial(pod_info, nodes):
            return self._answer_placed(pod_info, False, now)
        return self._propose_anew(pod_info, nodes, now)

    def _propose_anew(self, pod_info: PodInfo, nodes: SuggestedNodes, now: float) -> list[Instruction]:
        """Propose again: the proposed node is no longer offered. A failed trial must not cost the pod its place."""
        before = pod_info.placed
        assert before is not None
        trial = _is_trial(pod_info, nodes)
        self.state.move(
            pod_info, State.WAITING, now, TransitionContext(f"node {before.node_name} is no longer offered")
        )
        answer = self._propose(pod_info, nodes, now)
        if trial and pod_info.state is State.WAITING:
            answer = self._keep_place(pod_info, before, now)
        if pod_info.node == before.node_name:
            return answer
        return answer + self.requeuer.room_freed(now, by=pod_info)

    def _keep_place(self, pod_info: PodInfo, before: Pod, now: float) -> list[Instruction]:
        try:
            self.state.move(
                pod_info, State.BINDING, now, TransitionContext("the trial failed, the place is kept", placed=before)
            )
        except AlgorithmFault as fault:
            return [self._fault(pod_info, fault)]
        return [_refused(reason(Code.PLACED_ELSEWHERE, node=pod_info.node))]

    def _fault(self, pod_info: PodInfo, fault: AlgorithmFault) -> FilterAnswer:
        self.counts["attempts", "error"] += 1
        pod_info.tried = ""
        pod_info.reason = reason(Code.ALGORITHM_FAILED, detail=str(fault))
        return FilterAnswer(reason=pod_info.reason, error=True)


def _refused(why: Reason, result: Preempt | Wait | None = None) -> FilterAnswer:
    return FilterAnswer(reason=why, nodes=result.nodes if isinstance(result, Wait) else {})


def _is_trial(pod_info: PodInfo, nodes: SuggestedNodes) -> bool:
    """Whether this is a trial: kube-scheduler offers the nominated node alone; the full list follows in the same cycle.

    The second such request in a row is no trial: then the full list has only this node.
    """
    nominated = pod_info.pod.nominated_node_name
    return nominated not in ("", pod_info.tried) and len(nodes) == 1 and nodes[0] == nominated
