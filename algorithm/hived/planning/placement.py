"""Where a gang goes: machines first, then devices that are close to each other.

This works on a tenant's virtual cells, and for opportunistic pods on the hardware itself. It is first fit over the
ordered machines, smallest pods first, in one sweep: first without victims, then, for guaranteed pods, also in place of
lower priorities. It never goes back to an earlier machine, so a gang of different sizes may fail although a fit exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

from algorithm.hived.cells.cells import FREE, Cell
from algorithm.hived.cells.nodelist import NodeList
from algorithm.hived.cells.request import Request
from algorithm.hived.formats.podspec import OPPORTUNISTIC

#: By devices per pod: the devices of each pod.
Placement = dict[int, list[list[Cell]]]


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why there is no place.

    `kind` is capacity, bad, bad-devices or unoffered, and `node` the machine that would have to be used.
    """

    kind: str
    node: str = ""

    @property
    def text(self) -> str:
        if self.kind == "capacity":
            return "insufficient capacity"
        if self.kind == "bad-devices":
            return f"have to use bad devices of node {self.node}"
        return f"have to use at least one {'bad' if self.kind == 'bad' else 'non-suggested'} node {self.node}"


CAPACITY = Shortage("capacity")


def place(nodes: NodeList, leafs_at: dict[int, int], request: Request) -> Placement | Shortage:
    """`leafs_at` is the number of devices of a cell by level, from which the tightest possible fit follows."""
    found = _first_fit(nodes, OPPORTUNISTIC, request)
    priority = OPPORTUNISTIC
    if isinstance(found, Shortage) and request.guaranteed:
        priority = request.priority
        found = _first_fit(nodes, priority, request)
    if isinstance(found, Shortage):
        return found
    placement: Placement = {devices: [] for devices in sorted(request.pods)}
    left: dict[Cell, list[Cell]] = {}
    for devices, node in zip(_needs(request), found, strict=True):
        if node not in left:
            left[node] = _available(node, priority)
        placement[devices].append(_closest(left[node], devices, leafs_at, node.level))
    return placement


def _needs(request: Request) -> Iterator[int]:
    """The devices of each pod, smallest first. An iterator, because a request may have two billion pods."""
    return chain.from_iterable(repeat(devices, pods) for devices, pods in sorted(request.pods.items()))


def _first_fit(nodes: NodeList, priority: int, request: Request) -> list[Cell] | Shortage:
    """A machine for each pod."""
    nodes.arrange(request.offered)
    smallest = min(request.pods)
    if nodes.is_too_small(sum(request.pods.values()), smallest):
        return CAPACITY
    needs = _needs(request)
    need = next(needs)
    found: list[Cell] = []
    for node, free, healthy, offered in nodes.candidates(priority, smallest):
        while free >= need:
            if not healthy:
                return Shortage("bad", node.address)
            if not offered:
                return Shortage("unoffered", node.address)
            free -= need
            found.append(node)
            following = next(needs, None)
            if following is None:
                return found
            need = following
    damaged = nodes.with_bad_devices(priority, need)
    return CAPACITY if damaged is None else Shortage("bad-devices", damaged.address)


def _available(node: Cell, priority: int) -> list[Cell]:
    """Devices that may be taken: free ones first, then those of lower priorities, each in the tree's order."""
    leafs = leafs_of(node)
    if not node.healthy:  # type: ignore[attr-defined]
        leafs = [leaf for leaf in leafs if leaf.healthy]  # type: ignore[attr-defined]
    free = [leaf for leaf in leafs if leaf.priority == FREE]
    return free + [leaf for leaf in leafs if FREE < leaf.priority < priority]


def leafs_of(node: Cell) -> Sequence[Cell]:
    if node.level == 1:
        return [node]
    below: Sequence[Cell] = node.children
    while below[0].level > 1:
        below = [child for cell in below for child in cell.children]
    return below


def _closest(available: list[Cell], number: int, leafs_at: dict[int, int], top: int) -> list[Cell]:
    """Takes so many devices with the lowest common ancestor, the first such choice in the order of the list."""
    for level in range(1, top + 1):
        if leafs_at[level] < number:
            continue
        chosen = _first_under_one(available, number, level)
        if chosen is not None:
            taken = set(chosen)
            available[:] = [leaf for leaf in available if leaf not in taken]
            return chosen
    raise AssertionError(f"{number} of {len(available)} devices cannot be chosen")


def _first_under_one(available: list[Cell], number: int, level: int) -> list[Cell] | None:
    """The choice whose first device comes first, among those within one cell of the level."""
    under: dict[Cell, list[Cell]] = {}
    for leaf in available:
        above = leaf
        while above.level < level:
            assert above.parent is not None
            above = above.parent
        under.setdefault(above, []).append(leaf)
    # A dict keeps the order of first devices.
    return next((leafs[:number] for leafs in under.values() if len(leafs) >= number), None)
