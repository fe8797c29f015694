"""What virtual clusters are owed, and whether they get it when they ask: HiveD's promise, asked of the algorithm."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from algorithm.hived.cells.cells import VirtualCell
from algorithm.hived.cells.chain_allocator import ChainAllocator
from algorithm.hived.cells.chains import Tenant, preassigned
from algorithm.hived.formats.podspec import MAX_PRIORITY
from algorithm.hived.state.cluster import HivedCluster
from algorithm.interface import Bind, Preempt, ScheduleResult, SuggestedNodes
from algorithm.model import Pod
from tests.support.hived.audit import audit
from tests.support.hived.harness import FILTERING, PREEMPTING, HivedHarness, gang, one


def kept(hive: HivedCluster) -> set[str]:
    """The chains in which all that is owed could be had at once, on healthy hardware that is free."""
    return {name for name, allocator in hive.allocators.items() if _fits(allocator)}


def _fits(allocator: ChainAllocator) -> bool:
    """Top down: what is left of the healthy cells when larger ones are handed out."""
    chain, wanted = allocator.chain, 0
    for level in range(chain.top, 0, -1):
        wanted = (wanted * chain.levels[level + 1].fanout if level < chain.top else 0) + allocator.all_vc_free_cells[
            level
        ]
        if sum(cell.healthy and allocator.is_free(cell) for cell in chain.full[level]) < wanted:
            return False
    return True


# -- each by itself ---------------------------------------------------------------------------------------------------


def assert_everybody_is_granted(world: HivedHarness) -> None:
    """Whoever comes next may ask at once for all cells of a level that are owed to them."""
    for tenant in world.hive.layout.tenants.values():
        for wish in owed(world.hive, tenant):
            _assert_granted(world, tenant.name, wish)


def owed(hive: HivedCluster, tenant: Tenant) -> Iterator[dict[str, Any]]:
    """Gangs that fill exactly the tenant's cells of one level that are no hardware yet (so none of them is doomed).

    Where machines are bad, and not everybody can have what is owed at once, nothing is asked: who comes first has it.
    """
    for name in kept(hive) & tenant.preassigned.keys():
        chain = hive.layout.chains[name]
        only = [each for each in hive.chains_of[chain.leaf_type] if each in tenant.full] == [name]
        for level, cells in tenant.preassigned[name].items():
            number = sum(cell.physical is None for cell in cells)
            if number and only:
                devices = chain.levels[min(level, chain.machine_level)].leafs
                yield {"leafCellType": chain.leaf_type, "members": {devices: number * cells[0].leafs // devices}}


def _assert_granted(world: HivedHarness, tenant: str, wish: dict[str, Any]) -> None:
    probe = one("probe", tenant=tenant, priority=MAX_PRIORITY, **wish)
    answer = world.algorithm.schedule(probe, SuggestedNodes(world.nodes), FILTERING)
    assert isinstance(answer, (Bind, Preempt)), f"{tenant} is owed {wish}, but: {answer}"
    _assert_nobody_else_pays(world, tenant, answer)


def _assert_nobody_else_pays(world: HivedHarness, tenant: str, answer: Bind | Preempt) -> None:
    users = {member.uid: group for group in world.hive.groups.values() for member in group.members()}
    for victim in getattr(answer, "victims", ()):
        user = users[victim.uid]
        assert user.virtual is None or user.tenant == tenant, f"{tenant} would evict {user.name} of {user.tenant}"


def take_with_quota(world: HivedHarness, each: Pod, answer: ScheduleResult) -> None:
    """Whoever is placed with a guarantee has it, unless the gang had lost its quota before."""
    lost = set(world.hive.lazily_preempted)
    world.take(each, answer)
    for group in world.hive.groups.values():
        if any(member.uid == each.uid for member in group.members()):
            assert group.virtual is not None or group.priority < 0 or group in lost, f"{group.name} has no quota"


# -- all together -----------------------------------------------------------------------------------------------------


def claim_everything(world: HivedHarness, luck: random.Random) -> int:
    """In a copy of the world all tenants ask, cell by cell in any order, for all that they are owed, and take it.

    Returns how many cells changed hands. Cells that their owner uses with the highest priority are had already.
    """
    twin = world.fork()
    certain = {name for name in kept(twin.hive) if _stays_kept(twin.hive, name)}
    tenants = twin.hive.layout.tenants.values()
    number, most = 0, sum(cell.leafs for tenant in tenants for cell in preassigned(tenant))
    while cells := [each for tenant in tenants for each in claimable(twin.hive, tenant)]:
        assert number < most, "a cell was had, and still is not its owner's"
        _claim(twin, luck.choice(cells), f"claim{number}")
        number += 1
    audit(twin.hive)
    for name in certain:
        left = {level: owed for level, owed in twin.hive.allocators[name].all_vc_free_cells.items() if owed}
        assert not left, f"in {name}, cells of these levels were promised and not had: {left}"
    return number


def _stays_kept(hive: HivedCluster, chain: str) -> bool:
    """Whether it is so whoever comes in whatever order. Who leaves bad hardware is owed healthy hardware instead."""
    if all(cell.healthy for cell in hive.layout.chains[chain].full[hive.layout.chains[chain].top]):
        return True
    promised = [cell for tenant in hive.layout.tenants.values() for cell in preassigned(tenant) if cell.chain == chain]
    return hive.sparing and all(cell.healthy for cell in promised)


def claimable(hive: HivedCluster, tenant: Tenant) -> Iterator[VirtualCell]:
    """The tenant's preassigned cells that can be had at this moment, whatever runs there: none is on bad hardware.

    Where bad machines keep somebody from having all that is owed, the tenant's own scheduler may choose a cell for
    which there is no hardware, as the original's may; only what is pinned is safe from that.
    """
    chains = kept(hive)
    for cell in preassigned(tenant):
        if (cell.chain in chains or cell.pinned_id) and cell.healthy and cell.priority < MAX_PRIORITY:
            yield cell


def _claim(world: HivedHarness, cell: VirtualCell, name: str) -> None:
    """A gang that needs just as much as the cell has. The tenant's own scheduler may put it on others of its cells."""
    chain = world.hive.layout.chains[cell.chain]
    devices = chain.levels[min(cell.level, chain.machine_level)].leafs
    more = {"pinnedCellId": cell.pinned_id} if cell.pinned_id else {"leafCellType": chain.leaf_type}
    pods = gang(name, tenant=cell.tenant, members={devices: cell.leafs // devices}, priority=MAX_PRIORITY, **more)
    what = f"{cell} ({cell.type}) is owed to {cell.tenant}"
    world.submit(*pods)
    answer = world.ask(pods[0])
    if isinstance(answer, Preempt):
        answer = _make_room(world, pods[0], cell.tenant, what)
    assert isinstance(answer, Bind), f"{what}, but: {answer}"
    world.take(pods[0], answer)
    world.bind(*pods[1:])


def _make_room(world: HivedHarness, pod: Pod, tenant: str, what: str) -> ScheduleResult:
    """What was borrowed, or is of lower priority, is evicted; the answer afterwards."""
    answer = world.ask(pod, phase=PREEMPTING)
    assert isinstance(answer, Preempt), f"{what}, but nobody is to be evicted: {answer}"
    _assert_nobody_else_pays(world, tenant, answer)
    victims = world.take_preemption(pod, answer)
    world.delete(*[world.allocated[uid] for uid in sorted(victims)])
    return world.ask(pod)
