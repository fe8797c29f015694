"""Queueing hints: which waiting pods are tried when a pod leaves its node, and whether a try can still succeed.

    a pod leaves node n --> those that fit there are queued --> others go first --> does it still fit? --> tried or not

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
    """Remembers, for each pod that was queued only because room became free, on which nodes."""

    def __init__(
        self, cluster: Cluster, traits: Traits, has_devices: HasDevices, ignored_resources: frozenset[str]
    ) -> None:
        self._cluster, self._traits, self._has_devices = cluster, traits, has_devices
        self._ignored = ignored_resources
        self._nodes: dict[str, dict[str, None]] = {}

    def room_on(self, node: str, gone: SchedPod) -> Hint:
        """Return the hint for room on a node: it queues pods that fit there now, or could evict others there."""
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
        """Return whether the pod fits on the node now. For algorithms that are not local, only kube-scheduler's filters
        are asked."""
        info = self._cluster.node(node)
        if info is None:
            return False
        nominated = self._cluster.nominated(node)
        if in_tree_refusal(pod, info, nominated=nominated, ignored_resources=self._ignored) is not None:
            return False
        return not self._traits.is_local or self._has_devices(pod, node)

    def is_in_vain(self, pod: SchedPod) -> bool:
        """Return whether the pod was queued only because room became free, and other pods have taken that room."""
        nodes = self._nodes.pop(pod.uid, None)
        if nodes is None or self._may_evict(pod):
            return False
        return not any(self._accepts(pod, node) for node in nodes)

    def _may_evict(self, pod: SchedPod) -> bool:
        """Return whether any pod has a lower priority, so that this one could evict it."""
        lowest = self._cluster.lowest_priority
        return lowest is not None and lowest < pod.priority

    def anything(self) -> None:
        """Let all queued pods be tried: something else than free room has changed."""
        self._nodes.clear()

    def itself(self, uid: str) -> None:
        """Let this pod be tried: it has changed itself."""
        self._nodes.pop(uid, None)
