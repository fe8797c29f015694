"""Gangs that give their devices back pod by pod, and not all of them with the last pod (`gangReleaseEnable: false`).

    place of a pod:   held, vacant --- its pod is placed ---> occupied --- its pod ends ---> given up
                           ^                                                                     |
                           +---- a pod of the gang waits, and the devices are still free --------+

Until the first of its pods ends, all places of a gang are held: some pods are still to come. From then on a vacant
place is held only for a pod that waits, so that what is held follows from the pods that there are. After a restart
nothing else is known, and places are held that way from the beginning.
"""

from __future__ import annotations

from algorithm.hived.cells.cells import PhysicalCell
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group, GroupState
from algorithm.hived.state.recovery import claimed
from algorithm.hived.state.waiting import Waiting

_STATES = (GroupState.ALLOCATED, GroupState.BEING_PREEMPTED)


def pod_ended(hive: HivedCluster, group: Group, uid: str, waiting: Waiting) -> None:
    """A pod of the group has left its place; the group still has others."""
    group.ended_by = group.ended_by or uid
    hold_what_is_awaited(hive, group, waiting)


def pod_waits(hive: HivedCluster, group: Group, uid: str, waiting: Waiting) -> None:
    """Handle a waiting pod of the group: a new one, or one whose proposal came to nothing, which is not an end."""
    if group.ended_by == uid:
        group.ended_by = ""
    hold_what_is_awaited(hive, group, waiting)


def hold_what_is_awaited(hive: HivedCluster, group: Group, waiting: Waiting) -> None:
    """Give up vacant places that no pod waits for, and take back places that a pod waits for, if they are free.

    Places are filled from the first one on, so those for pods that have not come yet are the last ones.
    """
    if not group.releases or group.state not in _STATES:
        return
    with hive.changing_hands():
        for devices, slots in group.slots.items():
            vacant = [number for number, member in enumerate(slots) if member is None]
            wanted = waiting.waiting_members(group, devices) if group.ended_by else len(vacant)
            kept = 0
            for number in reversed(vacant):
                is_held = (devices, number) not in group.given_up
                if kept < wanted and (is_held or claimed(hive, group, devices, number)):
                    kept += 1
                elif is_held:
                    hive.give_up(group, devices, number)


def vacancy(hive: HivedCluster, group: Group, devices: int) -> int | None:
    """The vacant place of which a pod could have the devices: a held one, or one that could be held."""
    vacant = [number for number, member in enumerate(group.slots.get(devices, ())) if member is None]
    held = next((number for number in vacant if (devices, number) not in group.given_up), None)
    if held is not None:
        return held
    return next((number for number in vacant if _could_be_held(hive, group, devices, number)), None)


def _could_be_held(hive: HivedCluster, group: Group, devices: int, number: int) -> bool:
    with hive.trial():
        return claimed(hive, group, devices, number)


def occupants(hive: HivedCluster, group: Group, devices: int) -> list[str]:
    """The names of the groups that use or reserve devices of the group's vacant places, sorted."""
    places = [group.places[devices][number] for at, number in group.given_up if at == devices]
    found = [hive.layout.devices.get((group.chain, place.node, index)) for place in places for index in place.indices]
    return sorted({name for device in found if device is not None for name in _names(device)})


def _names(device: PhysicalCell) -> list[str]:
    return [group.name for group in (device.group, device.reserver) if group is not None]
