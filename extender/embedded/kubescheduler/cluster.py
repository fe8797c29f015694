"""What the stand-in believes of the cluster: nodes with the pods on them, assumed pods, nominated pods.

A pod is on a node because the API server says so (bound), or because a bind of it is under way (assumed). What the
API server says wins: an assumed pod that turns up bound elsewhere moves. Assumed pods never expire, as in 1.36.
Nominated pods are on no node, but pods of lower or equal priority must leave room for them.

Each node whose content changes is noted in a log, so that answers which were found earlier (`views`) are looked at
again only for those nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from algorithm.model import CPU, MEMORY, PODS, lookup
from extender.embedded.kubescheduler.model import HostPort, SchedNode, SchedPod

#: The log of changes keeps at least so many. An older follower looks at every node again.
_REMEMBERED_CHANGES = 1000


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


class NodeOrder:
    """The nodes at one time, in the order in which they came. Do not change."""

    __slots__ = ("infos", "names", "position")

    def __init__(self, infos: Iterable[NodeInfo]) -> None:
        self.infos = tuple(infos)
        self.names = tuple(info.name for info in self.infos)
        self.position = {name: number for number, name in enumerate(self.names)}


class Cluster:
    """Nodes by name, in the order in which they came."""

    def __init__(self) -> None:
        self._infos: dict[str, NodeInfo] = {}
        self._placed: dict[str, str] = {}
        self._assumed: set[str] = set()
        self._nominated: dict[str, dict[str, SchedPod]] = {}
        self._nomination: dict[str, str] = {}
        self._priorities: dict[int, int] = {}
        self._order = NodeOrder(())
        self._order_is_old = False
        # Names of nodes that changed, the oldest first, and how many were let go before them.
        self._changes: list[str] = []
        self._changes_dropped = 0

    @property
    def order(self) -> NodeOrder:
        """All nodes, in order. Another object once a node has come or gone."""
        if self._order_is_old:
            self._order = NodeOrder(info for info in self._infos.values() if info.node is not None)
            self._order_is_old = False
        return self._order

    def nodes(self) -> list[NodeInfo]:
        return list(self.order.infos)

    # -- what has changed ---------------------------------------------------------------------------------

    @property
    def mark(self) -> int:
        """The number of changes so far."""
        return self._changes_dropped + len(self._changes)

    def changed_since(self, mark: int) -> Sequence[str] | None:
        """Names of the nodes that changed since `mark` was read, as often as they did; None: they are forgotten."""
        if mark < self._changes_dropped:
            return None
        return self._changes[mark - self._changes_dropped :]

    def _changed(self, node: str) -> None:
        self._changes.append(node)
        if len(self._changes) > 2 * max(_REMEMBERED_CHANGES, len(self._infos)):
            half = len(self._changes) // 2
            del self._changes[:half]
            self._changes_dropped += half

    @property
    def lowest_priority(self) -> int | None:
        """Of all pods that take room; None if there are none."""
        return min(self._priorities, default=None)

    def node(self, name: str) -> NodeInfo | None:
        info = self._infos.get(name)
        return info if info is not None and info.node is not None else None

    def set_node(self, node: SchedNode) -> SchedNode | None:
        """A node was added or changed. The record of before, None if there was none."""
        info = self._infos.setdefault(node.name, NodeInfo())
        before, info.node = info.node, node
        info.allocatable = dict(node.node.allocatable)
        self._order_is_old = self._order_is_old or before is None
        self._changed(node.name)
        return before

    def remove_node(self, name: str) -> bool:
        """A node went away. Its pods stay known until they go themselves."""
        info = self._infos.get(name)
        if info is None or info.node is None:
            return False
        info.node, info.allocatable = None, {}
        self._order_is_old = True
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
        self._count(pod.priority, -1)
        self._changed(node)
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
        self._count(pod.priority, 1)
        self._changed(node)

    def _count(self, priority: int, change: int) -> None:
        self._priorities[priority] = self._priorities.get(priority, 0) + change
        if not self._priorities[priority]:
            del self._priorities[priority]

    # -- nominations --------------------------------------------------------------------------------------

    def nominate(self, pod: SchedPod, node: str) -> None:
        """Keep room for the pod on the node; an empty name ends its nomination."""
        self.end_nomination(pod.uid)
        if node:
            self._nomination[pod.uid] = node
            self._nominated.setdefault(node, {})[pod.uid] = pod
            self._changed(node)

    def end_nomination(self, uid: str) -> bool:
        """Whether there was one."""
        before = self._nomination.pop(uid, "")
        if before:
            del self._nominated[before][uid]
            self._changed(before)
        return bool(before)

    def nominated(self, node: str) -> list[SchedPod]:
        found = self._nominated.get(node)
        return list(found.values()) if found else []

    def nomination_of(self, uid: str) -> str:
        """The node that is kept for the pod; "" if none is."""
        return self._nomination.get(uid, "")
