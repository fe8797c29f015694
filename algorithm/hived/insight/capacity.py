"""Counts the devices of a chain that a waiting group could have; `explain.py` puts the counts into words.

A guaranteed group may have what its tenant was promised (or the pinned cell that it names), an opportunistic one any
hardware of the chain. A pod has its devices in one *piece*: a machine, or a smaller cell that was promised by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from algorithm.hived.cells.cells import Cell, CellState
from algorithm.hived.cells.nodelist import usable
from algorithm.hived.formats.podspec import PodSpec
from algorithm.hived.state.cluster import HivedCluster


@dataclass(frozen=True, slots=True)
class Piece:
    """`left` of its devices are healthy and available; `bad` more would be available if they were healthy."""

    cell: Cell
    left: int
    bad: int


@dataclass(frozen=True, slots=True)
class ChainCapacity:
    """Of `total` devices, `held` are used by the same or higher priorities, or reserved for them.

    `left` are the others. Of these, `lower` are used by lower priorities, which would have to go, and `bad` are bad.
    `idle` are all healthy devices of the chain that no group uses or has reserved.
    """

    chain: str
    leaf_type: str
    need: int
    total: int
    held: int
    lower: int
    bad: int
    idle: int
    #: Of the group's largest pods: how many there are, how many would find a piece now, and if all were free and well.
    pods: int
    fitting: int
    ever: int
    pieces: tuple[Piece, ...]
    #: Whether a pod may have several pieces on one machine.
    combines: bool = False

    @property
    def left(self) -> int:
        return self.total - self.held

    @property
    def never(self) -> bool:
        """Whether it does not fit even if nothing else runs and everything is healthy."""
        return self.total < self.need or self.ever < self.pods


def capacity_of(hive: HivedCluster, spec: PodSpec, chain: str) -> ChainCapacity:
    """Counts for one of the chains that the group may be in."""
    roots = _roots(hive, spec, chain)
    machine = hive.layout.chains[chain].machine_level
    pieces = tuple(_piece(cell, spec.priority) for root in roots for cell in _pieces(root, machine))
    largest, pods = max(spec.pods)
    combines = hive.combining and spec.priority >= 0 and not spec.pinned_id
    total = sum(root.leafs for root in roots)
    held = sum(root.leafs - root.free_for(spec.priority) for root in roots)
    return ChainCapacity(
        chain=chain,
        leaf_type=hive.layout.chains[chain].leaf_type,
        need=spec.devices,
        total=total,
        held=held,
        lower=sum(root.used_total for root in roots) - held,
        bad=sum(piece.bad for piece in pieces),
        idle=sum(leaf.healthy and leaf.state is CellState.FREE for leaf in hive.layout.chains[chain].full[1]),
        pods=pods,
        fitting=sum(piece.left // largest for piece in pieces),
        ever=sum(piece.cell.leafs // largest for piece in pieces) + _combined(pieces, hive, chain, largest) * combines,
        pieces=pieces,
        combines=combines,
    )


def _combined(pieces: Iterable[Piece], hive: HivedCluster, chain: str, largest: int) -> int:
    """How many more such pods the pieces that are too small would make if they came together on machines."""
    levels, machine = hive.layout.chains[chain].levels, hive.layout.chains[chain].machine_level
    small = sum(piece.cell.leafs % largest for piece in pieces if piece.cell.level < machine)
    return small // largest if largest <= levels[machine].leafs else 0


def _roots(hive: HivedCluster, spec: PodSpec, chain: str) -> Sequence[Cell]:
    """The cells of which the group may have a part."""
    if spec.priority < 0:
        return hive.layout.chains[chain].full[hive.layout.chains[chain].top]
    tenant = hive.layout.tenants[spec.tenant]
    levels = tenant.pinned[spec.pinned_id] if spec.pinned_id else tenant.preassigned[chain]
    return [cell for cells in levels.values() for cell in cells if cell.parent is None]


def _pieces(root: Cell, machine: int) -> Iterator[Cell]:
    if root.level <= machine:
        yield root
    else:
        for child in root.children:
            yield from _pieces(child, machine)


def _piece(cell: Cell, priority: int) -> Piece:
    left = usable(cell, priority)
    return Piece(cell, left, cell.free_for(priority) - left)
