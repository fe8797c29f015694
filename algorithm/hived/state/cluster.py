"""The hive: all cells, accounts and groups of a cluster, and the operations that change them.

`planner.py` decides; this module records the decisions. Nodes and pods come in any order at any time, also those of an
earlier configuration, and accounts and cells always agree.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager

from algorithm.hived.cells.cells import CellState, PhysicalCell, VirtualCell, bind_upwards, pair, unbind_upwards
from algorithm.hived.cells.chain_allocator import ChainAllocator, Order
from algorithm.hived.cells.chains import Chain, Layout, VirtualLevels
from algorithm.hived.cells.nodelist import NodeList, schedulable_nodes
from algorithm.hived.formats.podspec import OPPORTUNISTIC
from algorithm.hived.state.groups import Group, GroupState, Held, Virtual
from algorithm.hived.state.handover import HeldDevices, Moves, can_be_held
from algorithm.hived.state.limits import Limits, OpportunisticLimits
from algorithm.hived.state.usage import Usage, guaranteed
from algorithm.tables import Table


class HivedCluster:
    """See the module's text. A new hive believes all machines bad until they are announced."""

    def __init__(
        self,
        layout: Layout,
        chains_of: dict[str, list[str]] | None = None,
        *,
        sparing: bool = False,
        weighs_damage: bool = False,
        promoting: bool = False,
        combining: bool = False,
        limits: Limits | None = None,
    ) -> None:
        self.layout = layout
        #: Notes how to undo what is done here; see `trial`.
        self.journal = layout.journal
        self.guaranteed = guaranteed(layout)
        self.usage = Usage()
        #: What opportunistic pods may have.
        self.limits = limits or Limits(OpportunisticLimits(), layout)
        #: Whether healthy cells are kept whole as long as something else will do.
        self.sparing = sparing
        #: Chains of a device type in the order in which they are tried.
        self.chains_of = chains_of or layout.chains_of
        #: Whether a machine may be bad in part: then the least bad hardware is doomed first.
        self.weighs_damage = weighs_damage
        self.allocators = {
            name: ChainAllocator(chain, layout.tenants.values(), weighs_damage=weighs_damage)
            for name, chain in layout.chains.items()
        }
        self.groups: Table[str, Group] = Table()
        #: Those that are without their quota, as they had agreed or because it could not be kept.
        self.lazily_preempted: dict[Group, None] = {}
        #: Whether groups that lost their quota may have it back.
        self.promoting = promoting
        #: Whether the devices of a pod may come from several cells on one machine.
        self.combining = combining
        #: How free cells were listed when a preemption began: if it comes to nothing, the same is planned again.
        self.orders: dict[Group, Order] = {}
        #: Seconds since 1970, as they were said last; 0 as long as nobody did. Only shown: nothing is decided by it.
        self.now = 0.0
        self.started = False
        #: Until the first pod waits, bound pods come in any order.
        self.recovering = True
        self.nodes: dict[tuple[str, str], NodeList] = {}
        self.pinned_nodes: dict[tuple[str, str], NodeList] = {}
        self.open_nodes: dict[str, NodeList] = {}
        self._list_nodes()
        self._bind_pinned()
        for machine in layout.machines:
            self.set_health(machine, healthy=False)

    def _list_nodes(self) -> None:
        chains = self.layout.chains
        for name, chain in chains.items():
            self.open_nodes[name] = NodeList(
                schedulable_nodes(chain.full, chain.machine_level), packs_across_priorities=False
            )
        for tenant in self.layout.tenants.values():
            for name, full in tenant.full.items():
                self.nodes[tenant.name, name] = _virtual_nodes(full, chains[name])
            for pinned_id, full in tenant.pinned.items():
                chain = chains[self.layout.pinned[pinned_id].chain]
                self.pinned_nodes[tenant.name, pinned_id] = _virtual_nodes(full, chain)

    def _bind_pinned(self) -> None:
        for tenant in self.layout.tenants.values():
            for pinned_id, full in tenant.pinned.items():
                physical = self.layout.pinned[pinned_id]
                pair(physical, full[physical.level][0])
                self.allocators[physical.chain].allocate(physical, tenant.name)

    # -- health -----------------------------------------------------------------------------------------------

    def set_health(self, machine: str, *, healthy: bool, bad: Collection[int] = ()) -> None:
        """A machine turned healthy, but for devices with the numbers `bad`; or it turned bad as a whole.

        One that is not configured has no devices and changes nothing.
        """
        assert not self.journal.recording, machine
        leafs = self.layout.machines.get(machine, ())
        for leaf in leafs:
            well = healthy and leaf.indices[0] not in bad
            if well != leaf.healthy:
                self._count_bad(leaf, -1 if well else 1)
                if well:
                    self._turn_healthy(leaf)
                else:
                    self._turn_bad(leaf)
        if self.started:
            for chain in dict.fromkeys(leaf.chain for leaf in leafs):
                self.allocators[chain].health_changed()

    @staticmethod
    def _count_bad(leaf: PhysicalCell, number: int) -> None:
        cell: PhysicalCell | None = leaf
        while cell is not None:
            cell.bad_leafs += number
            _touch(cell)
            cell = cell.parent

    def start(self) -> None:
        """The machines that exist have been announced, pods come now; calls after the first mean nothing.

        Until then each announcement frees what it frees by itself, in the original's order, and recorded decisions
        depend on it. From now on nobody is ever doomed without need.
        """
        if not self.started:
            self.started = True
            for allocator in self.allocators.values():
                allocator.settle()

    def _settle(self, changed: Iterable[PhysicalCell]) -> None:
        for chain in dict.fromkeys(cell.chain for cell in changed):
            self.allocators[chain].settle()

    def _turn_bad(self, cell: PhysicalCell) -> None:
        if not cell.healthy:
            return
        if cell.parent is not None:
            self._turn_bad(cell.parent)
        self._mark(cell, healthy=False)
        self.allocators[cell.chain].turned_bad(cell)

    def _turn_healthy(self, cell: PhysicalCell) -> None:
        here: PhysicalCell | None = cell
        while here is not None and not here.healthy and all(child.healthy for child in here.children):
            self._mark(here, healthy=True)
            self.allocators[here.chain].turned_healthy(here)
            here = here.parent

    @staticmethod
    def _mark(cell: PhysicalCell, *, healthy: bool) -> None:
        cell.healthy = healthy
        cell.shown_anew()
        _touch(cell)

    # -- devices ----------------------------------------------------------------------------------------------

    def hold(self, held: Iterable[Held]) -> bool:
        """The groups take free devices. False if that breaks a promise to another tenant."""
        roots: list[PhysicalCell] = []
        safe = [self._hold(each, roots) for each in held]
        self._show_bad(roots)
        return all(safe)

    def _hold(self, held: Held, roots: list[PhysicalCell]) -> bool:
        """The same for one device. `roots` gets the cell that it makes a tenant's, and `_show_bad` has to follow.

        All devices are bound before bad parts of the same cells are bound somewhere.
        """
        device, virtual, group = held
        self._count(group.tenant, device.chain, 1, promised=virtual is not None)
        if virtual is None:
            device.take(OPPORTUNISTIC)
            device.set_tenant(group.tenant)
            return True
        virtual.take(group.priority)
        device.take(group.priority)
        if device.virtual is not None:
            return True
        is_new = virtual.root.physical is None
        bind_upwards(device, virtual)
        root = virtual.root.physical
        if not is_new or root is None:
            return True
        roots.append(root)
        return self.allocators[root.chain].allocate(root, group.tenant, shows=False)

    def _count(self, tenant: str, chain: str, number: int, *, promised: bool) -> None:
        if self.journal.recording:
            self.journal.note(self.usage.add, tenant, chain, -number, promised)
        self.usage.add(tenant, chain, number, promised)

    def _show_bad(self, roots: Iterable[PhysicalCell]) -> None:
        for root in roots:
            self.allocators[root.chain].show_bad(root)

    def let_go(self, device: PhysicalCell, virtual: VirtualCell | None) -> None:
        """The reverse. `virtual` is what it was held as."""
        device.give_back()
        tenant = device.tenant if virtual is None else virtual.tenant
        self._count(tenant, device.chain, -1, promised=virtual is not None)
        if virtual is None:
            device.set_tenant("")
            return
        virtual.give_back()
        root = virtual.root.physical
        assert root is not None
        if device.healthy:
            unbind_upwards(device)
        allocator = self.allocators[device.chain]
        if not root.pinned and virtual.root.priority < 0 and not allocator.is_doomed(root, virtual.tenant):
            allocator.release(root, virtual.tenant)

    # -- groups -----------------------------------------------------------------------------------------------

    @contextmanager
    def changing_hands(self) -> Iterator[None]:
        """While devices move between groups, no cell is doomed because of a momentary shortage."""
        with ExitStack() as stack:
            for allocator in self.allocators.values():
                stack.enter_context(allocator.paused())
            yield

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo all changes made within the block at its end. Nothing is doomed because of them."""
        with ExitStack() as stack:
            for allocator in self.allocators.values():
                stack.enter_context(allocator.paused(settles=False))
            with self.journal.trial():
                yield

    def make_opportunistic(self, group: Group, preemptor: str) -> None:
        """Preempt the group lazily: it keeps its devices and loses its quota."""
        with self.changing_hands():
            for device, virtual in list(group.leafs()):
                if virtual is not None:
                    self.let_go(device, virtual)
                    self.hold([Held(device, None, group)])
        self._note(group, "virtual", "lazily_preempted_by", "lazily_preempted_at")
        group.virtual = None
        group.lazily_preempted_by, group.lazily_preempted_at = preemptor, self.now
        self.journal.entry(self.lazily_preempted, group)
        self.lazily_preempted[group] = None

    def has_it_back(self, group: Group, virtual: Virtual) -> None:
        """A group that had lost its quota holds its devices as these again."""
        self._note(group, "virtual", "lazily_preempted_by")
        group.virtual = virtual
        group.lazily_preempted_by = ""
        self.journal.whole(self.lazily_preempted)
        del self.lazily_preempted[group]

    def _note(self, group: Group, *names: str) -> None:
        """These attributes of the group are about to be set."""
        for name in names:
            self.journal.attribute(group, name)

    def _set_state(self, group: Group, state: GroupState) -> None:
        self._note(group, "state")
        group.state = state

    def without_quota(self, chain: str) -> list[Group]:
        """The groups that lost their quota and go on, on devices of the chain."""
        return [group for group in self.lazily_preempted if any(device.chain == chain for device, _ in group.leafs())]

    def take_quota(self, groups: Iterable[Group], preemptor: str) -> None:
        """Preempt these groups lazily: a plan that needs their quota was accepted."""
        for group in groups:
            self.make_opportunistic(group, preemptor)

    def overtake(self, groups: Iterable[Group]) -> None:
        """Cancel these preemptions: a more important one needs what they wait for."""
        for group in groups:
            if self.groups.get(group.name) is group:
                self.cancel(group)

    def preempt(self, group: Group, uid: str) -> None:
        """Begin or join the group's preemption: a plan with victims was accepted for this pod."""
        if self.groups.get(group.name) is not group:
            self.reserve(group)
        self._note(group, "preempting")
        group.preempting = {**group.preempting, uid: None}

    def reserve(self, group: Group) -> None:
        """The group begins to preempt: its devices are reserved for it, although others may still use them."""
        known = HeldDevices()
        mine = [Held(device, virtual, group) for device, virtual in group.leafs()]
        # Not the journal's: much else happens before a preemption comes to nothing, and that stays.
        self.journal.entry(self.orders, group)
        self.orders[group] = self.allocators[group.chain].order()
        theirs = [known.held(each.device) for each in mine]
        for victim in known.groups():
            self._set_state(victim, GroupState.BEING_PREEMPTED)
        self._hand_over(list(zip(theirs, mine, strict=True)))
        for each in mine:
            each.device.set_reserver(group)
            each.device.set_state(CellState.RESERVED if each.device.group is None else CellState.RESERVING)
        self.journal.entry(self.groups, group.name)
        self.groups[group.name] = group

    def cancel(self, group: Group) -> None:
        """Cancel the group's preemption; its victims get their devices back."""
        known = HeldDevices()
        mine = [Held(device, virtual, group) for device, virtual in group.leafs()]
        self._hand_over([(each, known.held(each.device)) for each in mine])
        for device, _, _ in mine:
            device.set_reserver(None)
            device.set_state(CellState.FREE if device.group is None else CellState.USED)
        for victim in known.groups():
            if not any(device.reserver for device, _ in victim.leafs()):
                self._set_state(victim, GroupState.ALLOCATED)
        self.journal.whole(self.groups)
        del self.groups[group.name]
        self.journal.whole(self.orders)
        self.allocators[group.chain].restore(self.orders.pop(group))

    def _hand_over(self, moves: Moves) -> None:
        """Device by device, as the original does: it decides the order of lists.

        But a plan that makes other hardware of a tenant's cells, which the original never does, has everything let go
        before.
        """
        one_by_one = all(after is None or can_be_held(after) for _, after in moves)
        roots: list[PhysicalCell] = []
        with self.changing_hands():
            for some in [[move] for move in moves] if one_by_one else [moves]:
                for before, _ in some:
                    if before is not None:
                        self.let_go(before.device, before.virtual)
                for _, after in some:
                    if after is not None:
                        self._hold(after, roots)
            self._show_bad(roots)

    def end(self, group: Group) -> None:
        """The last pod of an allocated group is gone."""
        leafs = list(group.leafs())
        self._leave(leafs)
        self.journal.whole(self.groups)
        del self.groups[group.name]
        self.journal.whole(self.lazily_preempted)
        self.lazily_preempted.pop(group, None)
        self._settle(device for device, _ in leafs)

    def give_up(self, group: Group, devices: int, number: int) -> None:
        """Give up the devices of this place; the group goes on. Call it inside `changing_hands`."""
        _ = group.places  # filled in from the devices while the group still has them
        mine = group.physical[devices][number]
        theirs = [None] * len(mine) if group.virtual is None else group.virtual[devices][number]
        self._leave([(device, virtual) for device, virtual in zip(mine, theirs, strict=True) if device is not None])
        self.place(group, devices, number, [None] * len(mine), [None] * len(mine))
        self._note(group, "given_up")
        group.given_up |= {(devices, number)}
        if not any(device.reserver for device, _ in group.leafs()):
            self._set_state(group, GroupState.ALLOCATED)

    def place(
        self,
        group: Group,
        devices: int,
        number: int,
        physical: list[PhysicalCell | None],
        virtual: list[VirtualCell | None],
    ) -> None:
        """These are the devices of one of the group's places, as far as it holds them."""
        group.touch()
        self.journal.element(group.physical[devices], number)
        group.physical[devices][number] = physical
        if group.virtual is not None:
            self.journal.element(group.virtual[devices], number)
            group.virtual[devices][number] = virtual

    def _leave(self, leafs: Iterable[tuple[PhysicalCell, VirtualCell | None]]) -> None:
        """Free devices whose user is gone: they go to the group that reserved them, if there is one."""
        for device, virtual in leafs:
            device.set_user(None)
            if device.reserver is not None:
                device.set_state(CellState.RESERVED)
            else:
                self.let_go(device, virtual)
                device.set_state(CellState.FREE)


def _touch(cell: PhysicalCell) -> None:
    """Update the order of machines after a change of health."""
    for each in (cell, cell.virtual):
        if each is not None and each.listed is not None:
            each.listed.touch(each)


def _virtual_nodes(full: VirtualLevels, chain: Chain) -> NodeList:
    return NodeList(schedulable_nodes(full, chain.machine_level), packs_across_priorities=True)
