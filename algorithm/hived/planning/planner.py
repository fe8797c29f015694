"""Decides where a pod goes, for its whole group at the first of its pods. Deciding changes nothing.

    the group is known     its plan counts: the next free slot, or, while it preempts, the remaining victims
    guaranteed             places in the tenant's virtual cells, then mapped to hardware; chain after chain
    opportunistic          places on the hardware itself, wherever it is free

Some decisions need a hypothetical hive: without the quota of groups that may be preempted lazily, or without a
preemption that cannot be finished. The hive is then changed in a trial (`HivedCluster.trial`), which takes it back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from algorithm.hived.cells.cells import CellState, VirtualCell
from algorithm.hived.cells.request import Offered, Request
from algorithm.hived.formats.allocation import Allocation
from algorithm.hived.formats.podspec import PodSpec, UserError
from algorithm.hived.planning.combine import combined
from algorithm.hived.planning.mapping import Mapped, map_plan
from algorithm.hived.planning.placement import CAPACITY, Placement, Shortage, place
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group, GroupState, Member, Physical, Virtual, reserver_of, user_of
from algorithm.hived.state.limits import Bound, refused
from algorithm.hived.state.release import occupants, vacancy


@dataclass(frozen=True, slots=True)
class Refusal:
    """No place now.

    `kind` is a short name of why, `text` says it. `ends` is a preemption that came to nothing by it.
    """

    kind: str
    text: str
    ends: Group | None = None


@dataclass(slots=True)
class Plan:
    """Where the group goes.

    `victims`: pods that have to go before, by machine. `overtakes`: preemptions that end if this one is taken.
    `lazily_preempted`: groups that lose their quota, but no device. `group` is new, or the known one.
    """

    group: Group
    allocation: Allocation
    victims: dict[str, list[Member]] = field(default_factory=dict)
    overtakes: list[Group] = field(default_factory=list)
    lazily_preempted: list[Group] = field(default_factory=list)
    #: A preemption of the same group that cannot be finished and is planned anew.
    replaces: Group | None = None

    @property
    def is_new(self) -> bool:
        return self.group.state is not GroupState.ALLOCATED


Decision = Plan | Refusal


def decide(
    hive: HivedCluster, spec: PodSpec, offered_names: Collection[str], *, preempting: bool, only_there: bool = False
) -> Decision:
    """Raises UserError for what can never be.

    `preempting`: the machines of a preemption that is under way are looked at again; with bad or unoffered ones it is
    planned anew. `only_there`: the group goes to offered machines, also if its request ignores what is offered.
    """
    offered = Offered(offered_names, ignored=spec.ignores_offer and not only_there)
    group = hive.groups.get(spec.group)
    if group is None:
        return _Planner(hive, spec, offered).decide()
    _check_belongs(group, spec)
    if group.state is not GroupState.PREEMPTING:
        return _next_slot(hive, group, spec)
    if preempting and _lost(group, offered):
        with _cancelled(hive, group):
            decision = _Planner(hive, spec, offered).decide()
        if isinstance(decision, Refusal):
            return replace(decision, ends=group)
        decision.replaces = group
        return decision
    victims, _ = _in_the_way(group)
    return Plan(group, allocation_of(group, spec.leafs, 0), victims)


def _check_belongs(group: Group, spec: PodSpec) -> None:
    """Check that the pod's request matches its group: no pod joins another tenant's group, or with another priority."""
    same = (
        ("virtualCluster", group.tenant, spec.tenant),
        ("priority", group.priority, spec.priority),
        ("pinnedCellId", group.pinned_id, spec.pinned_id),
        ("affinityGroup.members", group.pods, dict(spec.pods)),
        ("gangReleaseEnable", not group.releases, not spec.releases),
    )
    for key, known, given in same:
        if known != given:
            text = f"affinity group {group.name} exists with {key} {known!r}, but this pod says {given!r}"
            raise UserError("group-differs", text)


def _next_slot(hive: HivedCluster, group: Group, spec: PodSpec) -> Decision:
    if group.state is GroupState.BEING_PREEMPTED:
        return Refusal("being-preempted", f"affinity group {group.name} is being preempted")
    if group.free_slot(spec.leafs) is None:
        raise _full(group, spec)
    slot = vacancy(hive, group, spec.leafs) if group.given_up else group.free_slot(spec.leafs)
    if slot is None:
        return Refusal("place-given-up", _given_up(hive, group, spec))
    return Plan(group, allocation_of(group, spec.leafs, slot))


def _given_up(hive: HivedCluster, group: Group, spec: PodSpec) -> str:
    users = ", ".join(occupants(hive, group, spec.leafs))
    now = f"it is used by {users}" if users else "its devices are bad, or the quota is used elsewhere"
    return f"the place in affinity group {group.name} was given up when a pod of it had ended, and now {now}"


def _full(group: Group, spec: PodSpec) -> UserError:
    number = group.pods.get(spec.leafs, 0)
    text = (
        f"Requesting more pods than the configured number for {spec.leafs} leaf cells ({number} pods) "
        f"in affinity group {group.name}"
    )
    return UserError("group-full", text)


def _lost(group: Group, offered: Offered) -> bool:
    """Whether a preemption waits for machines that cannot be had any more."""
    return any(not device.healthy or device.nodes[0] not in offered for device, _ in group.leafs())


@contextmanager
def _cancelled(hive: HivedCluster, group: Group) -> Iterator[None]:
    """The hive as if the group did not preempt."""
    with hive.trial():
        hive.cancel(group)
        yield


# -- what is written on pods --------------------------------------------------------------------------------------


def allocation_of(group: Group, devices: int, slot: int) -> Allocation:
    """The place of one pod of the group. Devices that are no longer configured are known from what was written."""
    places = group.places
    own = places[devices][slot]
    chain = group.chain
    return Allocation(own.node, own.indices, chain, tuple(places.items()))


# -- planning a new group -----------------------------------------------------------------------------------------


class _Planner:
    def __init__(self, hive: HivedCluster, spec: PodSpec, offered: Offered) -> None:
        self.hive, self.spec, self.offered = hive, spec, offered
        self.request = Request(spec.tenant, spec.priority, dict(spec.pods), spec.pinned_id, offered)

    def decide(self) -> Decision:
        self._check()
        refusal = Refusal("insufficient-capacity", CAPACITY.text)
        chains = candidate_chains(self.hive, self.spec)
        for chain in chains:
            found = self._in_chain(chain)
            if isinstance(found, Plan):
                return found
            refusal = found
        if self.hive.combining and self.request.guaranteed and not self.spec.pinned_id:
            plans = (self._combined(chain) for chain in chains)
            return next((plan for plan in plans if plan is not None), refusal)
        return refusal

    def _combined(self, chain: str) -> Plan | None:
        found = combined(self.hive, self._group(chain, {}, None), self.offered)
        return None if found is None else self._plan(chain, *found, [])

    def _check(self) -> None:
        spec, layout = self.spec, self.hive.layout
        tenant = layout.tenants.get(spec.tenant)
        if tenant is None:
            raise UserError("vc-unknown", f"VC {spec.tenant} does not exists!")
        if spec.pinned_id:
            if spec.pinned_id not in tenant.pinned:
                raise UserError("vc-lacks-pinned-cell", f"VC {spec.tenant} does not have pinned cell {spec.pinned_id}")
            if not self.request.guaranteed:
                text = f"opportunistic pod not supported to use pinned cell {spec.pinned_id}"
                raise UserError("opportunistic-with-pinned-cell", text)
        elif spec.leaf_type:
            chains = self.hive.chains_of.get(spec.leaf_type)
            if chains is None:
                text = f"Pod requesting leaf cell type {spec.leaf_type} which the whole cluster does not have"
                raise UserError("leaf-type-unknown", text)
            if self.request.guaranteed and not any(chain in tenant.full for chain in chains):
                text = f"Pod requesting leaf cell type {spec.leaf_type} which VC {spec.tenant} does not have"
                raise UserError("vc-lacks-leaf-type", text)

    def _in_chain(self, chain: str) -> Decision:
        leafs_at = {number: level.leafs for number, level in self.hive.layout.chains[chain].levels.items()}
        if not self.request.guaranteed:
            if (over := over_limit(self.hive, self.spec, chain)) is not None:
                return Refusal("opportunistic-limit", refused(over, self.hive.usage, self.spec.devices))
            found = place(self.hive.open_nodes[chain], leafs_at, self.request)
            if isinstance(found, Shortage):
                return _refused(found, "when scheduling in physical cluster")
            return self._plan(chain, cast(Physical, found), None, [])
        if self.spec.pinned_id:
            nodes = self.hive.pinned_nodes[self.spec.tenant, self.spec.pinned_id]
        else:
            nodes = self.hive.nodes[self.spec.tenant, chain]
        found = place(nodes, leafs_at, self.request)
        if isinstance(found, Shortage):
            return _refused(found, f"when scheduling in VC {self.spec.tenant}")
        return self._mapped(chain, found)

    def _mapped(self, chain: str, found: Placement) -> Decision:
        leafs = [cast(VirtualCell, leaf) for pods in found.values() for devices in pods for leaf in devices]
        lazily_preempted = _lazily_preempted(leafs)
        with _without_quota(self.hive, lazily_preempted, self.spec.group):
            mapped = map_plan(leafs, self.hive.allocators[chain], self.offered, sparing=self.hive.sparing)
            if mapped is None:
                return self._unmapped()
            return self._plan(chain, _hardware(found, mapped), cast(Virtual, found), lazily_preempted)

    def _unmapped(self) -> Refusal:
        bad = "bad" if self.offered.ignored else "bad or non-suggested"
        text = f"Mapping the virtual placement would need to use at least one {bad} node"
        return Refusal(f"mapping-needs-{bad.replace(' ', '-')}-node", text)

    def _plan(self, chain: str, physical: Physical, virtual: Virtual | None, lazily_preempted: list[Group]) -> Plan:
        group = self._group(chain, physical, virtual)
        victims, overtakes = _in_the_way(group)
        return Plan(group, allocation_of(group, self.spec.leafs, 0), victims, overtakes, lazily_preempted)

    def _group(self, chain: str, physical: Physical, virtual: Virtual | None) -> Group:
        keeps_claim = self.hive.promoting
        return Group.of(self.spec, chain, GroupState.PREEMPTING, physical, virtual, keeps_claim=keeps_claim)


def candidate_chains(hive: HivedCluster, spec: PodSpec) -> list[str]:
    """Where a group may be placed, in the order of trying."""
    if spec.pinned_id:
        return [hive.layout.pinned[spec.pinned_id].chain]
    types = [spec.leaf_type] if spec.leaf_type else list(hive.chains_of)
    chains = [chain for type_ in types for chain in hive.chains_of[type_]]
    if spec.priority < 0:
        return chains
    return [chain for chain in chains if chain in hive.layout.tenants[spec.tenant].full]


def over_limit(hive: HivedCluster, spec: PodSpec, chain: str) -> Bound | None:
    """The limit that an opportunistic group would exceed in the chain."""
    return hive.limits.forbids(hive.usage, spec.tenant, chain, spec.devices) if spec.priority < 0 else None


def _refused(shortage: Shortage, where: str) -> Refusal:
    kinds = {
        "capacity": "insufficient-capacity",
        "bad": "needs-bad-node",
        "bad-devices": "needs-bad-devices",
        "unoffered": "needs-non-suggested-node",
    }
    return Refusal(kinds[shortage.kind], f"{shortage.text} {where}")


def _hardware(found: Placement, mapped: Mapped) -> Physical:
    return {
        devices: [[mapped[cast(VirtualCell, leaf)] for leaf in pod] for pod in pods] for devices, pods in found.items()
    }


def _lazily_preempted(leafs: list[VirtualCell]) -> list[Group]:
    """Groups that the plan takes quota from, and that agreed to go on without."""
    found: dict[Group, None] = {}
    for leaf in leafs:
        device = leaf.physical
        user = user_of(device) if device is not None and device.state is CellState.USED else None
        if user is not None and user.lazy:
            found[user] = None
    return list(found)


@contextmanager
def _without_quota(hive: HivedCluster, groups: list[Group], preemptor: str) -> Iterator[None]:
    """The hive as if these groups ran opportunistically."""
    if not groups:
        yield
        return
    with hive.trial():
        for group in groups:
            hive.make_opportunistic(group, preemptor)
        yield


def _in_the_way(group: Group) -> tuple[dict[str, list[Member]], list[Group]]:
    """The pods of groups that use the group's devices, by their machines, and other preemptors that wait for them."""
    users: dict[Group, None] = {}
    reservers: dict[Group, None] = {}
    for device, _ in group.leafs():
        user, reserver = user_of(device), reserver_of(device)
        if user is not None:
            users[user] = None
        if reserver is not None and reserver is not group:
            reservers[reserver] = None
    victims: dict[str, list[Member]] = {}
    for user in users:
        for member in user.members():
            victims.setdefault(member.node, []).append(member)
    return victims, list(reservers)
