"""More nodes like those of a cluster, for `--add-nodes NUMBER` without a shape."""

from __future__ import annotations

from collections import Counter

import msgspec

from algorithm.model import Node, pairs
from extender.embedded.kubescheduler.model import SchedNode
from extender.plan.reading.making import known_node
from extender.plan.reading.shapes import MOST_NODES, ShapeError
from extender.plan.records import World

_HOSTNAME = "kubernetes.io/hostname"
#: Taints of this prefix say in what state a node is.
_OF_STATE = "node.kubernetes.io/"


def copied_nodes(number: int, world: World, *, prefix: str) -> tuple[SchedNode, ...]:
    """Return so many ready nodes like the most common ones of a cluster: its resources, labels and taints.

    Raises ShapeError.
    """
    if not 1 <= number <= MOST_NODES:
        raise ShapeError(f"nodes: expected 1 to {MOST_NODES}, got {number}")
    if not world.nodes:
        raise ShapeError("the cluster has no node that more could be like: expected a shape (--node-shape)")
    like = _most_common(world)
    return tuple(known_node(_copy(like, f"{prefix}{index}")) for index in range(number))


def _most_common(world: World) -> SchedNode:
    counts = Counter(node.node.allocatable for node in world.nodes)
    return min(world.nodes, key=lambda node: (-counts[node.node.allocatable], node.name))


def _copy(like: SchedNode, name: str) -> SchedNode:
    node = Node(
        name=name,
        labels=pairs(dict(like.node.labels) | {_HOSTNAME: name}),
        allocatable=like.node.allocatable,
        taints=tuple(taint for taint in like.node.taints if not taint.key.startswith(_OF_STATE)),
    )
    return msgspec.structs.replace(like, node=node, raw=b"", conditions=(("Ready", "True"),))
