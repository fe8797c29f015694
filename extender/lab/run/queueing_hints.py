"""Which waiting pods a pod that left its node wakes, and whether that still counts when their turn comes.

    a pod leaves node n --> wakes those that could go to n now --> others go first --> could it still? --> tried, or not

Of an algorithm that looks at each node alone, a pod that it refused can only get a place where something has changed.
"""

from __future__ import annotations

from collections.abc import Callable

from extender.embedded.kubescheduler.cluster import Cluster
from extender.embedded.kubescheduler.events import EXTENDER
from extender.embedded.kubescheduler.filters import in_tree_refusal
from extender.embedded.kubescheduler.hints import Hint, of_pod_that_went
from extender.embedded.kubescheduler.model import SchedPod
from extender.lab.translate import Traits

#: Whether the devices that are free on this node now suffice for the pod, whatever else it needs.
HasDevices = Callable[[SchedPod, str], bool]


class QueueingHints:
    """Remembers for each pod that was woken by room alone, on which nodes that was."""

    def __init__(
        self, cluster: Cluster, traits: Traits, has_devices: HasDevices, ignored_resources: frozenset[str]
    ) -> None:
        self._cluster, self._traits, self._has_devices = cluster, traits, has_devices
        self._ignored = ignored_resources
        self._nodes: dict[str, dict[str, None]] = {}

    def room_on(self, node: str, gone: SchedPod) -> Hint:
        """Return who is woken: who could go to the node now, or could evict others there."""
        for nodes in self._nodes.values():
            nodes[node] = None
        usual = of_pod_that_went(gone)

        def hint(plugin: str, pod: SchedPod) -> bool:
            if plugin == EXTENDER and not self._traits.is_local:
                return True
            if not usual(plugin, pod):
                return False
            if self._may_evict(pod):
                return True
            if not self._accepts(pod, node):
                return False
            if self._traits.is_local:
                self._nodes.setdefault(pod.uid, {})[node] = None
            return True

        return hint

    def _accepts(self, pod: SchedPod, node: str) -> bool:
        """Whether the pod could go to the node now. Of an algorithm that is not local, its own plug-ins are meant."""
        info = self._cluster.node(node)
        if info is None:
            return False
        nominated = self._cluster.nominated(node)
        if in_tree_refusal(pod, info, nominated=nominated, ignored_resources=self._ignored) is not None:
            return False
        return not self._traits.is_local or self._has_devices(pod, node)

    def is_in_vain(self, pod: SchedPod) -> bool:
        """Whether the pod, whose turn has come, was woken by room alone, and others have taken all of it."""
        nodes = self._nodes.pop(pod.uid, None)
        if nodes is None or self._may_evict(pod):
            return False
        return not any(self._accepts(pod, node) for node in nodes)

    def _may_evict(self, pod: SchedPod) -> bool:
        """Whether there is any pod that this one could have evicted."""
        lowest = self._cluster.lowest_priority
        return lowest is not None and lowest < pod.priority

    def anything(self) -> None:
        """Something else has happened: all that were woken are tried."""
        self._nodes.clear()

    def itself(self, uid: str) -> None:
        """Something has happened to this pod: it is tried."""
        self._nodes.pop(uid, None)
