"""Mistakes in algorithms that extend those of Waggle: `packing`, `fgd` and `hived`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from algorithm.fgd import PLUGIN as FGD
from algorithm.fgd.algorithm import FgdAlgorithm
from algorithm.fgd.settings import FgdSettings
from algorithm.hived import PLUGIN as HIVED
from algorithm.hived import HivedAlgorithm, HivedSettings
from algorithm.interface import GangInfo, Phase, Preempt, ScheduleResult, SuggestedNodes, Unoffered
from algorithm.model import Node, Pod
from algorithm.packing import PLUGIN as PACKING
from algorithm.packing import PackingAlgorithm, PackingSettings
from algorithm.registry import Plugin
from tests.conformance.mistakes.registry import TIGHT, mistake


def declared(plugin: Plugin[Any], model: Any) -> dict[str, Any]:
    """What a plug-in that extends this one declares."""
    names = ("parse", "annotations", "lengths", "decisions", "gang_texts", "claims", "node_annotations", "world")
    return {"model": model, **{name: getattr(plugin, name) for name in names}}


PACKS, SHARES, CELLS = declared(PACKING, PackingSettings), declared(FGD, FgdSettings), declared(HIVED, HivedSettings)
FULL = {**PACKS, "world": TIGHT}


@mistake("recovery-keeps-decisions", "packing: ignores that a pod is resized in place", **PACKS)
class PackingIgnoresResizes(PackingAlgorithm):
    def update_allocated_pod(self, old: Pod, new: Pod) -> None:
        """Pods do not change, or so it thinks."""


@mistake("only-offered-nodes", "packing: forgets that nodes are deleted", **PACKS)
class PackingForgetsDeletedNodes(PackingAlgorithm):
    def delete_node(self, node: Node) -> None:
        """Its pods are still there."""


@mistake("incomplete-gangs-have-names", "packing: names no gang", **PACKS)
class PackingNamesNoGang(PackingAlgorithm):
    def gang(self, pod: Pod) -> GangInfo | None:
        return None


@mistake("fork-independent", "packing: the copy has the same state", **PACKS)
class PackingForksItself(PackingAlgorithm):
    def fork(self) -> Self:
        return self._with(self._state)


@mistake("protected-pods-spared", "packing: does not pass on which pods are protected", **FULL)
class PackingIgnoresProtected(PackingAlgorithm):
    def set_protected_pods(self, uids: frozenset[str]) -> None:
        """kube-scheduler looks after budgets, or so it thinks."""


@mistake("only-offered-nodes", "packing: prefers the node where the pod was nominated, offered or not", **PACKS)
class PackingPrefersKnownNodes(PackingAlgorithm):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        known = [room.node.name for room in self._state.cluster.rooms.values() if room.node is not None]
        return super().schedule(pod, SuggestedNodes(sorted({*known, *suggested_nodes})), phase)


@mistake("recovery-keeps-decisions", "fgd: frees the GPUs of a pod that changes, and takes none", **SHARES)
class FgdForgetsChangedPods(FgdAlgorithm):
    def update_allocated_pod(self, old: Pod, new: Pod) -> None:
        self._state.free(old.uid)


@mistake("victims-run-with-lower-priority", "fgd: names victims that the plan has named before", **SHARES)
class FgdNamesVictimsTwice(FgdAlgorithm):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        found = super().schedule(pod, suggested_nodes, phase)
        return Preempt(found.victims * 2, found.reason, found.node) if isinstance(found, Preempt) else found


@mistake("priority-sound", "hived: the priority is a text, as the pod's author wrote it", **CELLS)
class HivedPriorityIsText(HivedAlgorithm):
    def priority(self, pod: Pod) -> int:
        return f"{super().priority(pod)}"  # type: ignore[return-value]


@mistake("inspect-sound", "hived: shows objects of its own", **CELLS)
class HivedShowsObjects(HivedAlgorithm):
    def inspect(self) -> Mapping[str, Any]:
        return {**super().inspect(), "algorithm": self}


@mistake("only-offered-nodes", "hived: does not declare that some pods ignore the offer", **CELLS)
class HivedDeclaresNothing(HivedAlgorithm):
    def unoffered(self, pod: Pod) -> Unoffered:
        return Unoffered.NOTHING


@mistake("only-offered-nodes", "hived: declares plans outside of the offer, and binds there, too", **CELLS)
class HivedDeclaresPlansOnly(HivedAlgorithm):
    def unoffered(self, pod: Pod) -> Unoffered:
        return Unoffered.PLANS if super().unoffered(pod) is Unoffered.PLACES else super().unoffered(pod)


@mistake("only-offered-nodes", "hived: places also those pods that obey the offer on any machine", **CELLS)
class HivedOffersEverything(HivedAlgorithm):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        return super().schedule(pod, SuggestedNodes(self.hive.layout.machines), phase)


@mistake("only-offered-nodes", "hived: takes the word of the pod that came first for all of its gang", **CELLS)
class HivedBelievesTheFirstOfAGang(HivedAlgorithm):
    def add_unallocated_pod(self, pod: Pod) -> None:
        super().add_unallocated_pod(pod)
        gang = self.gang(pod)
        self.first = {(gang.name if gang else ""): pod, **getattr(self, "first", {})}

    def unoffered(self, pod: Pod) -> Unoffered:
        gang = self.gang(pod)
        return super().unoffered(getattr(self, "first", {}).get(gang.name, pod) if gang else pod)


@mistake("unoffered-sound", "hived: declares with a boolean which pods ignore the offer", **CELLS)
class HivedDeclaresWithABoolean(HivedAlgorithm):
    def unoffered(self, pod: Pod) -> Unoffered:
        return super().unoffered(pod) is not Unoffered.NOTHING  # type: ignore[return-value]


@mistake("everything-given-back", "hived: keeps the cells of pods that have ended", **CELLS)
class HivedKeepsCells(HivedAlgorithm):
    def delete_allocated_pod(self, pod: Pod) -> None:
        if pod.phase == "Pending":
            super().delete_allocated_pod(pod)
