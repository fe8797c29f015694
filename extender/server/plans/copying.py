"""A copy of what is on the nodes, taken in pieces while events go on, and equal to the cache at one moment.

    some nodes | some nodes | ... | what has changed since: repeated until it is little, and then the last piece

Records are immutable, so a copy of a node is a reference to its record and a tuple of references to those of its pods.
A node that changes afterwards has another generation, and is copied again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from algorithm.model import Node, Pod
from extender.scheduling.state.cache import Cache

#: Nodes of a piece. With 100 pods each it takes some 0.2 ms.
PIECE = 150
#: After so many rounds everything that has changed is copied at once.
_ROUNDS = 50


class NodeCopy(NamedTuple):
    """What was on a node. `node` None: pods are bound to a name that is no node."""

    generation: int
    node: Node | None
    pods: tuple[Pod, ...]


Copy = Mapping[str, NodeCopy]


def copy_nodes(cache: Cache) -> Iterator[Copy | Literal[False]]:
    """Yield False after each piece, and with the last one the copy, by the names of nodes, sorted. Each piece is made
    under the lock of the engine."""
    taken: dict[str, NodeCopy] = {}
    names = list(cache.builders)
    for start in range(0, len(names), PIECE):
        _take(cache, names[start : start + PIECE], taken)
        yield False
    for number in range(_ROUNDS):
        changed = [name for name, found in cache.builders.items() if _is_changed(taken.get(name), found.generation)]
        if len(changed) <= PIECE or number + 1 == _ROUNDS:
            break
        _take(cache, changed[:PIECE], taken)
        yield False
    _take(cache, changed, taken)
    yield {name: taken[name] for name in sorted(cache.builders)}


def _is_changed(known: NodeCopy | None, generation: int) -> bool:
    return known is None or known.generation != generation


def _take(cache: Cache, names: list[str], taken: dict[str, NodeCopy]) -> None:
    for name in names:
        found = cache.builders.get(name)
        if found is not None:
            taken[name] = NodeCopy(found.generation, found.node, tuple(found.pods.values()))
