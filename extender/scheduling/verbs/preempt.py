"""The preempt verb: which pods to evict. Also decides who evicts them if filter finds no place.

    mode             filter finds no place          preempt is asked
    kube-scheduler   nothing                        victims, of lower priority, on its candidates; it evicts them
    direct           a plan for the whole gang is   likewise, on the candidates too; the answer has no victims
                     carried out
    auto             as direct                      gangs, and plans that need several nodes: as direct;
                                                    others: as kube-scheduler

In mode auto, we and kube-scheduler never preempt for one pod at the same time. While a preemption of ours is under way
for a pod, the answer to preempt names no victims. While victims that were named to kube-scheduler still run, filter
begins no preemption. kube-scheduler takes the nodes that it offers to filter for free: it would not evict there.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from typing import Final

from algorithm.interface import Bind, Phase, Preempt, ScheduleResult, SuggestedNodes, Victim, Wait
from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from extender.scheduling.dependencies import DependencyHandler
from extender.scheduling.driver import AlgorithmFault
from extender.scheduling.events import Candidate, Instruction, PreemptAnswer, PreemptRequested
from extender.scheduling.policy import PreemptionMode
from extender.scheduling.preemption.executor import PreemptionExecutor
from extender.scheduling.preemption.planner import member_plans, union
from extender.scheduling.requeue import Requeuer
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState, TransitionContext
from extender.scheduling.verbs.validation import Rejection, RequestValidator

#: Bytes, roughly, of the offers that are kept for pods that only kube-scheduler has named: anybody can name any.
MOST_UNSEEN: Final = 32 << 20
#: Bytes of a name besides its characters: the text object, and its entries in a tuple and in a set.
_NAME: Final = 100


class UnseenOffers:
    """Keeps the offers of pods that the informer has not reported, as far as there is room: the oldest are dropped.

    A pod without its offer loses no decision: kube-scheduler offers nodes with each request.
    """

    def __init__(self, state: SchedulingState, counts: Counter[tuple[str, str]]) -> None:
        self._state, self._counts = state, counts
        #: Bytes by UID, the oldest first, and their sum. The informer may have reported some of the pods since.
        self._sizes: OrderedDict[str, int] = OrderedDict()
        self._total = 0

    def keep(self, pod_info: PodInfo, nodes: SuggestedNodes) -> None:
        """Make these nodes the pod's last offer."""
        pod_info.offered = nodes
        if pod_info.informed:
            return
        self._total -= self._sizes.pop(pod_info.uid, 0)
        self._sizes[pod_info.uid] = size = _NAME + _size_of(nodes)
        self._total += size
        while self._total > MOST_UNSEEN:
            uid, size = self._sizes.popitem(last=False)
            self._total -= size
            other = self._state.pods.get(uid)
            if other is not None and not other.informed:
                other.offered = SuggestedNodes()
                self._counts["offers", "dropped"] += 1


def _size_of(nodes: SuggestedNodes) -> int:
    return _NAME * len(nodes) + (len(nodes.text) or sum(map(len, nodes)))


class PreemptHandler:
    """Answers the preempt verb, and decides who evicts."""

    def __init__(
        self,
        state: SchedulingState,
        requeuer: Requeuer,
        executor: PreemptionExecutor,
        dependencies: DependencyHandler,
        counts: Counter[tuple[str, str]],
    ) -> None:
        self.state = state
        self.policy = state.policy
        self.driver = state.driver
        self.requeuer = requeuer
        self.executor = executor
        self._dependencies = dependencies
        self.validator = RequestValidator(state)
        self.counts = counts
        self.offers = UnseenOffers(state, counts)

    # -- filter found no place ------------------------------------------------------------------------------------

    def refused(
        self, pod_info: PodInfo, result: Preempt | Wait, nodes: SuggestedNodes, now: float
    ) -> tuple[Preempt | Wait, list[Instruction]]:
        """Return the result for filter to answer, and further instructions. Raises AlgorithmFault."""
        self.offers.keep(pod_info, nodes)
        if pod_info.preemption is not None:
            return self._goes_on(pod_info, result, nodes, now)
        late, out = self._end_if_late(pod_info, now)
        if late is not None:
            result = self._decide_anew(pod_info, late, nodes, now)
        out += self._keep(pod_info, result, now)
        if not result.reason.preemptible or not self._may_evict(pod_info):
            return result, out
        if (backing_off := self.executor.backoff.backed_off(pod_info.uid)) is not None:
            return Wait(backing_off, _nodes(result)), out
        answer, more = self._carry_out(pod_info, self.executor.plan(pod_info, nodes), nodes, now)
        return answer or result, [*out, *more]

    def _goes_on(
        self, pod_info: PodInfo, result: Preempt | Wait, nodes: SuggestedNodes, now: float
    ) -> tuple[Preempt | Wait, list[Instruction]]:
        out = self.executor.asked(pod_info, nodes, now)
        why = pod_info.preemption.reason if pod_info.preemption is not None else pod_info.reason
        return Wait(why) if why is not None else result, out

    def _decide_anew(self, pod_info: PodInfo, late: Reason, nodes: SuggestedNodes, now: float) -> Preempt | Wait:
        """Ask the algorithm again, now that the previous victims do not count any more. Raises AlgorithmFault."""
        result = self.driver.schedule(pod_info.pod, nodes, Phase.FILTERING)
        if isinstance(result, Preempt) and not self.executor.lingering.among(result.victims, now):
            return result
        if isinstance(result, Bind):
            return Wait(late)
        # If evicting other pods may help, make kube-scheduler ask for that at once.
        return Wait(late, _nodes(result) or dict.fromkeys(nodes, result.reason))

    def _keep(self, pod_info: PodInfo, result: Preempt | Wait, now: float) -> list[Instruction]:
        """Renew or end a preemption that kube-scheduler carries out."""
        if isinstance(result, Wait):
            return self._reconsider(pod_info, result, now)
        self.state.renew(pod_info, now)
        return []

    def _may_evict(self, pod_info: PodInfo) -> bool:
        """Whether we may begin a preemption: only for a pod that the informer has reported, and not while victims that
        were named to kube-scheduler still run."""
        if self.policy.preemption is PreemptionMode.KUBE_SCHEDULER or not pod_info.pod.may_preempt:
            return False
        if not pod_info.informed:
            pod_info.deferred = True
            return False
        return not any(self.executor.planner.remains(victim) for victim in pod_info.victims)

    def _carry_out(
        self, pod_info: PodInfo, plan: ScheduleResult, nodes: SuggestedNodes, now: float
    ) -> tuple[Wait | None, list[Instruction]]:
        """Begin a preemption of ours if the plan needs one. Returns the answer for the pod, None if there is none."""
        if isinstance(plan, Wait):
            return plan if plan.reason.code is Code.VICTIM_PROTECTED else None, []
        if isinstance(plan, Bind):
            return None, []
        if self.executor.may_begin(pod_info, plan):
            out = self.executor.begin(pod_info, plan, nodes, now)
            why = pod_info.preemption.reason if pod_info.preemption is not None else pod_info.reason
            return Wait(why or plan.reason), out
        competing = self.executor.competing(pod_info, plan)
        return Wait(competing.reason) if competing is not None and competing.reason is not None else None, []

    # -- preempt --------------------------------------------------------------------------------------------------

    def preempt(self, event: PreemptRequested, now: float) -> list[Instruction]:
        """Answer a preempt request: victims for kube-scheduler to evict, or none if we evict or nothing can help.

        The PreemptAnswer comes first; further instructions may carry out a preemption of our own.
        """
        pod = event.pod
        if not self.policy.manages(pod):
            return [PreemptAnswer(pass_through=True)]
        pod_info = self.validator.meet(pod, now, if_bound=Code.ALREADY_PLACED)
        if isinstance(pod_info, Rejection):
            return [PreemptAnswer(reason=pod_info.reason, error=pod_info.error)]
        if pod_info.state is State.BINDING:
            return [PreemptAnswer(reason=reason(Code.ALREADY_PLACED, node=pod_info.node))]
        if (waits := self._dependencies.refuse(pod_info, now)) is not None:
            return [PreemptAnswer(reason=waits)]
        return self._answer_preempt(pod_info, event.candidates, now)

    def _answer_preempt(self, pod_info: PodInfo, candidates: Sequence[Candidate], now: float) -> list[Instruction]:
        self.driver.add_unallocated(pod_info.pod)
        try:
            if self.policy.preemption is not PreemptionMode.KUBE_SCHEDULER:
                answer = self._by_ourselves(pod_info, candidates, now)
                if answer is not None:
                    return answer
            return self._by_kube_scheduler(pod_info, candidates, now)
        except AlgorithmFault as fault:
            pod_info.reason = reason(Code.ALGORITHM_FAILED, detail=str(fault))
            # The protocol has no field for this text, so it is shown as an Event.
            return [
                PreemptAnswer(reason=pod_info.reason, error=True),
                *pod_info.announce(pod_info.reason, warning=True),
            ]

    def _by_ourselves(self, pod_info: PodInfo, candidates: Sequence[Candidate], now: float) -> list[Instruction] | None:
        """Preempt by ourselves, and return an answer without victims; None if kube-scheduler is to evict."""
        offered = SuggestedNodes([candidate.node for candidate in candidates])
        self.offers.keep(pod_info, union(pod_info.offered, offered))
        if pod_info.preemption is not None:
            out = self.executor.asked(pod_info, pod_info.offered, now)
            return [PreemptAnswer(reason=pod_info.reason), *out]
        ours = self.policy.preemption is PreemptionMode.DIRECT or self._is_all_or_nothing(pod_info.pod)
        if not self._may_evict(pod_info):
            return [PreemptAnswer(reason=pod_info.reason)] if ours else None
        if (backing_off := self.executor.backoff.backed_off(pod_info.uid)) is not None:
            return [PreemptAnswer(reason=backing_off)] if ours else None
        plan = self.executor.plan(pod_info, pod_info.offered)
        if isinstance(plan, Bind) and plan.node not in offered and not self._is_open(plan.node):
            # It was offered before it was closed. kube-scheduler does not ask for a filter while no node is left to it.
            left = [name for name in pod_info.offered if self._is_open(name)]
            self.offers.keep(pod_info, union(SuggestedNodes(left), offered))
            plan = self.executor.plan(pod_info, pod_info.offered)
        if not ours and not _needs_us(pod_info, plan):
            return None
        answer, out = self._carry_out(pod_info, plan, pod_info.offered, now)
        if answer is not None:
            pod_info.refuse(answer, now, self.state.sequence)
        return [PreemptAnswer(reason=pod_info.reason or _why(plan)), *out]

    def _is_open(self, name: str) -> bool:
        """Whether the informer shows the node, ready and not cordoned."""
        node = self.state.cache.node(name)
        return node is not None and node.takes_pods

    def _is_all_or_nothing(self, pod: Pod) -> bool:
        gang = self.driver.gang(pod)
        return gang is not None and gang.all_or_nothing

    def _by_kube_scheduler(self, pod_info: PodInfo, candidates: Sequence[Candidate], now: float) -> list[Instruction]:
        offered = {candidate.node: candidate for candidate in candidates}
        _, out = self._end_if_late(pod_info, now)
        return [*self._name_victims(pod_info, offered, now), *out]

    def _name_victims(self, pod_info: PodInfo, offered: dict[str, Candidate], now: float) -> list[Instruction]:
        if self._is_being_done(pod_info, offered, now):
            self.state.renew(pod_info, now)
            return [PreemptAnswer(reason=pod_info.reason)]
        result = self.driver.schedule(pod_info.pod, SuggestedNodes(sorted(offered)), Phase.PREEMPTING)
        if isinstance(result, Bind):
            if result.node not in offered and not self.policy.force_bind_unoffered:
                raise self.driver.misbehaved(
                    "it chose node {}, which was not offered", result.node, subject=pod_info.pod
                )
            return [PreemptAnswer(reason=reason(Code.ALREADY_PLACED, node=result.node))]
        if isinstance(result, Preempt):
            if not (stay := self.executor.lingering.among(result.victims, now)):
                return self._start_preempting(pod_info, result, offered, now)
            result = Wait(self._stay(stay))
        more = self._reconsider(pod_info, result, now)
        pod_info.refuse(result, now, self.state.sequence)
        return [PreemptAnswer(reason=result.reason), *more]

    def _is_being_done(self, pod_info: PodInfo, offered: Mapping[str, Candidate], now: float) -> bool:
        """Whether kube-scheduler seems to have evicted the named victims, and our informer does not show it yet.

        kube-scheduler then no longer offers the node, as no victim is left there, and asks because we still find the
        node full. To name other victims would evict pods for nothing, one with each request.
        """
        if pod_info.state is not State.PREEMPTING or now >= pod_info.named_at + self.policy.limits.eviction_wait:
            return False
        remaining = [victim for victim in pod_info.victims if self.executor.planner.remains(victim)]
        return bool(remaining) and not any(victim.node in offered for victim in remaining)

    def _start_preempting(
        self, pod_info: PodInfo, result: Preempt, offered: dict[str, Candidate], now: float
    ) -> list[Instruction]:
        victims = self.executor.planner.victims(pod_info.pod, result.victims)
        self.executor.lingering.named(pod_info, victims, now)
        preempts = pod_info.state is State.PREEMPTING
        changed = preempts and set(victims) != set(pod_info.victims)
        names = ", ".join(sorted({victim.node for victim in victims})) or "others are in the way"
        context = TransitionContext(
            f"victims on {names}", victims=victims, nominated_node=result.node, reason=result.reason
        )
        self.state.move(pod_info, State.PREEMPTING, now, context)
        self.counts["preemptions", "kube-scheduler started"] += not preempts
        by_node: dict[str, list[str]] = {}
        for victim in victims:
            if victim.node in offered:
                by_node.setdefault(victim.node, []).append(victim.uid)
        self.counts["victims", "proposed"] += sum(map(len, by_node.values()))
        if by_node:
            pod_info.named_at = now
        chosen = tuple(
            Candidate(node, tuple(uids), offered[node].pdb_violations) for node, uids in sorted(by_node.items())
        )
        # The room of the victims of an earlier plan is no longer held for this pod.
        freed = self.requeuer.room_freed(now, by=pod_info) if changed else []
        return [PreemptAnswer(candidates=chosen, reason=result.reason), *freed]

    def _end_if_late(self, pod_info: PodInfo, now: float) -> tuple[Reason | None, list[Instruction]]:
        """End the pod's preemption if a victim has passed its deadline. Returns the reason, None if it goes on."""
        late = self.executor.lingering.late(pod_info, now)
        if not late:
            return None, []
        why = self._stay(late)
        self.counts["preemptions", "kube-scheduler given_up"] += 1
        self.state.move(pod_info, State.WAITING, now, TransitionContext(why.text, reason=why))
        return why, [*pod_info.announce(why, warning=True), *self.requeuer.room_freed(now, by=pod_info)]

    def _stay(self, victims: Sequence[Victim]) -> Reason:
        keys = [str(pod.key) for victim in victims if (pod := self.state.cache.pod(victim.uid)) is not None]
        return reason(Code.VICTIM_STAYS, victims=keys)

    def _reconsider(self, pod_info: PodInfo, result: Wait, now: float) -> list[Instruction]:
        """Handle a Wait for a preempting pod: renew if it waits for its victims, otherwise end the preemption."""
        if pod_info.state is not State.PREEMPTING:
            return []
        if result.reason.code is Code.WAITING_FOR_VICTIMS:
            self.state.renew(pod_info, now)
            return []
        self.counts["preemptions", "kube-scheduler given_up"] += 1
        self.state.move(pod_info, State.WAITING, now, TransitionContext("no preemption would help now"))
        return self.requeuer.room_freed(now, by=pod_info)


def _needs_us(pod_info: PodInfo, plan: ScheduleResult) -> bool:
    """Whether kube-scheduler, which evicts on one node for one pod, could not carry out this plan."""
    if isinstance(plan, Wait):
        return plan.reason.code is Code.VICTIM_PROTECTED
    if isinstance(plan, Bind):
        return False
    return (
        bool(plan.gang_members)
        or len({victim.node for member_plan in member_plans(pod_info, plan) for victim in member_plan.victims}) > 1
    )


def _why(plan: ScheduleResult) -> Reason | None:
    return None if isinstance(plan, Bind) else plan.reason


def _nodes(result: Preempt | Wait) -> Mapping[str, Reason]:
    return result.nodes if isinstance(result, Wait) else {}
