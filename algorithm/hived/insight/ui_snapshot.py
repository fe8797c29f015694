"""What the web page draws: every device and every promise, small enough to be asked for every other second.

A JSON array of parts, of which the order never changes (`docs/web-page.md` has their fields): chains and machine names,
which never change either; then devices, some dozens of machines a part; then the virtual clusters' cells. A part is
written again only if a cell in it has changed, so a look at a quiet cluster costs one sum of versions for each part;
and no part takes longer than some 256 devices do, whatever the shape of the hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from algorithm.hived.cells.cells import Cell, PhysicalCell, VirtualCell
from algorithm.hived.cells.chains import Chain, Tenant, preassigned
from algorithm.hived.insight.parts import Part, slices
from algorithm.hived.state.cluster import HivedCluster

#: Devices of a part: it is written while nothing can be decided.
PART = 256
#: Machines of a part of names.
NAMES = 64
#: The number of a virtual device that is no device in particular.
NOWHERE = -1

#: state, priority, healthy, tenant and group that use it, tenant and group that wait for it, tenant it is promised to
Kind = tuple[str, int, bool, str, str, str, str, str]


class UiSnapshot:
    """The parts of one hive."""

    def __init__(self, hive: HivedCluster) -> None:
        self._hive = hive
        self._made: list[Part] = []

    def pieces(self) -> Iterator[bytes]:
        """The array: each part with what is in front of it, `[` or `,`; in the end `]`."""
        self._made = self._made or list(_Parts(self._hive).all())
        for number, part in enumerate(self._made):
            yield (b"," if number else b"[") + part.text()
        yield b"]"


class _Parts:
    """Divides a hive into parts."""

    def __init__(self, hive: HivedCluster) -> None:
        self._layout = hive.layout
        self._chains = list(hive.layout.chains.values())
        #: The number of each device in its chain; known once the names are written, which come first.
        self._number: dict[Cell, int] = {}

    def all(self) -> Iterator[Part]:
        yield _part(lambda: {"chains": [_chain(chain) for chain in self._chains]})
        for number, chain in enumerate(self._chains):
            leafs = chain.levels[chain.machine_level].leafs
            for start in range(0, len(chain.full[chain.machine_level]), NAMES):
                yield _part(partial(self._names, number, start, leafs))
        yield _part(lambda: {"pinned": list(self._pinned())})
        for number, chain in enumerate(self._chains):
            for some in slices(chain.full[chain.machine_level], PART):
                yield _part(partial(_devices, number, some), some)
        for tenant in self._layout.tenants.values():
            yield from self._promises(tenant)

    # -- what never changes -----------------------------------------------------------------------------------

    def _names(self, number: int, first: int, leafs: int) -> dict[str, Any]:
        chain = self._chains[number]
        for leaf in range(first * leafs, min((first + NAMES) * leafs, len(chain.full[1]))):
            self._number[chain.full[1][leaf]] = leaf
        machines = chain.full[chain.machine_level][first : first + NAMES]
        return {"chain": number, "machines": [_machine(machine) for machine in machines]}

    def _pinned(self) -> Iterator[tuple[str, int, int, int]]:
        """Id, chain, first device and number of devices of each pinned cell."""
        numbers = {chain.name: number for number, chain in enumerate(self._chains)}
        for pinned_id, cell in self._layout.pinned.items():
            yield pinned_id, numbers[cell.chain], self._first(cell), cell.leafs

    # -- virtual clusters -------------------------------------------------------------------------------------

    def _promises(self, tenant: Tenant) -> Iterator[Part]:
        numbers = {chain.name: number for number, chain in enumerate(self._chains)}
        for some in list(slices(preassigned(tenant), PART)) or [[]]:
            yield self._promise(tenant, numbers, some)

    def _promise(self, tenant: Tenant, numbers: dict[str, int], cells: list[VirtualCell]) -> Part:
        def write() -> dict[str, Any]:
            return {"tenant": tenant.name, "cells": [self._virtual(cell, numbers[cell.chain]) for cell in cells]}

        return _part(write, cells)

    def _virtual(self, cell: VirtualCell, chain: int) -> tuple[Any, ...]:
        """Address, chain, level, pinned id, devices used, priority; then what hardware it is.

        That is the first device of its hardware, and for each of its devices which one it is, counted from there.
        """
        head = cell.address, chain, cell.level, cell.pinned_id, cell.used_total, cell.priority
        if cell.physical is None:
            return (*head, NOWHERE, [])
        first = self._first(cell.physical)
        leafs = (leaf for leaf in cell.walk() if leaf.level == 1)
        return (*head, first, [self._offset(leaf, first) for leaf in leafs])

    def _offset(self, leaf: Cell, first: int) -> int:
        assert isinstance(leaf, VirtualCell)
        return NOWHERE if leaf.physical is None else self._number[leaf.physical] - first

    def _first(self, cell: PhysicalCell) -> int:
        while cell.children:
            cell = cell.children[0]
        return self._number[cell]


def _chain(chain: Chain) -> dict[str, Any]:
    """Levels from devices upwards, and the names of what is above machines, by level."""
    return {
        "name": chain.name,
        "leafType": chain.leaf_type,
        "machineLevel": chain.machine_level,
        "levels": [
            {"type": level.type, "leafs": level.leafs, "fanout": level.fanout} for level in chain.levels.values()
        ],
        "machines": len(chain.full[chain.machine_level]),
        "above": {
            str(level): [_own_name(cell) for cell in chain.full[level]]
            for level in range(chain.machine_level + 1, chain.top + 1)
        },
    }


def _machine(machine: PhysicalCell) -> Any:
    """Its name; with the names of its parts, by level downwards, if they are not simply numbered."""
    name, parts, cells = _own_name(machine), [], list(machine.children)
    while cells:
        parts.append([_own_name(cell) for cell in cells])
        cells = [child for cell in cells for child in cell.children]
    numbered = all(part == str(number) for names in parts for number, part in enumerate(names))
    return name if numbered else [name, parts]


def _own_name(cell: PhysicalCell) -> str:
    return cell.address.rpartition("/")[2]


def _devices(chain: int, machines: Sequence[PhysicalCell]) -> dict[str, Any]:
    """The kinds of devices that there are here, and the kind of each device."""
    kinds: dict[Kind, int] = {}
    numbers: list[int] = []
    for machine in machines:
        _collect(machine, _owner_above(machine), kinds, numbers)
    return {"chain": chain, "kinds": list(kinds), "devices": numbers}


def _owner_above(machine: PhysicalCell) -> str:
    """The tenant of the cell that the machine is part of; "" if it has none."""
    above = machine.parent
    while above is not None and above.virtual is None:
        above = above.parent
    return above.virtual.tenant if above is not None and above.virtual is not None else ""


def _collect(cell: PhysicalCell, owner: str, kinds: dict[Kind, int], numbers: list[int]) -> None:
    if cell.virtual is not None:
        owner = cell.virtual.tenant
    for child in cell.children:
        _collect(child, owner, kinds, numbers)
    if not cell.children:
        numbers.append(kinds.setdefault(_kind(cell, owner), len(kinds)))


def _kind(device: PhysicalCell, owner: str) -> Kind:
    user, reserver = device.group, device.reserver
    return (
        device.state.value,
        device.priority,
        device.healthy,
        "" if user is None else user.tenant,
        "" if user is None else user.name,
        "" if reserver is None else reserver.tenant,
        "" if reserver is None else reserver.name,
        owner,
    )


def _part(write: Callable[[], dict[str, Any]], cells: Iterable[Cell] = ()) -> Part:
    return Part(lambda: msgspec.json.encode(write()), cells)
