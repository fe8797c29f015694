"""The picture for an algorithm without cells of its own: every node with what is taken of it, by zone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import msgspec

from extender.scheduling.state.cache import Snapshot
from extender.scheduling.state.node_info import NodeInfo

#: Nodes of a piece.
PIECE = 100
ZONE = "topology.kubernetes.io/zone"


class NodePieces:
    """Encodes nodes in pieces. A piece is encoded again only if one of its nodes has changed."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, int], ...], bytes] = {}

    def of(self, snapshot: Snapshot) -> list[bytes]:
        items = iter(snapshot.nodes.items())
        known: dict[tuple[tuple[str, int], ...], bytes] = {}
        while some := list(islice(items, PIECE)):
            key = tuple((name, info.generation) for name, info in some)
            known[key] = self._known.get(key) or _encode(some)
        self._known = known
        return list(known.values())


def _encode(nodes: Sequence[tuple[str, NodeInfo]]) -> bytes:
    return msgspec.json.encode({"nodes": [_node(name, info) for name, info in nodes]})


def _node(name: str, info: NodeInfo) -> dict[str, Any]:
    """One node. `room` is by resource: what is taken, and what there is."""
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
    }
