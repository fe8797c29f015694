"""The simplest algorithm that decides for real: the first node, by name, that has enough cpu left."""

from __future__ import annotations

from algorithm.interface import Bind, Phase, Preempt, SchedulerAlgorithm, ScheduleResult, SuggestedNodes, Victim, Wait
from algorithm.model import CPU, Node, Pod
from algorithm.reasons import Code, reason


class FirstFit(SchedulerAlgorithm):
    """Preempts too: on the first node where evicting pods of lower priority makes room, all of these."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.allocated: dict[str, Pod] = {}

    def add_node(self, node: Node) -> None:
        self.nodes[node.name] = node

    def update_node(self, old: Node, new: Node) -> None:
        self.nodes[new.name] = new

    def delete_node(self, node: Node) -> None:
        del self.nodes[node.name]

    def add_unallocated_pod(self, pod: Pod) -> None:
        pass

    def delete_unallocated_pod(self, pod: Pod) -> None:
        pass

    def add_allocated_pod(self, pod: Pod) -> None:
        self.allocated[pod.uid] = pod

    def delete_allocated_pod(self, pod: Pod) -> None:
        del self.allocated[pod.uid]

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        offered = [self.nodes[name] for name in sorted(set(suggested_nodes)) if name in self.nodes]
        for node in offered:
            if _cpu(pod) <= self._free(node):
                return Bind(node.name)
        why = reason(Code.INSUFFICIENT, resources=[CPU])
        for node in offered if phase is Phase.PREEMPTING else ():
            lower = [other for other in self._on(node) if other.priority < pod.priority]
            if lower and _cpu(pod) <= self._free(node) + sum(map(_cpu, lower)):
                return Preempt(tuple(sorted(Victim(node.name, other.uid) for other in lower)), why)
        unknown = {name: reason(Code.NODE_UNKNOWN) for name in suggested_nodes if name not in self.nodes}
        return Wait(why, unknown)

    def _on(self, node: Node) -> list[Pod]:
        return [pod for pod in self.allocated.values() if pod.node_name == node.name]

    def _free(self, node: Node) -> int:
        return dict(node.allocatable).get(CPU, 0) - sum(map(_cpu, self._on(node)))


def _cpu(pod: Pod) -> int:
    return dict(pod.requests).get(CPU, 0)
