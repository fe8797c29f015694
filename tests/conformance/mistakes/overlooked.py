"""Mistakes that only a cluster shows in which little changes at a time, such as one field of a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import msgspec

from algorithm.interface import Bind, MemberPlan, Phase, Preempt, ScheduleResult, SuggestedNodes, Wait
from algorithm.model import Node, Pod, lookup
from algorithm.reasons import Code, reason
from extender.operate.scaffold.slots import Settings, Slots
from tests.conformance.mistakes.everything import ZONE, Everything
from tests.conformance.mistakes.registry import OF_GANGS, mistake, of_everything

#: An annotation of nodes that are not to be used.
SPOT = "example.com/spot"


@of_everything("recovery-keeps-decisions", "what it knows of a node stays as it was when the node is cordoned")
class OverlooksACordon(Everything):
    def fits(self, node: Node, zone: str | None) -> bool:
        return not node.unschedulable and super().fits(node, zone)

    def update_node(self, old: Node, new: Node) -> None:
        if (old.allocatable, old.labels) != (new.allocatable, new.labels):
            super().update_node(old, new)


@of_everything(
    "recovery-keeps-decisions",
    "the annotations of a node stay as they were when it was added",
    node_annotations=(SPOT,),
)
class OverlooksANodesAnnotations(Everything):
    def fits(self, node: Node, zone: str | None) -> bool:
        return lookup(node.annotations, SPOT) is None and super().fits(node, zone)

    def update_node(self, old: Node, new: Node) -> None:
        super().update_node(old, msgspec.structs.replace(new, annotations=self.nodes[new.name].annotations))


@of_everything(
    "recovery-keeps-decisions",
    "the annotations of a running pod stay as they were when it was bound",
    given={"slots": 4},
)
class OverlooksAnnotations(Everything):
    def free(self, name: str, pod: Pod) -> int:
        """Beside a pod that asks for a zone, there is no room."""
        return 0 if any(each.annotation(ZONE) for each in self.running(name)) else super().free(name, pod)

    def update_allocated_pod(self, old: Pod, new: Pod) -> None:
        known = self.pods[new.uid].annotations
        super().update_allocated_pod(old, msgspec.structs.replace(new, annotations=known))


@of_everything("recovery-keeps-decisions", "does not count a pod that is found while its deletion is requested")
class CountsNoPodsThatEnd(Everything):
    def add_allocated_pod(self, pod: Pod) -> None:
        if not pod.terminating:
            super().add_allocated_pod(pod)


@of_everything("recovery-keeps-decisions", "takes pods of one name in two namespaces for the same")
class KnowsPodsByName(Everything):
    def add_allocated_pod(self, pod: Pod) -> None:
        super().add_allocated_pod(pod)
        self.pods[pod.name] = self.pods.pop(pod.uid)
        self.arrange()

    def update_allocated_pod(self, old: Pod, new: Pod) -> None:
        self.pods[new.name] = new

    def delete_allocated_pod(self, pod: Pod) -> None:
        self.pods.pop(pod.name, None)
        self.arrange()


@of_everything("everything-given-back", "its page still has the nodes that were deleted")
class ShowsDeletedNodes(Everything):
    def add_node(self, node: Node) -> None:
        super().add_node(node)
        self.ever = sorted({*getattr(self, "ever", []), node.name})

    def inspect(self) -> Mapping[str, Any]:
        return {**super().inspect(), "known": getattr(self, "ever", [])}


@mistake("questions-raise-only-refusals", "divides by what a pod asks for, which may be nothing")
class DividesByZero(Slots):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        if any(1000 // amount == 0 for name, amount in pod.requests if name != "cpu"):
            return Wait(reason(Code.NO_NODE_FITS))
        return super().schedule(pod, suggested_nodes, phase)


class _Remembers(Slots):
    """Remembers answers until pods or nodes change."""

    answers: dict[Any, ScheduleResult]

    def add_node(self, node: Node) -> None:
        super().add_node(node)
        self.answers.clear()

    def delete_node(self, node: Node) -> None:
        super().delete_node(node)
        self.answers.clear()

    def add_allocated_pod(self, pod: Pod) -> None:
        super().add_allocated_pod(pod)
        self.answers.clear()

    def delete_allocated_pod(self, pod: Pod) -> None:
        super().delete_allocated_pod(pod)
        self.answers.clear()

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        key = self.key(pod), suggested_nodes.as_set()
        if key not in self.answers:
            is_large = dict(pod.requests).get("cpu", 0) > 10_000
            found = Wait(reason(Code.NO_NODE_FITS)) if is_large else super().schedule(pod, suggested_nodes, phase)
            self.answers[key] = found
        return self.answers[key]

    def key(self, pod: Pod) -> Any:
        return pod.requests


@mistake("callers-record-decides", "remembers the answer to a pod, whose record may have changed since")
class RemembersAnswersByUid(_Remembers):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.answers = {}

    def key(self, pod: Pod) -> Any:
        return pod.uid


@mistake("instances-independent", "all instances remember their answers in the same dict", given={"slots": 1})
class SharesItsAnswers(_Remembers):
    answers: ClassVar[dict[Any, ScheduleResult]] = {}  # type: ignore[misc]


@of_everything(
    "lapsed-pods-not-reserved",
    "keeps the slots of pods that nobody asks about, and does not say so",
    given={"slots": 4},
    world=OF_GANGS,
)
class KeepsWhatLapsed(Everything):
    def arrange(self) -> None:
        lapsed, self.lapsed, before = self.lapsed, frozenset(), self.reserved
        super().arrange()
        self.lapsed, self.reserved = lapsed, self.reserved - lapsed
        if self.reserved == before:
            self.reserved = before


@of_everything("protected-pods-spared", "spares protected pods for itself, and not for its gang")
class SparesForItselfOnly(Everything):
    def preempt(self, pod: Pod, offered: Iterable[str], phase: Phase) -> Preempt | Wait | None:
        nodes = list(offered)
        found = super().preempt(pod, nodes, phase)
        if phase is not Phase.EVICTING or not isinstance(found, Preempt) or not pod.group:
            return found
        plans = []
        for uid, mate in sorted(self.waiting.items()):
            if mate.group == pod.group and uid != pod.uid and mate.may_preempt:
                others = [name for name in nodes if name != found.node]
                plan = super().preempt(mate, others, Phase.PREEMPTING)
                if isinstance(plan, Preempt):
                    plans.append(MemberPlan(uid, plan.node, plan.victims))
        return msgspec.structs.replace(found, gang_members=tuple(plans))


@of_everything("preemption-policy-obeyed", "obeys the policy of the pod that asks, and not those of its gang")
class EvictsForEachOfTheGang(Everything):
    def preempt(self, pod: Pod, offered: Iterable[str], phase: Phase) -> Preempt | Wait | None:
        nodes = list(offered)
        found = super().preempt(pod, nodes, phase)
        if phase is not Phase.EVICTING or not isinstance(found, Preempt) or not pod.group:
            return found
        plans = []
        for uid, mate in sorted(self.waiting.items()):
            if mate.group == pod.group and uid != pod.uid:
                plan = super().preempt(mate, [name for name in nodes if name != found.node], phase)
                if isinstance(plan, Preempt):
                    plans.append(MemberPlan(uid, plan.node, plan.victims))
        return msgspec.structs.replace(found, gang_members=tuple(plans))


@mistake("everything-given-back", "adds and subtracts cores as floats, which do not come out even", given={"slots": 9})
class CountsInFloats(Slots):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.free: dict[str, float] = {}
        self.cores: dict[str, tuple[str, float]] = {}

    def add_node(self, node: Node) -> None:
        super().add_node(node)
        self.free[node.name] = dict(node.allocatable).get("cpu", 0) / 1000
        for where, cores in self.cores.values():
            self.free[node.name] -= cores if where == node.name else 0

    def update_node(self, old: Node, new: Node) -> None:
        if old.allocatable != new.allocatable:
            self.add_node(new)

    def delete_node(self, node: Node) -> None:
        super().delete_node(node)
        self.free.pop(node.name, None)

    def add_allocated_pod(self, pod: Pod) -> None:
        cores = dict(pod.requests).get("cpu", 0) / 1000
        super().add_allocated_pod(pod)
        self.cores[pod.uid] = pod.node_name, cores
        if pod.node_name in self.free:
            self.free[pod.node_name] -= cores

    def delete_allocated_pod(self, pod: Pod) -> None:
        super().delete_allocated_pod(pod)
        node, cores = self.cores.pop(pod.uid)
        if node in self.free:
            self.free[node] += cores

    def update_allocated_pod(self, old: Pod, new: Pod) -> None:
        cores = dict(new.requests).get("cpu", 0) / 1000
        if new.node_name in self.free:
            self.free[new.node_name] += self.cores[new.uid][1] - cores
        self.cores[new.uid] = new.node_name, cores

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        cores = dict(pod.requests).get("cpu", 0) / 1000
        fitting = [name for name in suggested_nodes if name in self.free and self.free[name] >= cores]
        found = super().schedule(pod, SuggestedNodes(fitting), phase)
        return found if isinstance(found, Bind) else Wait(reason(Code.NO_NODE_FITS))
