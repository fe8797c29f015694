"""Adds a group to the hive from the annotation of one of its pods, as far as its devices and quota still exist.

This works the same for a pod that was just placed and for one found bound after a restart, with this configuration or
another. A device that is no longer configured stays a hole. If the tenant's promise no longer covers the group, the
group goes on opportunistically: running pods are never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from algorithm.hived.cells.cells import FREE, CellState, PhysicalCell, VirtualCell
from algorithm.hived.cells.chain_allocator import ChainAllocator
from algorithm.hived.cells.chains import Layout
from algorithm.hived.formats.allocation import Allocation, Place, unpromised
from algorithm.hived.formats.podspec import PodSpec
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group, GroupState, Held, Physical, Virtual, reserver_of, user_of

#: Stands for the UID of a pod that may have ended before a restart.
NOBODY_KNOWS = "?"


def recovered(
    hive: HivedCluster, spec: PodSpec, allocation: Allocation, *, whole: bool = True, preemptor: str = ""
) -> Group:
    """Add the group to the hive and return it. `preemptor` has its quota. Call it while devices change hands.

    Unless it is `whole`, it has no devices yet: each of its pods brings its own (`occupied`).
    """
    if spec.priority < 0:
        allocation = _unpromised(allocation)
    group = Group.of(spec, allocation.chain, GroupState.ALLOCATED, {}, None, keeps_claim=hive.promoting)
    group.written = dict(allocation.places)
    if whole:
        _Recovery(hive, group, preemptor=preemptor).run(allocation)
    else:
        _empty(group)
        if preemptor:
            hive.make_opportunistic(group, preemptor)
    hive.groups[group.name] = group
    return group


def _unpromised(allocation: Allocation) -> Allocation:
    """Opportunistic pods have no quota, even if one is written on them: devices held with quota would count as free."""
    places = tuple((devices, tuple(map(unpromised, pods))) for devices, pods in allocation.places)
    return replace(allocation, places=places)


def _empty(group: Group) -> None:
    """None of the group's places is held."""
    group.physical = {devices: [[None] * devices for _ in places] for devices, places in group.written.items()}
    group.slots = {devices: (None,) * len(places) for devices, places in group.written.items()}
    group.given_up = frozenset(
        (devices, number) for devices, places in group.written.items() for number in range(len(places))
    )
    if any(type_ for places in group.written.values() for place in places for type_ in place.types):
        group.virtual = {devices: [[None] * devices for _ in places] for devices, places in group.written.items()}
    group.ended_by = NOBODY_KNOWS


def occupied(hive: HivedCluster, group: Group, devices: int, number: int) -> None:
    """A pod is bound to a place that the group did not hold. Call it while devices change hands."""
    _Recovery(hive, group).fill(devices, number)


def claimed(hive: HivedCluster, group: Group, devices: int, number: int) -> bool:
    """Take back the devices of a place that the group has given up, if they are free, healthy and still promised to it.

    Right after a restart, bad devices are taken too: the group may have had them all the time. No other group is
    affected. If it fails, nothing has changed. Call it while devices change hands.
    """
    place = group.places[devices][number]
    found = [hive.layout.devices.get((group.chain, place.node, index)) for index in place.indices]
    if any(device is None or device.group or device.reserver for device in found):
        return False
    if group.ended_by != NOBODY_KNOWS and not all(device is not None and device.healthy for device in found):
        return False
    with hive.journal.recorded() as mark:
        recovery = _Recovery(hive, group, gentle=True)
        recovery.fill(devices, number)
        if not recovery.keeps:
            hive.journal.roll_back(mark)
    return recovery.keeps


def restored(hive: HivedCluster, group: Group) -> bool:
    """Give a group all of its lost quota back that its pods name, if no other group has to give up quota for it.

    If it fails, only doomed cells may have changed. Call it while devices change hands.
    """
    if not is_promised(hive.layout, group):
        return False
    hive.allocators[group.chain].undoom_all()
    return _Recovery(hive, group, gentle=True).restore()


def is_promised(layout: Layout, group: Group) -> bool:
    """Whether its virtual cluster has cells of all types that its pods were bound with. Else it never gets quota."""
    tenant, chain = layout.tenants.get(group.tenant), layout.chains.get(group.chain)
    types = {type_ for places in group.written.values() for place in places for type_ in place.types}
    if tenant is None or chain is None or "" in types:
        return False
    levels = tenant.pinned.get(group.pinned_id) if group.pinned_id else tenant.preassigned.get(group.chain)
    return levels is not None and all(levels.get(chain.level_of(type_) or 0) for type_ in types)


def virtual_for(hive: HivedCluster, group: Group, device: PhysicalCell, type_: str) -> VirtualCell | None:
    """The virtual device that this device would be for the group, below a preassigned cell of that type.

    None if its tenant has no such cell left, or if the hardware is used by or owed to another tenant.
    """
    return _Recovery(hive, group, gentle=True).virtual_for(device, type_)


class _Recovery:
    """With `gentle`, no group loses anything. `preemptor` is the group that already has this group's quota."""

    def __init__(self, hive: HivedCluster, group: Group, *, gentle: bool = False, preemptor: str = "") -> None:
        self._hive, self._group, self._gentle = hive, group, gentle
        self._preemptor = preemptor
        #: Whether the group has quota for all that was looked at so far.
        self.keeps = not preemptor

    def fill(self, devices: int, number: int) -> None:
        """Hold the devices of a place that was given up, as far as they are configured and free."""
        group = self._group
        place = group.places[devices][number]
        held = self._place(group.chain, place if group.virtual is not None else unpromised(place))
        self._hive.place(
            group, devices, number, [each and each.device for each in held], [each and each.virtual for each in held]
        )
        self._hive.journal.attribute(group, "given_up")
        group.given_up -= {(devices, number)}
        if not self.keeps and not self._gentle:
            self._hive.make_opportunistic(group, group.name)

    def restore(self) -> bool:
        """Hold all devices of the group with its quota, or change nothing."""
        group, hive = self._group, self._hive
        virtual: Virtual = {devices: [[None] * len(pod) for pod in pods] for devices, pods in group.physical.items()}
        with hive.journal.recorded() as mark:
            for device, type_, row, index in _claims(group, virtual):
                cell = row[index] = self.virtual_for(device, type_)
                if cell is None or cell.priority != FREE or cell.physical not in (None, device):
                    break
                hive.let_go(device, None)
                if not hive.hold([Held(device, cell, group)]):
                    break
            else:
                hive.has_it_back(group, virtual)
                return True
            hive.journal.roll_back(mark)
        return False

    def run(self, allocation: Allocation) -> None:
        """Hold the pod's own place, and the unused places of its group; other places are given up."""
        group = self._group
        physical: Physical = {}
        virtual: Virtual = {}
        for devices, places in allocation.places:
            held: list[list[Held | None]] = []
            for number, place in enumerate(places):
                is_own = (place.node, place.indices) == (allocation.node, allocation.indices)
                if is_own or not self._is_in_use(allocation.chain, place):
                    held.append(self._place(allocation.chain, place))
                else:
                    held.append([None] * devices)
                    group.given_up |= {(devices, number)}
            physical[devices] = [[each and each.device for each in pod] for pod in held]
            virtual[devices] = [[each and each.virtual for each in pod] for pod in held]
        group.physical = physical
        group.slots = {devices: (None,) * len(places) for devices, places in allocation.places}
        if any(type_ for _, places in allocation.places for place in places for type_ in place.types):
            group.virtual = virtual
            if not self.keeps:
                self._hive.make_opportunistic(group, self._preemptor or group.name)

    def _place(self, chain: str, place: Place) -> list[Held | None]:
        return [self._hold(chain, place.node, *each) for each in zip(place.indices, place.types, strict=True)]

    def _hold(self, chain: str, node: str, index: int, type_: str) -> Held | None:
        device = self._find(chain, node, index)
        if device is None:
            return None
        user, reserver = user_of(device), reserver_of(device)
        if user is not None and not self._yields(user, device):
            return None
        if reserver is not None:
            # A preemptor had reserved the device. A group runs there, so that preemption is over.
            self._hive.cancel(reserver)
        cell = self.virtual_for(device, type_) if type_ and self.keeps else None
        held = Held(device, cell, self._group)
        safe = self._hive.hold([held])
        self.keeps = self.keeps and safe and (cell is not None or not type_)
        device.set_user(self._group)
        device.set_state(CellState.USED)
        return held

    def _is_in_use(self, chain: str, place: Place) -> bool:
        found = (self._find(chain, place.node, index) for index in place.indices)
        return any(device is not None and device.group is not None for device in found)

    def _yields(self, user: Group, device: PhysicalCell) -> bool:
        """Give up the user's place if it has no pod: at a restart, the found pod runs there. Return whether it did."""
        if not self._hive.recovering:
            return False
        for devices, slots in user.slots.items():
            for number, member in enumerate(slots):
                if member is None and device in user.physical[devices][number]:
                    self._hive.give_up(user, devices, number)
                    return True
        return False

    def _find(self, chain: str, node: str, index: int) -> PhysicalCell | None:
        """The device in this chain, or in another one."""
        layout = self._hive.layout
        found = (layout.devices.get((name, node, index)) for name in (chain, *layout.chains))
        return next((device for device in found if device is not None), None)

    # -- quota ------------------------------------------------------------------------------------------------

    def virtual_for(self, device: PhysicalCell, type_: str) -> VirtualCell | None:
        """The virtual device that this device is for the tenant, below a preassigned cell of that type.

        None if the tenant is no longer promised such a cell, or if other groups have it.
        """
        layout, group = self._hive.layout, self._group
        level = layout.chains[device.chain].level_of(type_)
        tenant = layout.tenants.get(group.tenant)
        if level is None or tenant is None or level < device.level:
            return None
        if group.pinned_id:
            preassigned = tenant.pinned.get(group.pinned_id, {}).get(level, [])
        else:
            preassigned = tenant.preassigned.get(device.chain, {}).get(level, [])
        hardware = device
        while hardware.level < level:
            assert hardware.parent is not None
            hardware = hardware.parent
        root = self._root_for(hardware, preassigned)
        return None if root is None else self._descend(device, hardware, root)

    def _root_for(self, hardware: PhysicalCell, preassigned: Sequence[VirtualCell]) -> VirtualCell | None:
        """The preassigned cell that this hardware is or becomes."""
        if hardware.virtual in preassigned:
            return hardware.virtual
        allocator = self._hive.allocators[hardware.chain]
        if hardware.pinned or not self._freed(hardware, allocator):
            return None
        root = _lowest(preassigned, self._group.priority)
        if root is None or (self._gentle and root.physical is not None):
            return None
        if root.physical is not None:
            # After a reconfiguration, another group may have this quota. It goes on without.
            for user in _users(root):
                self._hive.make_opportunistic(user, self._group.name)
            if root.physical is not None and allocator.can_be_undoomed(root.physical):
                allocator.undoom(root.physical)
        return root if root.physical is None else None

    def _freed(self, hardware: PhysicalCell, allocator: ChainAllocator) -> bool:
        """Whether the hardware is free and may be taken; if it is not, once the chain's doomed cells are released.

        Cells are doomed after a restart before it is known where groups run.
        """
        if allocator.is_free(hardware) and allocator.can_be_spared(hardware):
            return True
        if self._gentle:
            return False
        allocator.undoom_all()
        return allocator.is_free(hardware)

    def _descend(self, cell: PhysicalCell, hardware: PhysicalCell, root: VirtualCell) -> VirtualCell | None:
        if cell is hardware:
            return root
        if cell.virtual is not None:
            return cell.virtual
        assert cell.parent is not None
        above = self._descend(cell.parent, hardware, root)
        return None if above is None else _lowest(above.children, self._group.priority)


def _claims(group: Group, virtual: Virtual) -> Iterator[tuple[PhysicalCell, str, list[VirtualCell | None], int]]:
    """Each device, the type of the preassigned cell that it was used as, and where its virtual device belongs."""
    # Not `group.places`: while the group has no quota, its next pod is promised nothing.
    for devices, places in group.written.items():
        for place, pod, row in zip(places, group.physical[devices], virtual[devices], strict=True):
            for index, (device, type_) in enumerate(zip(pod, place.types, strict=True)):
                if device is not None:
                    yield device, type_, row, index


def _users(root: VirtualCell) -> list[Group]:
    """Groups that hold devices of this preassigned cell."""
    found: dict[Group, None] = {}
    for leaf in root.walk():
        device = leaf.physical if isinstance(leaf, VirtualCell) and leaf.level == 1 else None
        user = None if device is None else user_of(device)
        if user is not None and user.virtual is not None:
            found[user] = None
    return list(found)


def _lowest(cells: Iterable[VirtualCell], priority: int) -> VirtualCell | None:
    """A free cell, or else the one of the lowest priority below this one; the first of equals."""
    best: VirtualCell | None = None
    for cell in cells:
        if cell.priority == FREE and cell.physical is None:
            return cell
        if cell.priority < priority and (best is None or cell.priority < best.priority):
            best = cell
    return best
