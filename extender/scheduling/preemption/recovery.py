"""Resumes the preemptions that are recorded on pods when a term begins: a process crashed, or another replica led.

Pods that were evicted are gone or terminating, and their room is at once kept for the preemptors again. Then the plan
is made again, on the recorded nodes, and carried out like any other: kube-scheduler, which was told to wait, may see no
reason to ask again. The victims that the annotation names do not count for the new plan: the annotation is on the pod,
and its owner may have written anything there.
"""

from __future__ import annotations

from algorithm.interface import SuggestedNodes, Victim
from extender.scheduling.driver import AlgorithmFault
from extender.scheduling.events import Instruction
from extender.scheduling.preemption.executor import PreemptionExecutor
from extender.scheduling.preemption.outcomes import Ending
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.preemption_record import Intention, Stage, read, waiting_for
from extender.scheduling.state.transitions import TransitionContext

_Found = list[tuple[PodInfo, Intention]]


class PreemptionRecovery:
    """Reads the recorded preemptions of the waiting pods, once at the beginning of a term."""

    def __init__(self, executor: PreemptionExecutor) -> None:
        self.executor = executor
        self.state = executor.state

    def resume(self, now: float) -> list[Instruction]:
        """Resume all recorded preemptions. First the room is kept for all of them; only then are plans made."""
        plans: dict[str, _Found] = {}
        for pod_info in sorted(self.state.pods, key=lambda pod_info: (-pod_info.pod.priority, pod_info.key)):
            intention = read(pod_info.pod) if pod_info.state is State.WAITING and pod_info.informed else None
            if intention is not None:
                plans.setdefault(intention.plan, []).append((pod_info, intention))
        for found in plans.values():
            self._keep_room(found, now)
        out: list[Instruction] = []
        for found in plans.values():
            out += self._go_on(found, now)
        return out

    def _leaves(self, victim: Victim) -> bool:
        pod = self.state.cache.pod(victim.uid)
        return pod is None or pod.terminating or not self.executor.planner.remains(victim)

    def _keep_room(self, found: _Found, now: float) -> None:
        """Keep the room for these pods, only if a victim is gone or leaving: otherwise there is no room yet to lose."""
        leaving = [victim for _, each in found for victim in each.member_plan.victims if self._leaves(victim)]
        nodes = SuggestedNodes(sorted({intention.member_plan.node for _, intention in found}))
        for pod_info, _ in found:
            pod_info.offered = nodes
        if not leaving:
            return
        preemption = self.executor.open(Stage.CLEARED, nodes, now)
        victims = {victim.uid: self.executor.track(victim) for victim in leaving}
        why = waiting_for(victim.key for victim in victims.values() if victim.key.name)
        members, plans = {}, {}
        for pod_info, intention in found:
            member_plan = intention.member_plan
            going = tuple(victim for victim in member_plan.victims if victim in leaving)
            try:
                context = TransitionContext(
                    "its preemption goes on", victims=going, nominated_node=member_plan.node, reason=why
                )
                self.state.move(pod_info, State.PREEMPTING, now, context)
            except AlgorithmFault:
                continue
            pod_info.preemption = preemption
            members[pod_info.uid], plans[pod_info.uid] = pod_info, member_plan
        preemption.follow(members, plans, victims)
        preemption.marked = set(members)
        self.executor.outcomes.reviews.set(preemption.number, now + self.state.policy.lease)
        preemption.eviction_started = True
        if not members:
            self.executor.outcomes.close(preemption, Ending.CANCELLED)

    def _go_on(self, found: _Found, now: float) -> list[Instruction]:
        leader, _ = found[0]
        preemption = leader.preemption
        out = self.executor.try_again(leader, now) if preemption is None else self.executor.replan(preemption, now)
        for pod_info, _ in found:
            self.executor.requeuer.enqueue(pod_info, now, at_once=True)
        return [*out, *self.executor.requeuer.requeue_due(now)]
