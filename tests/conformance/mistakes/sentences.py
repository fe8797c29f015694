"""Mistakes that break one sentence of the contract each, and keep all others (`algorithm.interface`)."""

from __future__ import annotations

import msgspec

from algorithm.fgd.algorithm import FgdAlgorithm
from algorithm.interface import (
    Bind,
    Phase,
    ScheduleResult,
    SuggestedNodes,
    Victim,
    Wait,
)
from algorithm.model import Node, Pod
from algorithm.packing import PackingAlgorithm
from algorithm.reasons import Code, reason
from tests.conformance.mistakes.derived import FULL, PACKS, SHARES
from tests.conformance.mistakes.everything import Everything
from tests.conformance.mistakes.registry import OF_GANGS, TIGHT, mistake, of_everything


@mistake("unknown-nodes-accepted", "packing: a pod may not be allocated on a node that it does not know", **PACKS)
class PackingKnowsItsNodesOnly(PackingAlgorithm):
    def add_allocated_pod(self, pod: Pod) -> None:
        if self._state.cluster.known(pod.node_name) is None:
            raise KeyError(pod.node_name)
        super().add_allocated_pod(pod)


@mistake("recovery-keeps-decisions", "packing: the room of a pod that came to nothing stays taken on its node", **PACKS)
class PackingKeepsExpiredPods(PackingAlgorithm):
    def delete_allocated_pod(self, pod: Pod) -> None:
        super().delete_allocated_pod(pod)
        self.last = pod

    def add_unallocated_pod(self, pod: Pod) -> None:
        last = getattr(self, "last", None)
        super().add_unallocated_pod(pod)
        if last is not None and last.uid == pod.uid:
            super().add_allocated_pod(msgspec.structs.replace(last, uid=f"{last.uid}-ghost", annotations=(), group=""))


@mistake("lingering-pods-spared", "packing: names lingering pods", **FULL)
class PackingIgnoresLingering(PackingAlgorithm):
    def set_lingering_pods(self, uids: frozenset[str]) -> None:
        """They will go."""


@of_everything(
    "recovery-keeps-decisions", "adds the set of protected pods to the one before, although it is complete", world=TIGHT
)
class AddsProtected(Everything):
    def set_protected_pods(self, uids: frozenset[str]) -> None:
        super().set_protected_pods(self.protected | uids)


@of_everything(
    "recovery-keeps-decisions", "adds the set of lingering pods to the one before, although it is complete", world=TIGHT
)
class AddsLingering(Everything):
    def set_lingering_pods(self, uids: frozenset[str]) -> None:
        super().set_lingering_pods(self.lingering | uids)


@of_everything(
    "recovery-keeps-decisions",
    "adds the set of lapsed pods to the one before, although it is complete",
    given={"slots": 4},
    world=OF_GANGS,
)
class AddsLapsed(Everything):
    def set_lapsed_pods(self, uids: frozenset[str]) -> None:
        super().set_lapsed_pods(self.lapsed | uids)


@of_everything("everything-given-back", "keeps the room of an older plan when the plan changes", world=TIGHT)
class KeepsTheOldPlan(Everything):
    def add_preempting_pod(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> None:
        old = self.claims.get(pod.uid)
        super().add_preempting_pod(pod, victims, node)
        if old is not None and old.node != node:
            self.claims[f"{pod.uid} before"] = old


@of_everything("changes-do-not-raise", "takes a pod that changes for one that is new: it is there already")
class RefusesASecondRecord(Everything):
    def add_unallocated_pod(self, pod: Pod) -> None:
        known = getattr(self, "ever", frozenset())
        if pod.uid in known:
            raise ValueError(f"{pod.uid} is there already")
        self.ever = known | {pod.uid}
        super().add_unallocated_pod(pod)


@of_everything("answers-well-formed", "gives an evicting pod the empty name of a node in a Bind")
class BindsToNoNode(Everything):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        found = super().schedule(pod, suggested_nodes, phase)
        return Bind("") if isinstance(found, Bind) and phase is Phase.EVICTING else found


@mistake("recovery-keeps-decisions", "packing: ignores that a node changes", **PACKS)
class PackingIgnoresUpdatesOfNodes(PackingAlgorithm):
    def update_node(self, old: Node, new: Node) -> None:
        """Nodes do not change."""


@of_everything("questions-raise-only-refusals", "raises for an offer of nodes that it does not know")
class RaisesForUnknownNodes(Everything):
    def offered(self, pod: Pod, suggested_nodes: SuggestedNodes) -> list[str]:
        return sorted(name for name in suggested_nodes if self.fits(self.nodes[name], None))


@of_everything("preemptors-room-kept", "keeps no room for a pod whose plan was accepted", world=TIGHT)
class KeepsNoRoom(Everything):
    def add_preempting_pod(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> None:
        """It will ask again."""


@of_everything("preemptors-room-kept", "gives the room of a preemptor to pods of the same priority", world=TIGHT)
class KeepsRoomFromLowerOnly(Everything):
    def free(self, name: str, pod: Pod) -> int:
        equal = [claim for uid, claim in self.claims.items() if uid != pod.uid and claim.node == name]
        return super().free(name, pod) + sum(claim.pod.priority == pod.priority for claim in equal)


@mistake("preemptors-room-kept", "packing: keeps no room for a pod whose plan was accepted", **FULL)
class PackingKeepsNoRoom(PackingAlgorithm):
    def add_preempting_pod(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> None:
        """It will ask again."""


@mistake("preemptors-room-kept", "fgd: keeps no room for a pod whose plan was accepted", **SHARES)
class FgdKeepsNoRoom(FgdAlgorithm):
    def add_preempting_pod(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> None:
        """It will ask again."""


@of_everything("protected-plans-said", "does not say that protected pods alone stand in the way")
class SaysNothingOfProtected(Everything):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        found = super().schedule(pod, suggested_nodes, phase)
        is_protected = isinstance(found, Wait) and found.reason.code is Code.VICTIM_PROTECTED
        return self.refuse(pod) if is_protected else found


@of_everything("protected-plans-said", "says that protected pods stand in the way, whatever it is", world=TIGHT)
class AlwaysSaysProtected(Everything):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        found = super().schedule(pod, suggested_nodes, phase)
        if phase is Phase.EVICTING and isinstance(found, Wait):
            return Wait(reason(Code.VICTIM_PROTECTED, victims="those that run there"))
        return found


@mistake("protected-plans-said", "fgd: does not say that protected pods alone stand in the way", **SHARES)
class FgdSaysNothingOfProtected(FgdAlgorithm):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        found = super().schedule(pod, suggested_nodes, phase)
        is_protected = isinstance(found, Wait) and found.reason.code is Code.VICTIM_PROTECTED
        return super().schedule(pod, suggested_nodes, Phase.FILTERING) if is_protected else found


@of_everything("callers-record-decides", "looks up the zone in the record that was reported, which may be older")
class DecidesByTheReportedRecord(Everything):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        return super().schedule(self.waiting.get(pod.uid, pod), suggested_nodes, phase)


@mistake("callers-record-decides", "packing: decides by the record that was reported, which may be older", **PACKS)
class PackingDecidesByTheReportedRecord(PackingAlgorithm):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        return super().schedule(self._state.waiting.get(pod.uid, pod), suggested_nodes, phase)


@of_everything("lingering-pods-spared", "takes the first set of lingering pods, and no later one", world=TIGHT)
class TakesTheFirstLingering(Everything):
    def set_lingering_pods(self, uids: frozenset[str]) -> None:
        super().set_lingering_pods(self.lingering or uids)


@of_everything("protected-pods-spared", "takes the first set of protected pods, and no later one", world=TIGHT)
class TakesTheFirstProtected(Everything):
    def set_protected_pods(self, uids: frozenset[str]) -> None:
        super().set_protected_pods(self.protected or uids)


@of_everything(
    "lapsed-pods-not-reserved",
    "takes the first set of lapsed pods, and no later one",
    given={"slots": 4},
    world=OF_GANGS,
)
class TakesTheFirstLapsed(Everything):
    def set_lapsed_pods(self, uids: frozenset[str]) -> None:
        super().set_lapsed_pods(self.lapsed or uids)
