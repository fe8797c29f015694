from collections import Counter

from algorithm.interface import Bind, Phase, SchedulerAlgorithm, ScheduleResult, SuggestedNodes, Wait
from algorithm.model import Node, Pod
from algorithm.reasons import Code, reason
from algorithm.registry import Plugin
from pydantic import BaseModel, Field


class Settings(BaseModel, extra="forbid"):
    slots: int = Field(4, ge=1)


class Slots(SchedulerAlgorithm):
    def __init__(self, settings: Settings) -> None:
        self.slots, self.nodes, self.used = settings.slots, set[str](), Counter[str]()

    def add_node(self, node: Node) -> None:
        self.nodes.add(node.name)

    def update_node(self, old: Node, new: Node) -> None: ...
    def delete_node(self, node: Node) -> None:
        self.nodes.discard(node.name)

    def add_unallocated_pod(self, pod: Pod) -> None: ...
    def delete_unallocated_pod(self, pod: Pod) -> None: ...
    def add_allocated_pod(self, pod: Pod) -> None:
        self.used[pod.node_name] += 1

    def delete_allocated_pod(self, pod: Pod) -> None:
        self.used[pod.node_name] -= 1

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        for name in sorted(self.nodes & suggested_nodes.as_set()):
            if self.used[name] < self.slots:
                return Bind(name)
        return Wait(reason(Code.OTHER, detail="every offered node has its number of pods"))


PLUGIN = Plugin(settings=Settings, create=Slots)
