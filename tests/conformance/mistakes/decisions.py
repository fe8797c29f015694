"""Mistakes in answers: where a pod goes, and which pods are evicted for it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from algorithm.interface import Bind, MemberPlan, Phase, Preempt, ScheduleResult, SuggestedNodes, Victim, Wait
from algorithm.model import Pod
from algorithm.reasons import Code, Reason, reason
from extender.operate.scaffold.slots import Slots
from tests.conformance.mistakes.everything import SLOT, Everything
from tests.conformance.mistakes.registry import TIGHT, mistake, of_everything


@mistake("only-offered-nodes", "takes any node that has room, and forgets that kube-scheduler has ruled some out")
class TakesAnyNode(Slots):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        for name in sorted(self.nodes):
            if self.used[name] < self.slots:
                return Bind(name)
        return Wait(reason(Code.OTHER, detail="every node has its number of pods"))


@mistake("answers-well-formed", "returns the name of the node in place of a Bind")
class ReturnsTheName(Slots):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        found = super().schedule(pod, suggested_nodes, phase)
        return found.node if isinstance(found, Bind) else found  # type: ignore[return-value]


@mistake("answers-well-formed", "returns nothing if no node is free")
class ReturnsNone(Slots):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        found = super().schedule(pod, suggested_nodes, phase)
        return found if isinstance(found, Bind) else None  # type: ignore[return-value]


@of_everything("answers-well-formed", "writes a number as the value of an annotation")
class WritesANumber(Everything):
    def decision(self, name: str) -> tuple[tuple[str, str], ...]:
        ((key, value),) = super().decision(name)
        return ((key, int(value)),)  # type: ignore[return-value]


@of_everything("answers-well-formed", "makes a Reason by hand, without what its text needs")
class ReasonWithoutParameters(Everything):
    def refuse(self, pod: Pod) -> Wait:
        return Wait(Reason(Code.INSUFFICIENT))


@of_everything("victims-run-with-lower-priority", "evicts pods of equal priority: <= in place of <")
class VictimsOfEqualPriority(Everything):
    def lower(self, name: str, pod: Pod) -> list[Pod]:
        return [each for each in self.running(name) if self.priority(each) <= self.priority(pod)]


@of_everything("only-offered-nodes", "looks for victims on all nodes")
class VictimsNotOffered(Everything):
    def preempt(self, pod: Pod, offered: Iterable[str], phase: Phase) -> Preempt | Wait | None:
        return super().preempt(pod, sorted(self.nodes), phase)


@of_everything("victims-run-with-lower-priority", "names the first victim twice, as a plan for two pods would")
class VictimTwice(Everything):
    def preempt(self, pod: Pod, offered: Iterable[str], phase: Phase) -> Preempt | Wait | None:
        found = super().preempt(pod, offered, phase)
        if not isinstance(found, Preempt):
            return found
        return Preempt((*found.victims, found.victims[0]), found.reason, found.node)


@of_everything("victims-run-with-lower-priority", "keeps a list of candidates, with pods that have gone")
class VictimsThatAreGone(Everything):
    def delete_allocated_pod(self, pod: Pod) -> None:
        self.gone = {**getattr(self, "gone", {}), pod.uid: pod}
        super().delete_allocated_pod(pod)

    def lower(self, name: str, pod: Pod) -> list[Pod]:
        gone = [each for each in getattr(self, "gone", {}).values() if each.node_name == name]
        own = self.priority(pod)
        return sorted([*gone, *super().lower(name, pod)], key=lambda each: each.uid) if own > 0 else []


@of_everything("victims-run-with-lower-priority", "names the node that the victim was nominated to, not where it runs")
class VictimsElsewhere(Everything):
    def preempt(self, pod: Pod, offered: Iterable[str], phase: Phase) -> Preempt | Wait | None:
        names = list(offered)
        found = super().preempt(pod, names, phase)
        if not isinstance(found, Preempt):
            return found
        other = next((name for name in names if name != found.node), found.node)
        return Preempt(tuple(Victim(other, each.uid) for each in found.victims), found.reason, found.node)


@of_everything("protected-pods-spared", "ignores that a PodDisruptionBudget forbids to evict a pod", world=TIGHT)
class IgnoresProtected(Everything):
    def spared(self, pod: Pod, phase: Phase) -> bool:
        return pod.uid in self.lingering


@of_everything("lingering-pods-spared", "spares lingering pods in one phase only", world=TIGHT)
class IgnoresLingering(Everything):
    def spared(self, pod: Pod, phase: Phase) -> bool:
        return phase is Phase.EVICTING and (pod.uid in self.lingering or pod.uid in self.protected)


@of_everything("preemption-policy-obeyed", "evicts for pods with preemptionPolicy: Never")
class IgnoresThePolicy(Everything):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        return super().schedule(msgspec.structs.replace(pod, may_preempt=True), suggested_nodes, phase)


@of_everything("preemption-policy-obeyed", "plans victims for a member of its gang that may not preempt")
class IgnoresThePolicyOfMembers(Everything):
    def preempt(self, pod: Pod, offered: Iterable[str], phase: Phase) -> Preempt | Wait | None:
        found = super().preempt(pod, offered, phase)
        if phase is not Phase.EVICTING or not isinstance(found, Preempt) or not pod.group:
            return found
        mates = [self.waiting[uid] for uid in sorted(self.waiting) if self.waiting[uid].group == pod.group]
        plans = tuple(MemberPlan(each.uid, found.node, found.victims) for each in mates if each.uid != pod.uid)
        return Preempt(found.victims, found.reason, found.node, plans)


@of_everything("plans-name-waiting-pods", "plans for its group in the phase in which kube-scheduler evicts")
class PlansForTheGroupTooEarly(Everything):
    def preempt(self, pod: Pod, offered: Iterable[str], phase: Phase) -> Preempt | Wait | None:
        found = super().preempt(pod, offered, phase)
        if not isinstance(found, Preempt):
            return found
        return Preempt(found.victims, found.reason, found.node, (MemberPlan(pod.uid, found.node),))


@of_everything("plans-name-waiting-pods", "plans for members of the group that run already")
class PlansForRunningMembers(Everything):
    def preempt(self, pod: Pod, offered: Iterable[str], phase: Phase) -> Preempt | Wait | None:
        found = super().preempt(pod, offered, phase)
        if phase is not Phase.EVICTING or not isinstance(found, Preempt):
            return found
        members = tuple(MemberPlan(uid, found.node) for uid in sorted(self.pods)[:1])
        return Preempt(found.victims, found.reason, found.node, members)


@of_everything("incomplete-gangs-have-names", "waits for the rest of a gang, and does not say which gang")
class GangWithoutName(Everything):
    def refuse(self, pod: Pod) -> Wait:
        return Wait(reason(Code.GANG_INCOMPLETE, gang=pod.group or "none", minimum=2))

    def gang(self, pod: Pod) -> None:
        return None


@of_everything("node-order-decides-nothing", "takes the first node of the offer")
class TakesTheFirst(Everything):
    def offered(self, pod: Pod, suggested_nodes: SuggestedNodes) -> list[str]:
        return [name for name in suggested_nodes if name in self.nodes]


@of_everything("recovery-keeps-decisions", "remembers the slot itself, and writes it nowhere")
class RemembersTheSlot(Everything):
    def add_allocated_pod(self, pod: Pod) -> None:
        chosen = {**getattr(self, "chosen", {})}
        chosen[pod.uid] = pod.annotation(SLOT) or str(len(chosen))
        self.chosen = chosen
        super().add_allocated_pod(pod)

    def decision(self, name: str) -> tuple[tuple[str, str], ...]:
        used = set(getattr(self, "chosen", {}).values())
        return ((SLOT, str(next(number for number in range(len(used) + 1) if str(number) not in used))),)
