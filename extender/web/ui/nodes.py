"""The picture for an algorithm without cells of its own: every node with what is taken of it, by zone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any

import msgspec

from extender.scheduling.state.cache import Snapshot
from extender.scheduling.state.node_info import NodeInfo

#: Nodes of a piece.
PIECE = 100
#: Namespaces of a node that are told apart.
OWNERS = 8
ZONE = "topology.kubernetes.io/zone"


class NodePieces:
    """Encodes nodes in pieces. A piece is encoded again only if one of its nodes has changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, int], ...], bytes] = {}

    def of(self, snapshot: Snapshot) -> list[bytes]:
        """The pieces; the first one says how many of the nodes' pods are not bound yet."""
        items = iter(snapshot.nodes.items())
        known: dict[tuple[tuple[str, int], ...], bytes] = {}
        while some := list(islice(items, PIECE)):
            key = tuple((name, info.generation) for name, info in some)
            known[key] = self._known.get(key) or _encode(some)
        self._known = known
        return [msgspec.json.encode({"assumed": snapshot.counts.assumed}), *known.values()]


def _encode(nodes: Sequence[tuple[str, NodeInfo]]) -> bytes:
    return msgspec.json.encode({"nodes": [_node(name, info) for name, info in nodes]})


def _node(name: str, info: NodeInfo) -> dict[str, Any]:
    """One node. `room` is by resource: what is taken, and what there is. `owners` are namespaces with what they
    take."""
    node, taken = info.node, dict(info.requested)
    there = {} if node is None else dict(node.allocatable)
    return {
        "name": name,
        "zone": "" if node is None else dict(node.labels).get(ZONE, ""),
        "known": node is not None,
        "ready": node is not None and node.ready,
        "cordoned": node is not None and node.unschedulable,
        "pods": len(info.pods),
        "room": {key: (taken.get(key, 0), there.get(key, 0)) for key in sorted(taken.keys() | there.keys())},
        "owners": _owners(info, there.keys()),
    }


def _owners(info: NodeInfo, resources: Collection[str]) -> list[tuple[str, dict[str, int]]]:
    """The namespaces whose pods are here, with what they take of what the node has: OWNERS of them at
    most, those with most pods; the others together as ""."""
    taken: dict[str, Counter[str]] = {}
    pods = Counter(pod.namespace for pod in info.pods)
    named = {name for name, _ in pods.most_common(OWNERS)}
    for pod in info.pods:
        amounts = taken.setdefault(pod.namespace if pod.namespace in named else "", Counter())
        for name, amount in pod.requests:
            if amount and name in resources:
                amounts[name] += amount
    return sorted(((owner, dict(amounts)) for owner, amounts in taken.items() if amounts), key=lambda item: item[0])
