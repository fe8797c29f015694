"""What a layout consists of: the hardware by chain, and the promises by tenant. `layout.py` makes it.

A *chain* is all cells under one type of top cell. Full lists (all cells of a level) are in depth-first order of the
configuration; recorded decisions depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from algorithm.hived.cells.cells import PhysicalCell, VirtualCell
from algorithm.hived.cells.journal import Journal

#: Cells by level; level 1 are the devices.
Levels = dict[int, list[PhysicalCell]]
VirtualLevels = dict[int, list[VirtualCell]]


@dataclass(frozen=True, slots=True)
class Level:
    """What all cells of one level of a chain have in common. `fanout` is how many children each has."""

    type: str
    leafs: int
    fanout: int
    machine_or_above: bool
    is_machine: bool


@dataclass(frozen=True, slots=True)
class Chain:
    """All cells under one type of top cell. `levels[1]` are the devices, `top` is the highest level."""

    name: str
    leaf_type: str
    levels: dict[int, Level]
    top: int
    machine_level: int
    #: All hardware by level, depth first.
    full: Levels
    #: The one of all chains, which notes how to undo changes of cells and accounts.
    journal: Journal

    def level_of(self, type_: str) -> int | None:
        return next((number for number, level in self.levels.items() if level.type == type_), None)


@dataclass(slots=True)
class Tenant:
    """A virtual cluster: what it was promised. `quota[chain][level]` counts preassigned cells, pinned ones included."""

    name: str
    #: By chain: all its cells that are not in pinned ones, and those of them that are preassigned.
    full: dict[str, VirtualLevels] = field(default_factory=dict)
    preassigned: dict[str, VirtualLevels] = field(default_factory=dict)
    #: By pinned id: the one virtual cell, all levels of it.
    pinned: dict[str, VirtualLevels] = field(default_factory=dict)
    quota: dict[str, dict[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Layout:
    chains: dict[str, Chain]
    tenants: dict[str, Tenant]
    #: The hardware of each pinned id.
    pinned: dict[str, PhysicalCell]
    #: Chains in which a device type is found, in the order of the configuration.
    chains_of: dict[str, list[str]]
    #: Every machine's devices, in all chains, in the order of the configuration.
    machines: dict[str, list[PhysicalCell]]
    #: Devices by chain, machine and index.
    devices: dict[tuple[str, str, int], PhysicalCell]
    journal: Journal

    def numbers(self) -> dict[str, frozenset[int]]:
        """The numbers of each machine's devices."""
        return {name: frozenset(device.indices[0] for device in devices) for name, devices in self.machines.items()}


def preassigned(tenant: Tenant) -> Iterator[VirtualCell]:
    """What the tenant was promised, in the order of its addresses."""
    for levels in tenant.preassigned.values():
        for cells in levels.values():
            yield from cells
    for levels in tenant.pinned.values():
        yield levels[max(level for level, cells in levels.items() if cells)][0]
