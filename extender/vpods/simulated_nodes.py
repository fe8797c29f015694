"""The node of each pod that a simulated StatefulSet gets: in the zone with the fewest pods of the set, and there on the
node with the fewest.

Ten thousand pods may come at once on five thousand nodes, so a choice takes no look at all nodes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from heapq import heapify, heapreplace

from extender.vpods.records import HostNode, HostPod, Toleration


class NodeChoice:
    """Chooses for one pod after the other. `pods`: those that are there; `tolerates`: what each new one has."""

    def __init__(
        self, nodes: Mapping[str, HostNode], pods: Iterable[HostPod], tolerates: tuple[Toleration, ...]
    ) -> None:
        on = Counter(pod.node for pod in pods if pod.node)
        in_zone: Counter[str] = Counter()
        for name, number in on.items():
            node = nodes.get(name)
            in_zone[node.zone if node else ""] += number
        #: Number of pods and name of each node that serves, by zone, the next one first.
        self._nodes: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        for node in nodes.values():
            if node.hosts(tolerates):
                self._nodes[node.zone].append((on[node.name], node.name))
        for heap in self._nodes.values():
            heapify(heap)
        #: Number of pods of each zone, its next node, and its name, the next zone first.
        self._zones = [(in_zone[zone], heap[0], zone) for zone, heap in self._nodes.items()]
        heapify(self._zones)

    def next(self) -> str:
        """Return the node of the next pod; "" if none serves: it stays pending."""
        if not self._zones:
            return ""
        pods, (on, name), zone = self._zones[0]
        heap = self._nodes[zone]
        heapreplace(heap, (on + 1, name))
        heapreplace(self._zones, (pods + 1, heap[0], zone))
        return name
