"""What people see of the hive: the original's pages, and a summary that stays small whatever the cluster's size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Any

from algorithm.hived.cells import OPPORTUNISTIC, Cell, CellState, PhysicalCell, VirtualCell
from algorithm.hived.groups import Group
from algorithm.hived.hive import Hive
from algorithm.hived.layout import Tenant

#: So many strangers are shown at most.
SHOWN = 50


# -- the original's pages ---------------------------------------------------------------------------------------------


def physical_cluster(hive: Hive) -> list[dict[str, Any]]:
    """The top cells, with all below them."""
    tops = (top for chain in hive.layout.chains.values() for top in chain.full[chain.top])
    return [_top(_physical(cell, deep=True), hive, cell) for cell in tops]


def virtual_clusters(hive: Hive) -> dict[str, list[dict[str, Any]]]:
    return {name: virtual_cluster(hive, name) for name in hive.layout.tenants}


def virtual_cluster(hive: Hive, tenant: str) -> list[dict[str, Any]]:
    """The preassigned cells, and a made-up one for each device that the tenant uses opportunistically.

    Raises KeyError if there is no such tenant.
    """
    cells = [_top(_virtual(cell, deep=True), hive, cell) for cell in preassigned(hive.layout.tenants[tenant])]
    return cells + [_borrowed(hive, device) for device in _borrowed_by(hive, tenant)]


def affinity_group(group: Group) -> dict[str, Any]:
    """One group, as the original shows it. Devices that are no longer configured are left out."""
    status: dict[str, Any] = {"vc": group.tenant, "priority": group.priority, "state": group.state.value}
    status |= _placements(group)
    uids = [member.uid for member in group.members()]
    if uids:
        status["allocatedPods"] = uids
    if group.preempting:
        status["preemptingPods"] = list(group.preempting)
    if group.lazily_preempted_by:
        status["lazyPreemptionStatus"] = {"preemptor": group.lazily_preempted_by}
    return {"metadata": {"name": group.name}, "status": status}


def _placements(group: Group) -> dict[str, Any]:
    physical: dict[str, list[int]] = {}
    virtual: dict[str, list[str]] = {}
    for device, cell in group.leafs():
        physical.setdefault(device.nodes[0], []).append(device.indices[0])
        if cell is not None:
            virtual.setdefault(cell.root.address, []).append(cell.address)
    found: dict[str, Any] = {}
    if physical:
        found["physicalPlacement"] = physical
    if virtual:
        found["virtualPlacement"] = virtual
    return found


def _top(shown: dict[str, Any], hive: Hive, cell: Cell) -> dict[str, Any]:
    return {"leafCellType": hive.layout.chains[cell.chain].leaf_type, **shown}


def _cell(cell: PhysicalCell | VirtualCell, is_machine: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {"cellType": cell.type}
    if is_machine:
        shown["isNodeLevel"] = True
    shown |= {
        "cellAddress": cell.address,
        "cellState": cell.state.value,
        "cellHealthiness": "Healthy" if cell.healthy else "Bad",
        "cellPriority": cell.priority,
    }
    return shown


def _is_machine(cell: Cell) -> bool:
    return cell.machine_or_above and not (cell.children and cell.children[0].machine_or_above)


def _physical(cell: PhysicalCell, *, deep: bool) -> dict[str, Any]:
    shown = _cell(cell, _is_machine(cell))
    if deep and cell.children:
        shown["cellChildren"] = [_physical(child, deep=True) for child in cell.children]
    tenant = cell.tenant or (cell.virtual.tenant if cell.virtual is not None else "")
    if tenant:
        shown["vc"] = tenant
    if deep and cell.virtual is not None:
        shown["virtualCell"] = _virtual(cell.virtual, deep=False)
    return shown


def _virtual(cell: VirtualCell, *, deep: bool) -> dict[str, Any]:
    shown = _cell(cell, _is_machine(cell))
    if deep and cell.children:
        shown["cellChildren"] = [_virtual(child, deep=True) for child in cell.children]
    if deep and cell.physical is not None:
        shown["physicalCell"] = _physical(cell.physical, deep=False)
    return shown


def _borrowed(hive: Hive, device: PhysicalCell) -> dict[str, Any]:
    return {
        "leafCellType": hive.layout.chains[device.chain].leaf_type,
        "cellType": device.type,
        "cellAddress": f"{device.address}-opp",
        "cellState": CellState.USED.value,
        "cellHealthiness": "Healthy" if device.healthy else "Bad",
        "cellPriority": OPPORTUNISTIC,
        "physicalCell": _physical(device, deep=False),
    }


def _borrowed_by(hive: Hive, tenant: str) -> list[PhysicalCell]:
    devices = (device for chain in hive.layout.chains.values() for device in chain.full[1])
    return [device for device in devices if device.tenant == tenant]


def preassigned(tenant: Tenant) -> Iterable[VirtualCell]:
    """What the tenant was promised, in the order of its addresses."""
    for levels in tenant.preassigned.values():
        for cells in levels.values():
            yield from cells
    for levels in tenant.pinned.values():
        yield levels[max(level for level, cells in levels.items() if cells)][0]


# -- the summary ------------------------------------------------------------------------------------------------------


def summary(hive: Hive, strangers: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """By virtual cluster: devices guaranteed, used within that, borrowed from others, and bad."""
    groups = hive.groups.values()
    return {
        "virtualClusters": {name: _tenant(hive, name) for name in hive.layout.tenants},
        "affinityGroups": {
            "known": len(groups),
            "preempting": sum(bool(group.preempting) for group in groups),
            "lazilyPreempted": sum(bool(group.lazily_preempted_by) for group in groups),
        },
        "strangers": dict(nsmallest(SHOWN, strangers.values())),
    }


def _tenant(hive: Hive, name: str) -> dict[str, int]:
    cells = list(preassigned(hive.layout.tenants[name]))
    borrowed = sum(
        len(list(group.leafs())) for group in hive.groups.values() if group.tenant == name and group.virtual is None
    )
    return {
        "guaranteed": sum(cell.leafs for cell in cells),
        "used": sum(cell.used_total for cell in cells),
        "borrowed": borrowed,
        "bad": sum(cell.leafs for cell in cells if not cell.healthy),
    }
