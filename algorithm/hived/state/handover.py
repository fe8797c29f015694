"""Devices that move from a victim to its preemptor, and back if the preemptor gives up, with the cells they are held
as.

The original moves them one by one, and a cell that both groups have stays with the tenant all the time. This determines
the order of free cells afterwards, and so which of several equal cells is taken next.
"""

from __future__ import annotations

from collections.abc import Iterable

from algorithm.hived.cells.cells import PhysicalCell, VirtualCell
from algorithm.hived.state.groups import Group, Held, user_of

#: The holder of a device before, and the holder afterwards; None: no holder.
Moves = list[tuple[Held | None, Held | None]]


class HeldDevices:
    """What the devices of groups are held as."""

    def __init__(self) -> None:
        self._devices: dict[Group, dict[PhysicalCell, VirtualCell | None]] = {}

    def held(self, device: PhysicalCell) -> Held | None:
        """By the group that runs on it; None if none does."""
        group = user_of(device)
        if group is None:
            return None
        if group not in self._devices:
            self._devices[group] = dict(group.leafs())
        return Held(device, self._devices[group][device], group)

    def groups(self) -> Iterable[Group]:
        """All that were met so far."""
        return self._devices


def can_be_held(held: Held) -> bool:
    """Whether nothing has to be unbound for it: what is bound of the two, or above them, is bound to each other."""
    here: PhysicalCell | None = held.device
    there: VirtualCell | None = held.virtual
    while here is not None and there is not None:
        if here.virtual is not None or there.physical is not None:
            return here.virtual is there
        here, there = here.parent, there.parent
    return True
