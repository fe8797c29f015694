"""Who takes how much room on one node: kept up with every pod that comes and goes, never recounted.

A Room belongs to a node's name, not to the node: pods may be bound to a node that is not known yet, or no longer.
"""

from __future__ import annotations

from dataclasses import dataclass

from algorithm.model import PODS, Node, Pod, Resources


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One node in a snapshot: what it is, who is on it, what they take together.

    `node` is None for a name that pods are bound to while no such node is known. `pods` are sorted by namespace and
    name. `requested` counts the pods themselves as the resource "pods"; amounts of zero are left out.
    `generation` grows with every change of this node: equal generations mean that nothing changed.
    """

    node: Node | None
    pods: tuple[Pod, ...]
    requested: Resources
    generation: int


class NodeInfoBuilder:
    """The mutable side of a NodeInfo; only the cache holds any."""

    __slots__ = ("generation", "node", "pods", "requested")

    def __init__(self) -> None:
        self.node: Node | None = None
        self.pods: dict[str, Pod] = {}
        self.requested: dict[str, int] = {}
        self.generation = 0

    def take(self, pod: Pod) -> None:
        """The pod, which must not be here yet, takes its room."""
        self.pods[pod.uid] = pod
        self._count(pod, 1)

    def free(self, pod: Pod) -> None:
        """The pod gives back what the record with which it came here took."""
        self._count(self.pods.pop(pod.uid), -1)

    def replace(self, pod: Pod) -> None:
        """A new record of a pod that is here; it takes what the one before took."""
        self.pods[pod.uid] = pod

    def _count(self, pod: Pod, sign: int) -> None:
        for name, amount in (*pod.requests, (PODS, 1)):
            total = self.requested.get(name, 0) + sign * amount
            if total:
                self.requested[name] = total
            else:
                self.requested.pop(name, None)

    @property
    def deserted(self) -> bool:
        """Neither a node nor a pod gives a reason to keep this."""
        return self.node is None and not self.pods

    def sorted_pods(self) -> list[Pod]:
        return sorted(self.pods.values(), key=by_name)

    def info(self) -> NodeInfo:
        return NodeInfo(
            node=self.node,
            pods=tuple(self.sorted_pods()),
            requested=tuple(sorted(self.requested.items())),
            generation=self.generation,
        )


def by_name(pod: Pod) -> tuple[str, str]:
    """The order in which pods are listed."""
    return pod.namespace, pod.name
