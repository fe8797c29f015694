"""Preemption plans: made by the algorithm, checked by the engine.

A victim must exist, run on the node that the plan names, and have a lower priority than the pod that it is evicted for.
kube-scheduler would check none of that. A pod that is only proposed for a node does not run there: kube-scheduler
abandons many proposals, and no pod is evicted for the room of a trial. The planner waits for the outcome of the
proposal.

A plan is claimed as a whole: the algorithm holds the room for all its members, or for none.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from algorithm.interface import MemberPlan, Phase, Preempt, ScheduleResult, SuggestedNodes, Victim, Wait
from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from extender.scheduling.driver import AlgorithmFault
from extender.scheduling.state.cache import PodState
from extender.scheduling.state.pod_info import PodInfo, State
from extender.scheduling.state.transitions import SchedulingState, TransitionContext


class PreemptionPlanner:
    """Asks the algorithm for plans, and checks them."""

    def __init__(self, state: SchedulingState) -> None:
        self.state = state
        self.driver = state.driver
        #: UID of the pod that waits for the outcome of a proposal, by the UID of the proposed pod.
        self.unbound: dict[str, str] = {}

    def make(self, pod_info: PodInfo, nodes: SuggestedNodes, protected: Container[str]) -> ScheduleResult:
        """Return a plan for the pod and its gang on these nodes; Wait if protected or unbound pods would be victims.

        Raises AlgorithmFault, also for a plan that must not be carried out.
        """
        result = self.driver.schedule(pod_info.pod, nodes, Phase.EVICTING)
        if not isinstance(result, Preempt):
            return result
        plans = [self._checked(member_plan) for member_plan in member_plans(pod_info, result)]
        if any(victim.node not in nodes for member_plan in plans for victim in member_plan.victims):
            return Wait(result.reason)  # kube-scheduler may never let the pod run there
        victims = [victim.uid for member_plan in plans for victim in member_plan.victims]
        proposed = [uid for uid in victims if self.state.cache.state(uid) is PodState.ASSUMED]
        if proposed:
            self.unbound[proposed[0]] = pod_info.uid
            return Wait(result.reason)
        spared = [uid for uid in victims if uid in protected]
        if spared:
            names = [str(pod.key) for uid in spared if (pod := self.state.cache.pod(uid)) is not None]
            return Wait(reason(Code.VICTIM_PROTECTED, victims=names))
        return Preempt(plans[0].victims, result.reason, plans[0].node, tuple(plans[1:]))

    def _checked(self, member_plan: MemberPlan) -> MemberPlan:
        pod_info = self.state.pods.get(member_plan.uid)
        if pod_info is None or pod_info.state not in (State.WAITING, State.PREEMPTING):
            raise self.driver.misbehaved("it plans a place for pod {!r}, which does not wait for one", member_plan.uid)
        victims = self.victims(pod_info.pod, member_plan.victims) if member_plan.victims else ()
        return MemberPlan(member_plan.uid, member_plan.node, victims)

    def victims(self, pod: Pod, victims: Iterable[Victim]) -> tuple[Victim, ...]:
        """Return the victims that still exist. Raises AlgorithmFault if one must not be evicted: kube-scheduler would
        evict it."""
        if not pod.may_preempt:
            raise self.driver.misbehaved("it names victims for a pod whose preemptionPolicy is Never", subject=pod)
        alive = []
        for victim in sorted(set(victims)):
            found = self.state.cache.pod(victim.uid)
            if found is None:
                continue
            theirs, own = self.driver.priority(found), self.driver.priority(pod)
            if theirs >= own:
                rule = "it names victim {} of priority {}, the pod has {}"
                raise self.driver.misbehaved(rule, found.key, theirs, own, subject=pod)
            if found.node_name != victim.node:
                rule = "it names victim {} on {}, which runs on {}"
                raise self.driver.misbehaved(rule, found.key, victim.node, found.node_name, subject=pod)
            alive.append(victim)
        return tuple(alive)

    def remains(self, victim: Victim) -> bool:
        """Whether the victim still takes room on its node; a pod that was only proposed may be elsewhere by now."""
        pod = self.state.cache.pod(victim.uid)
        takes = self.state.cache.state(victim.uid) in (PodState.ADDED, PodState.ASSUMED)
        return takes and pod is not None and pod.node_name == victim.node

    def members(self, plans: Mapping[str, MemberPlan]) -> dict[str, PodInfo]:
        """Return the pods of these plans, by UID."""
        return {uid: pod_info for uid in plans if (pod_info := self.state.pods.get(uid)) is not None}

    def same(self, plans: Mapping[str, MemberPlan], leader: PodInfo, plan: Preempt) -> bool:
        """Whether the plan equals what is left of these plans: the same remaining victims and the same nodes.

        Which member of the gang a victim is assigned to does not matter.
        """
        new = member_plans(leader, plan)
        left = {victim for member_plan in plans.values() for victim in member_plan.victims if self.remains(victim)}
        return left == {victim for member_plan in new for victim in member_plan.victims} and {
            uid: member_plan.node for uid, member_plan in plans.items()
        } == {member_plan.uid: member_plan.node for member_plan in new}

    def claim(self, members: Mapping[str, PodInfo], plans: Mapping[str, MemberPlan], why: Reason, now: float) -> None:
        """Make all members preempt. Raises AlgorithmFault, and then no further pod preempts than before."""
        begun = []
        try:
            for uid, pod_info in members.items():
                member_plan, waited = plans[uid], pod_info.state is State.WAITING
                text = (
                    f"{len(member_plan.victims)} pods are to go for a place on {member_plan.node or 'one of the nodes'}"
                )
                context = TransitionContext(
                    text, victims=member_plan.victims, nominated_node=member_plan.node, reason=why
                )
                self.state.move(pod_info, State.PREEMPTING, now, context)
                if waited:
                    begun.append(pod_info)
        except AlgorithmFault as fault:
            for pod_info in begun:
                self.state.move(
                    pod_info, State.WAITING, now, TransitionContext(f"the plan could not be claimed: {fault}")
                )
            raise


def member_plans(pod_info: PodInfo, plan: Preempt) -> list[MemberPlan]:
    """Return each member's part of the plan, first that of the pod that was asked about."""
    return [MemberPlan(pod_info.uid, plan.node, plan.victims), *plan.gang_members]


def victims_of(plan: Preempt) -> list[Victim]:
    """Return all victims of the plan."""
    return [*plan.victims, *(victim for member_plan in plan.gang_members for victim in member_plan.victims)]


def union(*offers: SuggestedNodes) -> SuggestedNodes:
    """Return all these nodes, sorted."""
    return SuggestedNodes(sorted(set().union(*[offer.as_set() for offer in offers])))
