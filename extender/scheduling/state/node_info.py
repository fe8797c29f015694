"""The pods of one node and their total requests: updated with every pod that comes and goes, never recounted.

A NodeInfoBuilder belongs to a node's name, not to the node: pods may be bound to a node that is not known yet, or no
longer known.
"""

from __future__ import annotations

from dataclasses import dataclass

from algorithm.model import PODS, Node, Pod, Resources


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """One node in a snapshot: the node, its pods, and their total requests.

    `node` is None if pods are bound to the name but no such node is known. `pods` are sorted by namespace and
    name. `requested` counts the pods themselves as the resource "pods"; amounts of zero are left out.
    `generation` grows with every change of this node: equal generations mean that nothing changed.
    """

    node: Node | None
    pods: tuple[Pod, ...]
    requested: Resources
    generation: int


class NodeInfoBuilder:
    """The mutable form of a NodeInfo; used by the cache only."""

    __slots__ = ("generation", "node", "pods", "requested")

    def __init__(self) -> None:
        self.node: Node | None = None
        #: By UID. A record may be replaced by one with the same requests; otherwise, use `take` and `free`.
        self.pods: dict[str, Pod] = {}
        self.requested: dict[str, int] = {}
        self.generation = 0

    def add_pod(self, pod: Pod) -> None:
        """Add a pod, which must not be here yet, and count its requests."""
        self.pods[pod.uid] = pod
        self._count(pod, 1)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a pod. `pod` is the record that it was added with; its requests are subtracted."""
        self._count(self.pods.pop(pod.uid), -1)

    def copy(self) -> NodeInfoBuilder:
        """Return an independent copy."""
        twin = NodeInfoBuilder()
        twin.node, twin.generation = self.node, self.generation
        twin.pods, twin.requested = self.pods.copy(), self.requested.copy()
        return twin

    def _count(self, pod: Pod, sign: int) -> None:
        for name, amount in (*pod.requests, (PODS, 1)):
            total = self.requested.get(name, 0) + sign * amount
            if total:
                self.requested[name] = total
            else:
                self.requested.pop(name, None)

    @property
    def deserted(self) -> bool:
        """Whether this has neither a node nor a pod, and can be dropped."""
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
    """Sort key of pods: namespace, name."""
    return pod.namespace, pod.name
