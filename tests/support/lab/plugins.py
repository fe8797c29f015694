"""Algorithms of others: one that is right and simple, one that reads names, and one that always raises."""

from __future__ import annotations

from collections import Counter

from pydantic import BaseModel

from algorithm.interface import Bind, Phase, SchedulerAlgorithm, ScheduleResult, SuggestedNodes, Wait
from algorithm.model import Node, Pod
from algorithm.reasons import Code, reason
from algorithm.registry import Plugin


class Settings(BaseModel):
    """There are none."""


class Emptiest(SchedulerAlgorithm):
    """Takes the node with the fewest pods, the first by name of several."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pods: Counter[str] = Counter()

    def add_node(self, node: Node) -> None:
        pass

    def update_node(self, old: Node, new: Node) -> None:
        pass

    def delete_node(self, node: Node) -> None:
        pass

    def add_unallocated_pod(self, pod: Pod) -> None:
        pass

    def delete_unallocated_pod(self, pod: Pod) -> None:
        pass

    def add_allocated_pod(self, pod: Pod) -> None:
        self.pods[pod.node_name] += 1

    def delete_allocated_pod(self, pod: Pod) -> None:
        self.pods[pod.node_name] -= 1

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        if phase is not Phase.FILTERING or not suggested_nodes:
            return Wait(reason(Code.NO_NODE_FITS))
        return Bind(min(suggested_nodes, key=lambda name: (self.pods[name], name)))


class Raising(Emptiest):
    """Raises for every pod."""

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        raise RuntimeError(f"cannot place {pod.name}")


class ByLength(Emptiest):
    """Takes a node by how long the pod's name is."""

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        if phase is not Phase.FILTERING or not suggested_nodes:
            return Wait(reason(Code.NO_NODE_FITS))
        return Bind(sorted(suggested_nodes)[len(pod.name) % len(suggested_nodes)])


BY_LENGTH = Plugin(settings=Settings, create=ByLength)
EMPTIEST = Plugin(settings=Settings, create=Emptiest)
RAISING = Plugin(settings=Settings, create=Raising)
