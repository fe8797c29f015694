"""Cells: the two forests that HiveD keeps consistent.

A *physical* cell is a piece of hardware (a device, a socket, a machine, a rack); a *virtual* cell is a piece of a
tenant's quota, of the same shape. A virtual cell is *bound* to a physical one of its chain and level while it stands
for a particular piece of hardware. The ancestors of a bound cell are bound too.

These values are updated incrementally, for both kinds: a cell's priority is the highest of its children; `used[p]` is
the number of leafs below it that pods of priority p hold; a cell is healthy if everything below it is. Cells are
compared by identity. Methods note in the journal how to undo what they do, see `journal.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, Protocol, Self, TypedDict, Unpack

from algorithm.hived.cells.journal import Journal

#: The priority of a cell that no pod holds.
FREE = -2
#: The use of a cell that no pod holds.
_NOTHING: Mapping[int, int] = {}


class Holder(Protocol):
    """Uses or reserves devices: a group (`state/groups.py`, whose `user_of` and `reserver_of` return it as one)."""

    name: str
    tenant: str


class Listing(Protocol):
    """Keeps cells in an order that depends on their use and health (`nodelist.py`)."""

    def touch(self, cell: Cell) -> None:
        """Something changed that decides the position of the cell."""


class CellState(StrEnum):
    """Of a physical leaf; other cells derive theirs from their children, see `derived_state`.

    Free ----> Used <----> Reserving ----> Reserved ----> Free
      |         ^   (a preemptor waits     |   ^
      +---------|--- for its user to go)   |   |
      |         +--------------------------+   |
      +----------------------------------------+
    """

    FREE = "Free"
    USED = "Used"
    RESERVING = "Reserving"
    RESERVED = "Reserved"


class _Place(TypedDict):
    """What every cell is made with: its place in the forest. See `Cell`."""

    chain: str
    level: int
    type_: str
    address: str
    leafs: int
    machine_or_above: bool
    journal: Journal


class Cell:
    """What both kinds have in common.

    `leafs` is how many devices it has, `machine_or_above` whether it is no less than a node.
    """

    __slots__ = (
        "address",
        "chain",
        "children",
        "journal",
        "leafs",
        "level",
        "listed",
        "machine_or_above",
        "parent",
        "priority",
        "top",
        "type",
        "used",
        "used_total",
        "version",
    )

    def __init__(
        self,
        *,
        chain: str,
        level: int,
        type_: str,
        address: str,
        leafs: int,
        machine_or_above: bool,
        journal: Journal,
    ) -> None:
        self.chain, self.level, self.type, self.address = chain, level, type_, address
        self.journal = journal
        self.leafs, self.machine_or_above = leafs, machine_or_above
        self.parent: Cell | None = None
        self.children: tuple[Cell, ...] = ()
        #: The root of its tree, whose version grows with every change in the tree.
        self.top: Cell = self
        self.version = 0
        self.priority = FREE
        #: Replaced by every change, never changed in place: copies of the hive share it.
        self.used: Mapping[int, int] = _NOTHING
        self.used_total = 0
        #: The list of schedulable nodes in which this cell stands, if it is one of those.
        self.listed: Listing | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}>"

    def take(self, priority: int) -> None:
        """A leaf is held with this priority from now on. It was free."""
        if self.journal.recording:
            self.journal.note(self.give_back)
        self.top.version += 1
        cell: Cell | None = self
        while cell is not None:
            if cell.used:
                cell.used = {**cell.used, priority: cell.used.get(priority, 0) + 1}
            else:
                cell.used = _one(priority)
            cell.used_total += 1
            if cell.priority < priority:
                cell.priority = priority
            if cell.listed is not None:
                cell.listed.touch(cell)
            cell = cell.parent

    def give_back(self) -> None:
        """A leaf is free again."""
        if self.journal.recording:
            self.journal.note(self.take, self.priority)
        self.top.version += 1
        priority = self.priority
        cell: Cell | None = self
        while cell is not None:
            left = {**cell.used, priority: cell.used[priority] - 1}
            if not left[priority]:
                del left[priority]
            cell.used = left or _NOTHING
            cell.used_total -= 1
            cell.priority = max(left, default=FREE)
            if cell.listed is not None:
                cell.listed.touch(cell)
            cell = cell.parent

    def free_for(self, priority: int) -> int:
        """How many leafs a pod of this priority could have here, those of lower priorities included."""
        return self.leafs - sum(number for held, number in self.used.items() if held >= priority)

    def _copy_to(self, twin: Self, twins: Mapping[Cell, Any], journal: Journal) -> None:
        """Make `twin` a copy. References to cells become references to their twins; `listed` is left to the caller."""
        twin.address = self.address
        twin.chain = self.chain
        twin.journal = journal
        twin.leafs = self.leafs
        twin.level = self.level
        twin.machine_or_above = self.machine_or_above
        twin.priority = self.priority
        twin.type = self.type
        twin.used_total = self.used_total
        twin.version = self.version
        twin.used = self.used
        twin.top = twins[self.top]
        twin.parent = None if self.parent is None else twins[self.parent]
        twin.children = tuple([twins[child] for child in self.children]) if self.children else ()
        twin.listed = None

    def walk(self) -> Iterator[Cell]:
        """This cell and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


class PhysicalCell(Cell):
    """Hardware. `nodes` are the machines it spans or is part of, `indices` its devices (below or at a machine).

    `bad_leafs` counts its bad devices.
    """

    __slots__ = (
        "bad_leafs",
        "group",
        "healthy",
        "indices",
        "nodes",
        "pinned",
        "reserver",
        "split",
        "state",
        "tenant",
        "virtual",
    )

    parent: PhysicalCell | None
    children: tuple[PhysicalCell, ...]

    def __init__(self, **place: Unpack[_Place]) -> None:
        super().__init__(**place)
        self.nodes: tuple[str, ...] = ()
        self.indices: tuple[int, ...] = ()
        self.healthy = True
        self.bad_leafs = 0
        self.state = CellState.FREE
        self.virtual: VirtualCell | None = None
        #: The group that uses the device, and the one that has reserved it.
        self.group: Holder | None = None
        self.reserver: Holder | None = None
        #: The tenant that uses the device opportunistically.
        self.tenant = ""
        #: Whether parts of it are allocated one by one.
        self.split = False
        self.pinned = False

    def copy_to(self, twin: PhysicalCell, twins: Mapping[Cell, Any], journal: Journal) -> None:
        """Make `twin` a copy; `listed`, `group` and `reserver` are left to the caller."""
        self._copy_to(twin, twins, journal)
        twin.nodes = self.nodes
        twin.indices = self.indices
        twin.healthy = self.healthy
        twin.bad_leafs = self.bad_leafs
        twin.state = self.state
        twin.virtual = None if self.virtual is None else twins[self.virtual]
        twin.group = twin.reserver = None
        twin.tenant = self.tenant
        twin.split = self.split
        twin.pinned = self.pinned

    def set_state(self, state: CellState) -> None:
        """A leaf changes its state, and its ancestors with it."""
        if self.journal.recording:
            self.journal.note(self.set_state, self.state)
        self.state = state
        self.shown_anew()
        cell = self.parent
        while cell is not None:
            derived = derived_state(cell.children)
            if derived is cell.state:
                return
            cell.state = derived
            cell.shown_anew()
            cell = cell.parent

    def set_tenant(self, tenant: str) -> None:
        """A leaf is used opportunistically by the tenant, or is not any more (`""`)."""
        if self.journal.recording:
            self.journal.attribute(self, "tenant")
        self.tenant = tenant
        here: PhysicalCell | None = self
        while here is not None:
            if here.virtual is not None:
                here.virtual.top.version += 1
                return
            here = here.parent

    def set_user(self, user: Holder | None) -> None:
        """A leaf is used by this group."""
        if self.journal.recording:
            self.journal.attribute(self, "group")
        self.group = user

    def set_reserver(self, reserver: Holder | None) -> None:
        """A leaf is reserved by this group."""
        if self.journal.recording:
            self.journal.attribute(self, "reserver")
        self.reserver = reserver

    def set_split(self, *, split: bool) -> None:
        """Its parts are allocated one by one from now on, or not any more."""
        if self.journal.recording:
            self.journal.attribute(self, "split")
        self.split = split

    def shown_anew(self) -> None:
        """State or health changed: that of the virtual cell did, too."""
        self.top.version += 1
        if self.virtual is not None:
            self.virtual.top.version += 1


class VirtualCell(Cell):
    """Quota of a tenant."""

    __slots__ = ("physical", "pinned_id", "tenant")

    parent: VirtualCell | None
    children: tuple[VirtualCell, ...]
    top: VirtualCell

    def __init__(self, *, tenant: str, pinned_id: str, **place: Unpack[_Place]) -> None:
        super().__init__(**place)
        self.tenant, self.pinned_id = tenant, pinned_id
        self.physical: PhysicalCell | None = None

    def copy_to(self, twin: VirtualCell, twins: Mapping[Cell, Any], journal: Journal) -> None:
        """Make `twin` a copy; `listed` is left to the caller."""
        self._copy_to(twin, twins, journal)
        twin.tenant, twin.pinned_id = self.tenant, self.pinned_id
        twin.physical = None if self.physical is None else twins[self.physical]

    @property
    def healthy(self) -> bool:
        """That of the hardware; as long as it is none in particular, nothing bad can be said of it."""
        return self.physical is None or self.physical.healthy

    @property
    def bad_leafs(self) -> int:
        return 0 if self.physical is None else self.physical.bad_leafs

    @property
    def state(self) -> CellState:
        return CellState.FREE if self.physical is None else self.physical.state

    @property
    def root(self) -> VirtualCell:
        """The preassigned cell that the tenant was promised, of which this is a part (or all)."""
        return self.top

    @property
    def is_preassigned(self) -> bool:
        return self.top is self


@cache
def _one(priority: int) -> Mapping[int, int]:
    """The use of a device; there are many."""
    return {priority: 1}


def derived_state(children: Iterable[PhysicalCell]) -> CellState:
    """The children's state if they agree; otherwise Used if a group runs there, else Free."""
    states = {child.state for child in children}
    if len(states) == 1:
        return states.pop()
    return CellState.USED if states & {CellState.USED, CellState.RESERVING} else CellState.FREE


def pair(physical: PhysicalCell, virtual: VirtualCell) -> None:
    """This virtual cell is that piece of hardware, ancestors not considered."""
    physical.journal.note(unpair, physical)
    physical.virtual, virtual.physical = virtual, physical
    physical.top.version += 1
    virtual.top.version += 1
    if virtual.listed is not None:
        virtual.listed.touch(virtual)


def unpair(physical: PhysicalCell) -> VirtualCell:
    """The reverse. The physical cell must be bound."""
    virtual = physical.virtual
    assert virtual is not None, physical
    physical.journal.note(pair, physical, virtual)
    physical.virtual, virtual.physical = None, None
    physical.top.version += 1
    virtual.top.version += 1
    if virtual.listed is not None:
        virtual.listed.touch(virtual)
    return virtual


def bind_upwards(physical: PhysicalCell, virtual: VirtualCell) -> None:
    """Binds the two and their ancestors, up to the first that are bound already."""
    here: PhysicalCell | None = physical
    there: VirtualCell | None = virtual
    while there is not None and there.physical is None:
        assert here is not None
        pair(here, there)
        here, there = here.parent, there.parent


def unbind_upwards(physical: PhysicalCell) -> None:
    """Unbinds the cell, and each ancestor below which nothing else is bound; a pinned one stays."""
    cell = physical
    while not cell.pinned:
        virtual = unpair(cell)
        above = virtual.parent
        if above is None or any(child.physical is not None for child in above.children):
            return
        assert above.physical is not None
        cell = above.physical
