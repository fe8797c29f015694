"""Why a group waits, in sentences: what its tenant was promised, who has that now, and what would have to end.

"16 devices are free, why does my job of 16 wait?" has an answer only in numbers and names, so these texts have both.
They are for people who ask; the reasons that kube-scheduler is told stay free of numbers that move.

Whether an end would help is not guessed: the hive is changed as if those groups had ended, the group is planned, and
the hive is changed back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from heapq import nlargest

from algorithm.hived.cells import Cell, PhysicalCell, VirtualCell
from algorithm.hived.groups import Group, GroupState, Held
from algorithm.hived.hive import Hive
from algorithm.hived.limits import in_numbers
from algorithm.hived.nodelist import usable
from algorithm.hived.planner import Plan, candidate_chains, decide, over_limit
from algorithm.hived.podspec import PodSpec

#: So many ends are tried, and so many names shown, at most.
_TRIALS, _SHOWN = 40, 8


def explain(hive: Hive, spec: PodSpec, warnings: Mapping[str, str] | None = None) -> list[str]:
    """For a group that has no place yet. Nodes that kube-scheduler does not offer count as offered here.

    `warnings` are about what is written on nodes and cannot be read, by node.

    Raises UserError for what can never be.
    """
    offered = hive.layout.machines.keys()
    decision = decide(hive, spec, offered, preempting=True)
    if isinstance(decision, Plan):
        return [_possible(decision)]
    if decision.kind in ("being-preempted", "place-given-up"):
        return [decision.text]
    chains = candidate_chains(hive, spec)
    if not chains:
        return [f"{spec.tenant} is promised nothing but what is pinned, and the pod names no pinned cell"]
    sentences = [sentence for chain in chains for sentence in _in_chain(hive, spec, chain)]
    unread = [f"node {node}: {text}" for node, text in sorted((warnings or {}).items())[:_SHOWN]]
    return sentences + _bad_machines(hive, chains) + unread + _ends(hive, spec, chains)


def _possible(plan: Plan) -> str:
    if not plan.victims:
        return f"there is a place on {plan.allocation.node}, if kube-scheduler offers that node"
    pods = sorted(member.name for members in plan.victims.values() for member in members)
    return f"there is a place as soon as these are gone: {_listed(pods)}"


# -- the numbers ------------------------------------------------------------------------------------------------------


def _in_chain(hive: Hive, spec: PodSpec, chain: str) -> Iterator[str]:
    if (over := over_limit(hive, spec, chain)) is not None:
        yield in_numbers(over, hive.usage, hive.groups, spec.devices)
    roots = _roots(hive, spec, chain)
    leaf_type = hive.layout.chains[chain].leaf_type
    total = sum(root.leafs for root in roots)
    available = sum(root.free_for(spec.priority) for root in roots)
    free = sum(root.leafs - root.used_total for root in roots)
    need = spec.devices
    whose = f"{spec.tenant} is promised {total}" if spec.priority >= 0 else f"there are {total}"
    lower = f", {available - free} used by lower priorities" if available > free else ""
    yield (
        f"{whose} {leaf_type} in {chain}: {total - available} used by the same or higher priorities{lower}, {free} free"
    )
    if total < need:
        yield f"the group needs {need}: more than there will ever be in {chain} for {spec.tenant}"
    elif available < need:
        yield f"the group needs {need}: {need - available} more have to become free in {chain}"
    else:
        yield from _fragments(hive, spec, chain)


def _roots(hive: Hive, spec: PodSpec, chain: str) -> Sequence[Cell]:
    """The cells of which the group may have a part."""
    if spec.priority < 0:
        return hive.layout.chains[chain].full[hive.layout.chains[chain].top]
    tenant = hive.layout.tenants[spec.tenant]
    levels = tenant.pinned[spec.pinned_id] if spec.pinned_id else tenant.preassigned[chain]
    return [cell for cells in levels.values() for cell in cells if cell.parent is None]


def _fragments(hive: Hive, spec: PodSpec, chain: str) -> Iterator[str]:
    """Enough is free in all: how it is scattered."""
    machine = hive.layout.chains[chain].machine_level
    pieces = [piece for root in _roots(hive, spec, chain) for piece in _pieces(root, machine)]
    largest = max(devices for devices, _ in spec.pods)
    fits = sum(usable(piece, spec.priority) >= largest for piece in pieces)
    most = nlargest(_SHOWN, pieces, key=lambda piece: piece.free_for(spec.priority))
    shown = [f"{piece.free_for(spec.priority)} in {_name(piece)}" for piece in most if piece.free_for(spec.priority)]
    yield (
        f"a pod of {largest} needs them in one piece, and {fits} pieces have so many healthy ones; "
        f"the largest: {', '.join(shown)}"
    )


def _pieces(root: Cell, machine: int) -> Iterator[Cell]:
    """Machines, or what is smaller and no part of one: a pod has its devices in one of these."""
    if root.level <= machine:
        yield root
    else:
        for child in root.children:
            yield from _pieces(child, machine)


def _bad_leafs(cell: Cell) -> int:
    assert isinstance(cell, PhysicalCell | VirtualCell)
    return cell.bad_leafs


def _name(cell: Cell) -> str:
    physical = cell.physical if isinstance(cell, VirtualCell) else cell
    assert physical is None or isinstance(physical, PhysicalCell)
    where = cell.address if physical is None else f"{cell.address} ({physical.nodes[0]})"
    bad = _bad_leafs(cell)
    return f"{where}, bad" if bad == cell.leafs else f"{where}, {bad} of them bad" if bad else where


# -- what would help --------------------------------------------------------------------------------------------------


def _bad_machines(hive: Hive, chains: Iterable[str]) -> list[str]:
    wanted = set(chains)
    machines: list[str] = []
    devices: list[str] = []
    for name, leafs in hive.layout.machines.items():
        bad = [leaf for leaf in leafs if leaf.chain in wanted and not leaf.healthy]
        if bad and any(leaf.healthy for leaf in leafs):
            devices.append(f"{name} {','.join(str(leaf.indices[0]) for leaf in bad)}")
        elif bad:
            machines.append(name)
    sentences = [f"bad machines are not used: {_listed(machines)}"] if machines else []
    return sentences + ([f"bad devices are not used: {_listed(devices)}"] if devices else [])


def _ends(hive: Hive, spec: PodSpec, chains: Sequence[str]) -> list[str]:
    """Groups whose end would let it run: single ones, else as many as it takes, least important first."""
    groups = sorted(_rivals(hive, spec, set(chains)), key=lambda group: (group.priority, _size(group), group.name))
    alone = [group for group in groups[:_TRIALS] if _would_run(hive, spec, [group])]
    if alone:
        return [f"it would run if one of these ended: {_listed([_told(group) for group in alone])}"]
    for number in range(2, min(len(groups), _TRIALS) + 1):
        if _would_run(hive, spec, groups[:number]):
            return [f"it would run if all of these ended: {_listed([_told(group) for group in groups[:number]])}"]
    return []


def _rivals(hive: Hive, spec: PodSpec, chains: set[str]) -> Iterator[Group]:
    """Groups that hold what it could have, and that it cannot preempt."""
    for group in hive.groups.values():
        if group.state is not GroupState.ALLOCATED or group.chain not in chains:
            continue
        if spec.priority < 0 or (group.tenant == spec.tenant and group.priority >= spec.priority):
            yield group


def _would_run(hive: Hive, spec: PodSpec, groups: Sequence[Group]) -> bool:
    with _without(hive, groups):
        return isinstance(decide(hive, spec, hive.layout.machines.keys(), preempting=True), Plan)


@contextmanager
def _without(hive: Hive, groups: Sequence[Group]) -> Iterator[None]:
    """The hive as if these groups had ended."""
    held = [Held(device, virtual, group) for group in groups for device, virtual in group.leafs()]
    with hive.keeping_order(), hive.changing_hands():
        for each in held:
            hive.let_go(each.device, each.virtual)
            each.device.group = None
        try:
            yield
        finally:
            hive.hold(held)
            for each in held:
                each.device.group = each.group


def _size(group: Group) -> int:
    return sum(1 for _ in group.leafs())


def _told(group: Group) -> str:
    return f"{group.name} (priority {group.priority}, {_size(group)} devices)"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
