"""What the stand-in believes of the cluster: nodes with the pods on them, assumed pods, nominated pods.

A pod is on a node because the API server says so (bound), or because a bind of it is under way (assumed). What the
API server says wins: an assumed pod that turns up bound elsewhere moves. Assumed pods never expire, as in 1.36.
Nominated pods are on no node, but pods of lower or equal priority must leave room for them.
"""

from __future__ import annotations

from collections.abc import Iterable

from algorithm.model import CPU, MEMORY, PODS, lookup
from extender.embedded.kubescheduler.model import HostPort, SchedNode, SchedPod


class NodeInfo:
    """A node and the pods that take room on it."""

    __slots__ = ("allocatable", "node", "pods", "requested")

    def __init__(self, node: SchedNode | None = None, pods: Iterable[SchedPod] = ()) -> None:
        self.node = node
        self.allocatable: dict[str, int] = dict(node.node.allocatable) if node else {}
        self.pods: dict[str, SchedPod] = {}
        self.requested: dict[str, int] = {}
        for pod in pods:
            self.add(pod)

    @property
    def name(self) -> str:
        return self.node.name if self.node else ""

    @property
    def allowed_pods(self) -> int:
        return self.allocatable.get(PODS, 0)

    def add(self, pod: SchedPod) -> None:
        self.pods[pod.uid] = pod
        for name, amount in pod.pod.requests:
            self.requested[name] = self.requested.get(name, 0) + amount

    def remove(self, pod: SchedPod) -> None:
        known = self.pods.pop(pod.uid)
        for name, amount in known.pod.requests:
            self.requested[name] -= amount

    def copy(self) -> NodeInfo:
        twin = NodeInfo()
        twin.node = self.node
        twin.allocatable = self.allocatable
        twin.pods = dict(self.pods)
        twin.requested = dict(self.requested)
        return twin

    def used_ports(self) -> set[HostPort]:
        return {port for pod in self.pods.values() for port in pod.host_ports}

    def free(self, resource: str) -> int:
        return self.allocatable.get(resource, 0) - self.requested.get(resource, 0)

    def label(self, key: str) -> str | None:
        return lookup(self.node.node.labels, key) if self.node else None

    def least_allocated(self, pod: SchedPod) -> int:
        """0..100: how much of cpu and memory would stay free with the pod here, on average."""
        wanted = dict(pod.pod.requests)
        shares = []
        for name in (CPU, MEMORY):
            room = self.allocatable.get(name, 0)
            if room > 0:
                shares.append(max(0, self.free(name) - wanted.get(name, 0)) * 100 // room)
        return sum(shares) // len(shares) if shares else 0


class Cluster:
    """Nodes by name, in the order in which they came."""

    def __init__(self) -> None:
        self._infos: dict[str, NodeInfo] = {}
        self._placed: dict[str, str] = {}
        self._assumed: set[str] = set()
        self._nominated: dict[str, dict[str, SchedPod]] = {}
        self._nomination: dict[str, str] = {}

    def nodes(self) -> list[NodeInfo]:
        return [info for info in self._infos.values() if info.node is not None]

    def node(self, name: str) -> NodeInfo | None:
        info = self._infos.get(name)
        return info if info is not None and info.node is not None else None

    def set_node(self, node: SchedNode) -> SchedNode | None:
        """A node was added or changed. The record of before, None if there was none."""
        info = self._infos.setdefault(node.name, NodeInfo())
        before, info.node = info.node, node
        info.allocatable = dict(node.node.allocatable)
        return before

    def remove_node(self, name: str) -> bool:
        """A node went away. Its pods stay known until they go themselves."""
        info = self._infos.get(name)
        if info is None or info.node is None:
            return False
        info.node, info.allocatable = None, {}
        if not info.pods:
            del self._infos[name]
        return True

    # -- pods on nodes ------------------------------------------------------------------------------------

    def assume(self, pod: SchedPod, node: str) -> None:
        """Count the pod on the node from now on, before its bind is done."""
        self._place(pod, node)
        self._assumed.add(pod.uid)

    def forget(self, uid: str) -> None:
        """The bind of an assumed pod failed. A pod that the API server says is bound stays."""
        if uid in self._assumed:
            self.remove_pod(uid)

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def place_of(self, uid: str) -> str | None:
        """The node that the pod is bound to or assumed on."""
        return self._placed.get(uid)

    def set_bound(self, pod: SchedPod) -> SchedPod | None:
        """The API server says that the pod is on a node. The bound record of before, None if it was not bound."""
        before = None if pod.uid in self._assumed else self.pod(pod.uid)
        self._assumed.discard(pod.uid)
        self._place(pod, pod.pod.node_name)
        return before

    def remove_pod(self, uid: str) -> SchedPod | None:
        """The pod takes no room any more. Its last record."""
        node = self._placed.pop(uid, None)
        self._assumed.discard(uid)
        if node is None:
            return None
        info = self._infos[node]
        pod = info.pods[uid]
        info.remove(pod)
        if info.node is None and not info.pods:
            del self._infos[node]
        return pod

    def pod(self, uid: str) -> SchedPod | None:
        node = self._placed.get(uid)
        return self._infos[node].pods[uid] if node is not None else None

    def _place(self, pod: SchedPod, node: str) -> None:
        self.remove_pod(pod.uid)
        self._infos.setdefault(node, NodeInfo()).add(pod)
        self._placed[pod.uid] = node

    # -- nominations --------------------------------------------------------------------------------------

    def nominate(self, pod: SchedPod, node: str) -> None:
        """Keep room for the pod on the node; an empty name ends its nomination."""
        self.end_nomination(pod.uid)
        if node:
            self._nomination[pod.uid] = node
            self._nominated.setdefault(node, {})[pod.uid] = pod

    def end_nomination(self, uid: str) -> bool:
        """Whether there was one."""
        before = self._nomination.pop(uid, "")
        if before:
            del self._nominated[before][uid]
        return bool(before)

    def nominated(self, node: str) -> list[SchedPod]:
        return list(self._nominated.get(node, {}).values())
