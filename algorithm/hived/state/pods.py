"""Takes pods into the hive's account and out of it. A group begins with its first pod and ends with its last one."""

from __future__ import annotations

from algorithm.hived.cells.cells import CellState
from algorithm.hived.formats.allocation import Allocation, own_place_of
from algorithm.hived.formats.podspec import PodSpec, UserError
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group, GroupState, Member
from algorithm.hived.state.recovery import occupied, recovered


def add_pod(
    hive: HivedCluster,
    member: Member,
    spec: PodSpec,
    allocation: Allocation,
    *,
    found: bool = False,
    preemptor: str = "",
) -> None:
    """A pod is allocated, just now or before a restart: `allocation` is what was written on it.

    `found`: it was bound when it was first seen, so it is not known whether the rest of its group is still to come.
    `preemptor`: the group that took its group's quota afterwards. The quota of a known group is not changed here.
    Raises UserError, and changes nothing, if its group has no such place.
    """
    assert not hive.journal.recording, member
    check_place(hive, spec, allocation)
    group = hive.groups.get(spec.group)
    if group is not None and allocation.is_partial and not _has_first(group, allocation):
        group.add_place(own_place_of(allocation))
    if group is None:
        with hive.changing_hands():
            group = recovered(hive, spec, allocation, whole=not (found and spec.releases), preemptor=preemptor)
    elif found:
        group.join(allocation, lazy=spec.lazy)
    slot = _slot_of(group, allocation)
    assert slot is not None, spec.group
    if group.state is GroupState.PREEMPTING:
        _arrive(hive, group)
    if (len(allocation.indices), slot) in group.given_up:
        with hive.changing_hands():
            occupied(hive, group, len(allocation.indices), slot)
    group.seat(len(allocation.indices), slot, member)


def check_place(hive: HivedCluster, spec: PodSpec, allocation: Allocation) -> None:
    """Raises UserError if the pod's group is known and has no such place, or is another tenant's."""
    group = hive.groups.get(spec.group)
    if group is None:
        return
    if group.tenant != spec.tenant:
        raise UserError("bind-info", f"affinity group {group.name} is of virtual cluster {group.tenant}")
    if _slot_of(group, allocation) is None and (not allocation.is_partial or _has_first(group, allocation)):
        text = f"affinity group {group.name} has no free place for the pod on {allocation.node}"
        raise UserError("bind-info", text)


def delete_pod(hive: HivedCluster, member: Member, spec: PodSpec) -> None:
    """An allocated pod is gone. Its group ends with the last one."""
    assert not hive.journal.recording, member
    group = hive.groups.get(spec.group)
    if group is None:
        return
    for devices, slots in group.slots.items():
        for index, each in enumerate(slots):
            if each is not None and each.uid == member.uid:
                group.seat(devices, index, None)
    if group.state is not GroupState.PREEMPTING and not any(group.members()):
        hive.end(group)


def stop_waiting(hive: HivedCluster, uid: str, spec: PodSpec) -> bool:
    """A pod waits no more for a preemption, which ends with the last pod that does. Returns whether it has ended."""
    group = hive.groups.get(spec.group)
    if group is None or group.state is not GroupState.PREEMPTING or uid not in group.preempting:
        return False
    group.preempting = {each: None for each in group.preempting if each != uid}
    if not group.preempting:
        hive.cancel(group)
    return not group.preempting


def _arrive(hive: HivedCluster, group: Group) -> None:
    """The preempting group is allocated: its first pod was placed, so all victims are gone."""
    group.state = GroupState.ALLOCATED
    group.preempting = {}
    hive.orders.pop(group, None)
    for device, _ in group.leafs():
        device.set_reserver(None)
        device.set_user(group)
        device.set_state(CellState.USED)


def _has_first(group: Group, allocation: Allocation) -> bool:
    """Whether the pod's place, which its first device tells, is one of the group's."""
    places = group.places.get(len(allocation.indices), ())
    return any((place.node, place.indices[0]) == (allocation.node, allocation.indices[0]) for place in places)


def _slot_of(group: Group, allocation: Allocation) -> int | None:
    """The index of the group's place that is the pod's own: node and first device tell. None if it is not vacant."""
    own = (allocation.node, allocation.indices[0])
    devices = len(allocation.indices)
    slots = group.slots.get(devices, ())
    for index, place in enumerate(group.places.get(devices, ())):
        if (place.node, place.indices[0]) == own:
            return index if slots[index] is None else None
    return None
