"""Holds a hive against what it should be, computed anew and naively from the devices up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from algorithm.hived.cells.cells import FREE, Cell, CellState, PhysicalCell, VirtualCell, derived_state
from algorithm.hived.cells.chain_allocator import ChainAllocator
from algorithm.hived.cells.chains import Tenant
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group, GroupState


def audit(hive: HivedCluster) -> None:
    """Raises AssertionError at the first thing that does not agree."""
    for chain in hive.layout.chains.values():
        for cells in chain.full.values():
            for cell in cells:
                _audit_cell(cell)
                _audit_physical(cell)
    for tenant in hive.layout.tenants.values():
        for virtual in virtual_cells(tenant):
            _audit_cell(virtual)
            _audit_virtual(virtual)
    _audit_groups(hive)
    _audit_places(hive)
    _audit_usage(hive)
    for allocator in hive.allocators.values():
        _audit_allocator(allocator, hive)
        if hive.started:
            _audit_doom(allocator)


def virtual_cells(tenant: Tenant) -> Iterator[VirtualCell]:
    for full in (*tenant.full.values(), *tenant.pinned.values()):
        for cells in full.values():
            yield from cells


def _audit_cell(cell: Cell) -> None:
    if cell.children:
        used: Counter[int] = Counter()
        for child in cell.children:
            used.update(child.used)
        assert cell.used == dict(used), (cell, cell.used, used)
        assert cell.priority == max(child.priority for child in cell.children), cell
    else:
        assert cell.used == ({cell.priority: 1} if cell.priority != FREE else {}), (cell, cell.used)
    assert cell.used_total == sum(cell.used.values()), cell


def _audit_physical(cell: PhysicalCell) -> None:
    if cell.children:
        assert cell.healthy == all(child.healthy for child in cell.children), cell
        assert cell.bad_leafs == sum(child.bad_leafs for child in cell.children), cell
        assert cell.state is derived_state(cell.children), (cell, cell.state)
    else:
        assert cell.bad_leafs == (not cell.healthy), cell
    if cell.virtual is not None:
        assert cell.virtual.physical is cell, cell
        assert cell.virtual.level == cell.level, cell
        assert cell.virtual.chain == cell.chain, cell
        if not cell.virtual.is_preassigned:
            assert cell.parent is not None, cell
            assert cell.parent.virtual is cell.virtual.parent, cell
    elif cell.children:
        inner = [child for child in cell.children if child.virtual is not None and not child.virtual.is_preassigned]
        assert not inner, (cell, inner)


def _audit_virtual(cell: VirtualCell) -> None:
    if cell.physical is not None:
        assert cell.physical.virtual is cell, cell
    if cell.used_total:
        assert cell.physical is not None, f"{cell} is used but is no hardware"


def _audit_groups(hive: HivedCluster) -> None:
    users: dict[PhysicalCell, Group] = {}
    reservers: dict[PhysicalCell, Group] = {}
    for group in hive.groups.values():
        assert group.name in hive.groups
        holders = reservers if group.state is GroupState.PREEMPTING else users
        for device, _ in group.leafs():
            assert device not in holders, f"{device} is held by {holders[device].name} and {group.name}"
            holders[device] = group
        if group.state is GroupState.PREEMPTING:
            assert group.preempting, group.name
            assert not any(group.members()), group.name
        else:
            assert any(group.members()), group.name
    for chain in hive.layout.chains.values():
        for device in chain.full[1]:
            assert device.group is users.get(device), device
            assert device.reserver is reservers.get(device), device
            wanted = {
                (False, False): CellState.FREE,
                (True, False): CellState.USED,
                (True, True): CellState.RESERVING,
                (False, True): CellState.RESERVED,
            }[device.group is not None, device.reserver is not None]
            assert device.state is wanted, (device, device.state, wanted)
            assert (device.priority != FREE) == (wanted is not CellState.FREE), device
            if wanted is not CellState.FREE:
                _audit_holder(device)
    for group in users.values():
        being = any(device.reserver is not None for device, _ in group.leafs())
        assert (group.state is GroupState.BEING_PREEMPTED) == being, (group.name, group.state, being)


def _audit_places(hive: HivedCluster) -> None:
    """A place that was given up has no devices and no pod. A gang may have done so under other settings."""
    for group in hive.groups.values():
        for devices, number in group.given_up:
            assert group.slots[devices][number] is None, (group.name, devices, number)
            assert not any(group.physical[devices][number]), (group.name, devices, number)
            assert group.virtual is None or not any(group.virtual[devices][number]), (group.name, devices, number)


def _audit_usage(hive: HivedCluster) -> None:
    used: Counter[tuple[str, str]] = Counter()
    borrowed: Counter[tuple[str, str]] = Counter()
    for group in hive.groups.values():
        for device, virtual in group.leafs():
            if device.reserver is None or device.reserver is group:
                (borrowed if virtual is None else used)[group.tenant, device.chain] += 1
    assert hive.usage.used == used, (hive.usage.used, used)
    assert hive.usage.borrowed == borrowed, (hive.usage.borrowed, borrowed)


def _audit_holder(device: PhysicalCell) -> None:
    group = device.reserver or device.group
    assert group is not None
    virtual = dict(group.leafs())[device]
    assert device.priority == (group.priority if virtual is not None else -1), (device, device.priority, group)
    if virtual is not None:
        assert device.virtual is virtual, (device, virtual, device.virtual)
        assert virtual.tenant == group.tenant, (device, virtual)
        assert virtual.priority == device.priority, device
        assert virtual.root.pinned_id == group.pinned_id, (device, virtual)


def _audit_allocator(allocator: ChainAllocator, hive: HivedCluster) -> None:
    full = allocator.chain.full
    free = {cell for cells in full.values() for cell in cells if allocator.is_free(cell)}
    for level, cells in full.items():
        here = [cell for cell in cells if cell in free]
        assert allocator.total_left[level] == len(here), (level, allocator.total_left[level], here)
        bad = {cell for cell in here if not cell.healthy}
        assert set(allocator.bad_free[level]) == bad, (level, list(allocator.bad_free[level]), bad)
        whole = {cell for cell in here if cell.parent is None or cell.parent.split}
        assert set(allocator.free[level]) == whole, (level, set(allocator.free[level]) ^ whole)
        for cell in cells:
            inner = any(_is_taken(below) for below in cell.walk() if below is not cell)
            assert cell.split == (inner and not _is_taken_at_or_above(cell)), (cell, cell.split, inner)
    for level in full:
        owed_in_all = 0
        for name, owed in allocator.vc_free_cells.items():
            tenant = hive.layout.tenants[name]
            unbound = [
                cell for cell in tenant.preassigned.get(allocator.chain.name, {}).get(level, []) if not cell.physical
            ]
            assert owed[level] == len(unbound), (name, level, owed[level], unbound)
            owed_in_all += owed[level]
            for cell in allocator.doomed[name][level]:
                assert cell.virtual is not None, cell
                assert cell.virtual.tenant == name, cell
                assert cell.virtual.is_preassigned, cell
        assert allocator.all_vc_free_cells[level] == owed_in_all, level
    wanted = 0
    for level in sorted(full, reverse=True):
        # What is owed of larger cells is made of cells of this level, too.
        wanted = (
            wanted * allocator.chain.levels[level + 1].fanout + allocator.all_vc_free_cells[level]
            if wanted
            else allocator.all_vc_free_cells[level]
        )
        assert allocator.total_left[level] >= wanted, (
            f"safety: {level} {allocator.total_left} {allocator.all_vc_free_cells}"
        )


def _is_taken(cell: Cell) -> bool:
    return isinstance(cell, PhysicalCell) and cell.virtual is not None and cell.virtual.is_preassigned


def _is_taken_at_or_above(cell: PhysicalCell | None) -> bool:
    while cell is not None:
        if _is_taken(cell):
            return True
        cell = cell.parent
    return False


def _audit_doom(allocator: ChainAllocator) -> None:
    """Nobody is doomed who need not be, and everybody who must be, as far as there is bad hardware to show."""
    for level in allocator.chain.full:
        healthy = allocator.healthy_free(level)
        for tenant, owed in allocator.vc_free_cells.items():
            idle = [cell for cell in allocator.doomed[tenant][level] if cell.virtual and cell.virtual.priority < 0]
            assert not (idle and owed[level] < healthy), f"{idle} of {tenant} need not be doomed"
            spare = [cell for cell in allocator.bad_free[level] if _can_be_spared(allocator, cell)]
            assert not (spare and owed[level] > healthy), f"{tenant} must be doomed at level {level}: {spare}"


def _can_be_spared(allocator: ChainAllocator, cell: PhysicalCell) -> bool:
    above = cell.parent
    while above is not None and not above.split:
        if allocator.total_left[above.level] <= allocator.all_vc_free_cells[above.level]:
            return False
        above = above.parent
    return True
