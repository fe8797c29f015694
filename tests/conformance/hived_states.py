"""Recorded cells and groups held against ours, and the ways in which the two may differ.

A recorded cell is a row of texts: state, health, priority, and to what it is bound. Two things in the rows are known
to be stale now and then, the state of cells above devices (BUG-23) and the tenant shown for a device that is or was
used opportunistically; both follow from the rest, so the rest is compared, and that it was stale is noted. Where the
original draws lots, only the names of a tenant's virtual cells may differ: the shapes are compared then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from algorithm.hived.cells.cells import Cell, PhysicalCell, VirtualCell
from algorithm.hived.insight.status import preassigned
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group
from tests.conformance.hived_recordings import Recording, states

#: What `differences` and `group_differences` may find.
KINDS = frozenset(
    {"state", "tenant", "names", "cells", "groups"}
    | {
        f"group {field}"
        for field in ("vc", "priority", "state", "physical", "allocated", "preempting", "lazyPreemptedBy")
    }
)
_BAD = {True: "H", False: "B"}


@dataclass
class Rows:
    """By address: [state, health, priority, tenant, virtual cell] and [state, health, priority, physical cell]."""

    physical: dict[str, list[str]]
    virtual: dict[str, list[str]]


class Recorded:
    """What was recorded, brought up to date step by step."""

    def __init__(self, recording: Recording) -> None:
        self._changes = states()["scenarios"].get(recording["id"], [])
        self._groups: dict[str, dict[str, Any]] = {}
        self._steps = recording["steps"]
        self._cells: dict[str, dict[str, str]] = {"cells": {}, "vcells": {}}
        if recording.get("initial_nodes") != "none":
            self._apply(states()["initial"][recording["config"]])

    def _apply(self, changes: dict[str, dict[str, str]]) -> None:
        for kind, known in self._cells.items():
            known.update(changes.get(kind, {}))

    def advance(self, step: int) -> tuple[Rows, dict[str, dict[str, Any]]]:
        """Cells and groups after this step."""
        self._apply(self._changes[step])
        for name, group in (self._steps[step].get("group_changes") or {}).items():
            self._groups[name] = group
        split = [{address: row.split("|") for address, row in rows.items() if row} for rows in self._cells.values()]
        return Rows(*split), {name: group for name, group in self._groups.items() if group}


# -- ours -------------------------------------------------------------------------------------------------------------


def observe(hive: HivedCluster, known: Rows) -> Rows:
    """Our cells, as far as something was recorded of them."""
    physical = {
        key: [cell.state.value, _BAD[cell.healthy], str(cell.priority), _shown(cell), _address(cell.virtual)]
        for key, cell in _keyed(hive)
        if key in known.physical
    }
    virtual = {
        cell.address: [cell.state.value, _BAD[cell.healthy], str(cell.priority), _address(cell.physical)]
        for tenant in hive.layout.tenants.values()
        for top in preassigned(tenant)
        for cell in top.walk()
        if isinstance(cell, VirtualCell) and cell.address in known.virtual
    }
    return Rows(physical, virtual)


def _shown(cell: PhysicalCell) -> str:
    return cell.tenant or ("" if cell.virtual is None else cell.virtual.tenant)


def _address(cell: Cell | None) -> str:
    return "" if cell is None else cell.address


def _keyed(hive: HivedCluster) -> Iterator[tuple[str, PhysicalCell]]:
    """By address, and by chain and address where two chains have the same."""
    cells = [cell for chain in hive.layout.chains.values() for level in chain.full.values() for cell in level]
    number = Counter(cell.address for cell in cells)
    return ((cell.address if number[cell.address] == 1 else f"{cell.chain}|{cell.address}", cell) for cell in cells)


def observe_group(group: Group) -> dict[str, Any]:
    machines: dict[str, list[int]] = {}
    for device, _ in group.leafs():
        machines.setdefault(device.nodes[0], []).append(device.indices[0])
    return {
        "vc": group.tenant,
        "priority": group.priority,
        "state": group.state.value,
        "physical": {node: sorted(indices) for node, indices in machines.items()},
        "allocated": sorted(
            f"{devices}#{slot}={member.uid}"
            for devices, slots in group.slots.items()
            for slot, member in enumerate(slots)
            if member is not None
        ),
        "preempting": sorted(group.preempting),
        "lazyPreemptedBy": group.lazily_preempted_by,
    }


# -- comparing --------------------------------------------------------------------------------------------------------


def differences(hive: HivedCluster, recorded: Rows) -> set[str]:
    """Short names of the ways in which our cells differ from the recorded ones."""
    found: set[str] = set()
    ours = observe(hive, recorded)
    if {key: row[3] for key, row in recorded.physical.items()} != {key: row[3] for key, row in ours.physical.items()}:
        found.add("tenant")
    before = [rows[key][0] for rows in (recorded.physical, recorded.virtual) for key in sorted(rows)]
    for rows in (recorded, ours):
        _derive(hive, rows)
    if before != [rows[key][0] for rows in (recorded.physical, recorded.virtual) for key in sorted(rows)]:
        found.add("state")
    if recorded != ours:
        found.add("names" if _shape(hive, recorded) == _shape(hive, ours) else "cells")
    return found


def _derive(hive: HivedCluster, rows: Rows) -> None:
    """States anew from the devices' states; the shown tenants are forgotten."""
    keys = {cell: key for key, cell in _keyed(hive)}
    for chain in hive.layout.chains.values():
        for level in range(2, chain.top + 1):
            for cell in chain.full[level]:
                row = rows.physical.get(keys[cell])
                if row is not None:
                    row[0] = _derived({rows.physical[keys[child]][0] for child in cell.children})
    by_name = {row[4]: row[0] for row in rows.physical.values()}
    for name, row in rows.virtual.items():
        row[0] = by_name.get(name, "Free") if row[3] else "Free"
    for row in rows.physical.values():
        row[3] = ""


def _derived(below: set[str]) -> str:
    return below.pop() if len(below) == 1 else "Used" if below & {"Used", "Reserving"} else "Free"


def _shape(hive: HivedCluster, rows: Rows) -> tuple[Any, ...]:
    """The same for two that differ in nothing but which of a tenant's virtual cells stands for what."""
    trees = {
        tenant.name: Counter(_tree(cell, rows.virtual) for cell in preassigned(tenant))
        for tenant in hive.layout.tenants.values()
    }
    return trees, {key: row[:4] for key, row in rows.physical.items()}


def _tree(cell: VirtualCell, rows: dict[str, list[str]]) -> tuple[Any, ...]:
    return tuple(rows.get(cell.address, ())), tuple(sorted(_tree(child, rows) for child in cell.children))


def group_differences(hive: HivedCluster, recorded: dict[str, dict[str, Any]]) -> set[str]:
    """The same for groups. Where a group's virtual cells are is seen in the cells."""
    if recorded.keys() != hive.groups.keys():
        return {"groups"}
    return {
        "group " + field
        for name, theirs in recorded.items()
        for field, value in observe_group(hive.groups[name]).items()
        if value != _plain(theirs.get(field, type(value)()))
    }


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        # What was recorded in place of devices that are no longer configured.
        return {key: sorted(each) for key, each in value.items() if key != "<missing>"}
    return sorted(value) if isinstance(value, list) else value
