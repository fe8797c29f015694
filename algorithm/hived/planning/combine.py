"""A pod whose devices come from several preassigned cells, all on one machine.

Two promised single devices are no promise of two devices together: they may be hardware anywhere. But they can be
together, if both are bound on one machine already or if a machine has free hardware for both. This is looked for only
where a group has no place otherwise, and only in cells that are smaller than a machine.

It is tried on the hive itself (`HivedCluster.trial`): for each pod, largest first, the machines are tried on which most
of what it needs is bound already, then those that are split already, then those with the fewest opportunistic pods. On
a machine, devices of bound cells are taken first, then free hardware becomes further ones, of the smallest free pieces.
What is owed to others stays there to be had, on healthy hardware, if it was before. What is written on pods is what the
original writes, the type of the preassigned cell for each device, and is recovered device by device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from algorithm.hived.cells.cells import FREE, CellState, PhysicalCell
from algorithm.hived.cells.chain_allocator import ChainAllocator, reserved
from algorithm.hived.cells.chains import VirtualLevels
from algorithm.hived.cells.request import Offered
from algorithm.hived.formats.podspec import OPPORTUNISTIC
from algorithm.hived.planning.placement import leafs_of
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group, Held, Physical, Virtual, user_of
from algorithm.hived.state.recovery import virtual_for

#: A point to go back to: a mark of the journal, and how many devices were held.
_Mark = tuple[int, int]
#: The physical and virtual devices of each pod, by devices per pod.
Combined = tuple[Physical, Virtual]


def combined(hive: HivedCluster, group: Group, offered: Offered) -> Combined | None:
    """A place for all pods of a guaranteed group, which the hive does not know; None if there is none.

    First without any guaranteed pod having to go, then in place of lower priorities of its tenant.
    """
    cells = _small(hive, group)
    chain, need = hive.layout.chains[group.chain], sum(devices * pods for devices, pods in group.pods.items())
    if not cells or max(group.pods) > chain.levels[chain.machine_level].leafs:
        return None
    for below in dict.fromkeys((0, group.priority)):
        if sum(cell.free_for(below) for each in cells.values() for cell in each) < need:
            continue
        with hive.trial():
            trial = _Trial(hive, group, cells, offered, below)
            if trial.run():
                return trial.found()
    return None


def _small(hive: HivedCluster, group: Group) -> VirtualLevels:
    """The tenant's preassigned cells that are smaller than a machine, by level."""
    machine = hive.layout.chains[group.chain].machine_level
    levels = hive.layout.tenants[group.tenant].preassigned.get(group.chain, {})
    return {level: cells for level, cells in levels.items() if level < machine and cells}


class _Trial:
    """Devices of priorities lower than `below` may be taken."""

    def __init__(self, hive: HivedCluster, group: Group, cells: VirtualLevels, offered: Offered, below: int) -> None:
        self._hive, self._group, self._cells, self._offered, self._below = hive, group, cells, offered, below
        self._allocator = hive.allocators[group.chain]
        self._was_kept = _is_kept(self._allocator)
        self._pods: list[tuple[int, list[Held]]] = []
        #: The devices that are held for the group in this trial.
        self._held: list[Held] = []

    def run(self) -> bool:
        pods = self._group.pods
        return all(self._place(devices) for devices in sorted(pods, reverse=True) for _ in range(pods[devices]))

    def found(self) -> Combined:
        physical: Physical = {devices: [] for devices in sorted(self._group.pods)}
        virtual: Virtual = {devices: [] for devices in physical}
        for devices, held in self._pods:
            physical[devices].append([each.device for each in held])
            virtual[devices].append([each.virtual for each in held])
        return physical, virtual

    def _mark(self) -> _Mark:
        return self._hive.journal.mark(), len(self._held)

    def _undo(self, mark: _Mark) -> None:
        changes, held = mark
        self._hive.journal.roll_back(changes)
        del self._held[held:]

    # -- machines ---------------------------------------------------------------------------------------------

    def _place(self, devices: int) -> bool:
        for machine in self._machines(devices):
            mark = self._mark()
            if self._fill(machine, devices):
                self._pods.append((devices, self._held[mark[1] :]))
                return True
            self._undo(mark)
        return False

    def _machines(self, devices: int) -> list[PhysicalCell]:
        """The machines that may have room for a pod, best first."""
        chain = self._hive.layout.chains[self._group.chain]
        bound: dict[str, int] = {}
        for device in self._bound_devices(chain.full[chain.machine_level]):
            bound[device.nodes[0]] = bound.get(device.nodes[0], 0) + 1
        machines = [
            machine
            for machine in chain.full[chain.machine_level]
            if machine.nodes[0] in self._offered and machine.free_for(self._below) - machine.bad_leafs >= devices
        ]
        return sorted(machines, key=lambda each: self._merit(each, min(devices, bound.get(each.nodes[0], 0))))

    @staticmethod
    def _merit(machine: PhysicalCell, bound: int) -> tuple[int, bool, int]:
        return -bound, not machine.split, machine.used.get(OPPORTUNISTIC, 0)

    def _fill(self, machine: PhysicalCell, devices: int) -> bool:
        left = devices
        for device in self._bound_devices([machine]):
            if left and self._take(device, self._type_of(device)):
                left -= 1
        while left:
            taken = self._take_piece(machine, left)
            if not taken:
                return False
            left -= taken
        return True

    # -- cells of the tenant that are hardware already ------------------------------------------------------------

    def _bound_devices(self, machines: Sequence[PhysicalCell]) -> list[PhysicalCell]:
        """Devices of these machines in cells of the tenant that may be taken, free ones first."""
        wanted = {machine.nodes[0] for machine in machines}
        roots = [
            root.physical
            for cells in self._cells.values()
            for root in cells
            if root.physical is not None and root.physical.nodes[0] in wanted
        ]
        return _by_use(device for root in roots for device in _devices(root) if self._may_take(device))

    def _type_of(self, device: PhysicalCell) -> str:
        """The type of the tenant's preassigned cell around it."""
        cell: PhysicalCell | None = device
        while cell is not None and not (cell.virtual is not None and cell.virtual.is_preassigned):
            cell = cell.parent
        return "" if cell is None else cell.type

    def _may_take(self, device: PhysicalCell) -> bool:
        if not device.healthy or device.state not in (CellState.FREE, CellState.USED):
            return False
        return device.priority < self._below

    # -- free hardware ------------------------------------------------------------------------------------------

    def _take_piece(self, machine: PhysicalCell, left: int) -> int:
        """Bind free hardware to one more cell of the tenant. Return how many of its devices were taken; 0 if none."""
        for level in self._levels(left):
            for piece in self._pieces(machine, level):
                mark = self._mark()
                devices = [device for device in _by_use(_devices(piece)) if self._may_take(device)][:left]
                if devices and all(self._take(device, piece.type) for device in devices):
                    return len(devices)
                self._undo(mark)
        return 0

    def _levels(self, left: int) -> list[int]:
        """Levels of unbound cells of the tenant: first cells that the pod fills, largest first, then larger ones."""
        unbound = [level for level, cells in self._cells.items() if any(cell.physical is None for cell in cells)]
        leafs = {level: self._cells[level][0].leafs for level in unbound}
        return sorted(unbound, key=lambda level: (leafs[level] > left, -level if leafs[level] <= left else level))

    def _pieces(self, machine: PhysicalCell, level: int) -> list[PhysicalCell]:
        """Free healthy cells of the level on the machine, first those for which the smallest cell has to be split."""
        cells = [cell for cell in _at(machine, level) if cell.healthy and self._allocator.is_free(cell)]
        return sorted(cells, key=lambda cell: (_listed_at(cell), cell.used.get(OPPORTUNISTIC, 0)))

    # -- devices ------------------------------------------------------------------------------------------------

    def _take(self, device: PhysicalCell, type_: str) -> bool:
        """Hold the device with the tenant's quota. Return False if that is not possible; then nothing has changed."""
        mark = self._mark()
        before = self._holder(device)
        if before is not None:
            self._hive.let_go(device, before.virtual)
        cell = virtual_for(self._hive, self._group, device, type_)
        if cell is not None and cell.priority == FREE and cell.physical in (None, device):
            held = Held(device, cell, self._group)
            if self._hive.hold([held]) and (_is_kept(self._allocator) or not self._was_kept):
                self._held.append(held)
                return True
        self._undo(mark)
        return False

    def _holder(self, device: PhysicalCell) -> Held | None:
        user = user_of(device)
        return None if user is None else Held(device, dict(user.leafs())[device], user)


def _is_kept(allocator: ChainAllocator) -> bool:
    """Whether all that is owed could be had at once on healthy hardware."""
    return all(
        allocator.healthy_free(level) >= reserved(allocator.chain, allocator.all_vc_free_cells, level)
        for level in allocator.all_vc_free_cells
    )


def _by_use(devices: Iterable[PhysicalCell]) -> list[PhysicalCell]:
    return sorted(devices, key=lambda device: device.priority)


def _devices(cell: PhysicalCell) -> list[PhysicalCell]:
    return leafs_of(cell)  # type: ignore[return-value]


def _at(machine: PhysicalCell, level: int) -> Iterator[PhysicalCell]:
    return (cell for cell in machine.walk() if cell.level == level)  # type: ignore[misc]


def _listed_at(cell: PhysicalCell) -> int:
    """The level of the free cell that it is part of."""
    while cell.parent is not None and not cell.parent.split:
        cell = cell.parent
    return cell.level
