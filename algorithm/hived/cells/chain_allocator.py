"""The accounts of one chain: which hardware is free, how much of it is owed, and which promises bad hardware breaks.

These accounts protect tenants from each other. *Free* hardware belongs to no preassigned cell. It is listed at the
highest level at which it is whole (buddy allocation: take a whole cell, or split the next larger one; a returned cell
merges with its buddies). For each level, `total_left` counts the cells that are free or part of a free cell, and
`all_vc_free_cells` counts the cells that tenants may still request: those that are owed to them. The accounts are safe
if all owed cells could be handed out at once: at every level, `total_left` is no less than what is owed of that level
and, as parts of larger cells, of the higher ones.

If hardware is bad, more may be owed than is healthy. Then a tenant's cell is *doomed*: it is bound to bad hardware at
once, so that the tenant's own scheduler sees that it is not available. This is undone as soon as enough hardware is
healthy again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from algorithm.hived.cells.celllist import CellList
from algorithm.hived.cells.cells import PhysicalCell, VirtualCell, pair, unpair
from algorithm.hived.cells.chains import Chain, Tenant

_Lists = dict[int, CellList[PhysicalCell]]
_Counts = dict[int, int]


class Order(NamedTuple):
    """How cells are listed: the free ones, and those that are bad and free. It never changes."""

    free: _Lists
    bad_free: _Lists


class ChainAllocator:
    """See the module's text. All counters are by level."""

    def __init__(self, chain: Chain, tenants: Iterable[Tenant], *, weighs_damage: bool = False) -> None:
        self.chain = chain
        self._weighs_damage = weighs_damage
        self._journal = chain.journal
        levels = range(1, chain.top + 1)
        self.free: _Lists = {level: CellList(journal=chain.journal) for level in levels}
        self.free[chain.top].extend(chain.full[chain.top])
        self.total_left = {level: len(chain.full[level]) for level in levels}
        self.bad_free: _Lists = {level: CellList(journal=chain.journal) for level in levels}
        self.all_vc_free_cells = dict.fromkeys(levels, 0)
        self.vc_free_cells: dict[str, dict[int, int]] = {}
        self.doomed: dict[str, _Lists] = {}
        self._paused = False
        self._preassigned: dict[str, dict[int, list[VirtualCell]]] = {}
        for tenant in tenants:
            if chain.name in tenant.quota:
                self._enter(tenant)

    def _enter(self, tenant: Tenant) -> None:
        quota = tenant.quota[self.chain.name]
        self.vc_free_cells[tenant.name] = {level: quota.get(level, 0) for level in self.all_vc_free_cells}
        self.doomed[tenant.name] = {level: CellList(journal=self._journal) for level in self.all_vc_free_cells}
        self._preassigned[tenant.name] = tenant.preassigned.get(
            self.chain.name, {level: [] for level in self.all_vc_free_cells}
        )
        for level, number in quota.items():
            self.all_vc_free_cells[level] += number

    def healthy_free(self, level: int) -> int:
        return self.total_left[level] - len(self.bad_free[level])

    def is_doomed(self, cell: PhysicalCell, tenant: str) -> bool:
        return cell in self.doomed[tenant][cell.level]

    # -- preassigned cells ------------------------------------------------------------------------------------

    def allocate(self, cell: PhysicalCell, tenant: str, *, doomed: bool = False, shows: bool = True) -> bool:
        """The tenant's preassigned cell, already bound to `cell`, leaves the free hardware. False: safety is broken.

        Without `shows`, the caller has to call `show_bad` afterwards, which binds the bad parts of the cell.
        """
        level = cell.level
        self._add_vc_free_cells(tenant, level, -1)
        self._count(level, -1)
        highest = self._take_out(cell)
        above = cell.parent
        for higher in range(level + 1, highest + 1):
            assert above is not None
            self._count(higher, -1)
            if above.healthy:
                self._doom(higher)
            else:
                self.bad_free[higher].remove(above)
            above = above.parent
        if cell.healthy:
            self._doom(level)
        else:
            self._unlist_bad(cell)
            if shows:
                self.show_bad(cell)
            if not doomed:
                self._undoom(level)
        self._below(cell, -1, doomed=doomed)
        return self.is_safe()

    def is_safe(self) -> bool:
        """Whether all that is owed could be handed out at once."""
        return all(
            left >= reserved(self.chain, self.all_vc_free_cells, level) for level, left in self.total_left.items()
        )

    def release(self, cell: PhysicalCell, tenant: str, *, doomed: bool = False) -> None:
        """The reverse of `allocate`: the cell is free, and merges with its buddies."""
        level = cell.level
        self._add_vc_free_cells(tenant, level, 1)
        self._count(level, 1)
        highest = self._put_back(cell)
        above = cell.parent
        for higher in range(level + 1, highest + 1):
            assert above is not None
            self._count(higher, 1)
            if above.healthy:
                self._undoom(higher)
            else:
                self.bad_free[higher].append(above)
            above = above.parent
        if cell.healthy:
            self._undoom(level)
        else:
            self._release_bad(cell)
            if not doomed:
                self._doom(level)
        self._below(cell, 1, doomed=doomed)

    def _add_vc_free_cells(self, tenant: str, level: int, number: int) -> None:
        for counts in (self.vc_free_cells[tenant], self.all_vc_free_cells):
            if self._journal.recording:
                self._journal.entry(counts, level)
            counts[level] += number

    def _count(self, level: int, number: int) -> None:
        """So many more cells are free or part of something free."""
        if self._journal.recording:
            self._journal.entry(self.total_left, level)
        self.total_left[level] += number

    def _below(self, cell: PhysicalCell, sign: int, *, doomed: bool) -> None:
        """Count the smaller cells inside the cell, which are allocated or released with it."""
        number = 1
        for level in range(cell.level - 1, 0, -1):
            number *= self.chain.levels[level + 1].fanout
            self._count(level, sign * number)
            if not doomed and sign < 0:
                self._doom(level)
            elif not doomed:
                self._undoom(level)

    # -- the free lists ---------------------------------------------------------------------------------------

    def _take_out(self, cell: PhysicalCell) -> int:
        """Take it out of the free lists; a larger free cell is split. Return the highest level that was changed."""
        while True:
            above = cell.parent
            whole = above is not None and not above.split
            if above is not None and whole:
                self.free[cell.level].extend(above.children)
                above.set_split(split=True)
            self.free[cell.level].remove(cell)
            if above is None or not whole:
                return cell.level
            cell = above

    def _put_back(self, cell: PhysicalCell) -> int:
        """List it as free, merged with its buddies if all are free. Return the level at which it is listed."""
        while True:
            above, free = cell.parent, self.free[cell.level]
            if above is None or any(buddy is not cell and buddy not in free for buddy in above.children):
                free.append(cell)
                return cell.level
            for buddy in above.children:
                if buddy is not cell:
                    free.remove(buddy)
            above.set_split(split=False)
            cell = above

    def is_free(self, cell: PhysicalCell) -> bool:
        """Whether it is free: listed as such, or part of a free cell."""
        here: PhysicalCell | None = cell
        while here is not None:
            if here.virtual is not None or here.split:
                return False
            if here.parent is None or here.parent.split:
                return True
            here = here.parent
        return False

    # -- bad hardware -----------------------------------------------------------------------------------------

    def _unlist_bad(self, cell: PhysicalCell) -> None:
        """It and its bad parts are no longer free, so they are no longer listed as bad and free."""
        self.bad_free[cell.level].remove(cell)
        for child in cell.children:
            if not child.healthy:
                self._unlist_bad(child)

    def show_bad(self, cell: PhysicalCell) -> None:
        """Bind each bad part of the cell to a virtual part, so that the tenant's scheduler sees it."""
        for child in cell.children:
            if not child.healthy:
                if child.virtual is None:
                    self._show(child)
                self.show_bad(child)

    def _release_bad(self, cell: PhysicalCell) -> None:
        self.bad_free[cell.level].append(cell)
        if cell.virtual is not None:
            unpair(cell)
        for child in cell.children:
            if not child.healthy:
                self._release_bad(child)

    def _show(self, cell: PhysicalCell) -> None:
        """Bind a bad part to the first virtual part that is not bound yet."""
        assert cell.parent is not None
        above = cell.parent.virtual
        assert above is not None
        pair(cell, next(each for each in above.children if each.physical is None))

    def turned_bad(self, cell: PhysicalCell) -> None:
        """The cell is marked bad, and so are its ancestors."""
        if self.is_free(cell):
            self.bad_free[cell.level].append(cell)
            self._doom(cell.level)
        elif cell.virtual is None and not cell.split:
            self._show(cell)

    def turned_healthy(self, cell: PhysicalCell) -> None:
        """The cell is marked healthy; its ancestors follow."""
        if self.is_free(cell):
            self.bad_free[cell.level].remove(cell)
            self._undoom(cell.level)
        elif _in_use(cell):
            self._unlist(cell)
        elif cell.virtual is not None and not cell.pinned and cell.priority < 0:
            # It was bound only so that the tenant sees that it is bad.
            virtual = unpair(cell)
            if virtual.is_preassigned:
                self.doomed[virtual.tenant][cell.level].remove(cell)
                self.release(cell, virtual.tenant, doomed=True)

    def _unlist(self, cell: PhysicalCell) -> None:
        """A doomed cell that is in use turned healthy: from now on it is an ordinary allocated cell."""
        virtual = cell.virtual
        if virtual is not None and virtual.is_preassigned and self.is_doomed(cell, virtual.tenant):
            self.doomed[virtual.tenant][cell.level].remove(cell)

    def _doom(self, level: int) -> None:
        """Bind bad hardware to tenants that cannot get healthy hardware in any case."""
        if self._paused or self.all_vc_free_cells[level] <= self.healthy_free(level):
            return
        for tenant, vc_free_cells in self.vc_free_cells.items():
            while vc_free_cells[level] > self.healthy_free(level):
                cell = self._to_doom(level)
                if cell is None:
                    # A changed configuration has broken a promise.
                    break
                virtual = next(each for each in self._preassigned[tenant][level] if each.physical is None)
                pair(cell, virtual)
                self.doomed[tenant][level].append(cell)
                self.allocate(cell, tenant, doomed=True)

    def _to_doom(self, level: int) -> PhysicalCell | None:
        """The first bad cell that can be spared; where machines may be bad in part, the one with fewest bad devices."""
        spare = (cell for cell in self.bad_free[level] if self.can_be_spared(cell))
        return min(spare, key=lambda cell: cell.bad_leafs, default=None) if self._weighs_damage else next(spare, None)

    def can_be_spared(self, cell: PhysicalCell) -> bool:
        """Whether the larger cells that would have to be split for it are owed to no tenant."""
        above = cell.parent
        while above is not None and not above.split:
            if self.total_left[above.level] <= reserved(self.chain, self.all_vc_free_cells, above.level):
                return False
            above = above.parent
        return True

    def _undoom(self, level: int) -> None:
        """Release doomed cells as far as there is healthy hardware again. Cells in use stay."""
        if self._paused:
            return
        for tenant, doomed in self.doomed.items():
            while self.vc_free_cells[tenant][level] < self.healthy_free(level):
                cell = next((each for each in doomed[level] if not _in_use(each)), None)
                if cell is None:
                    break
                self.undoom(cell)

    def undoom(self, cell: PhysicalCell) -> None:
        """Free a doomed cell that is not in use, although it is bad."""
        tenant = unpair(cell).tenant
        self.doomed[tenant][cell.level].remove(cell)
        self.release(cell, tenant, doomed=True)

    def undoom_all(self) -> None:
        """Free all doomed cells that are not in use; `settle` dooms the necessary ones again."""
        for cell in [cell for levels in self.doomed.values() for cells in levels.values() for cell in cells]:
            if not _in_use(cell):
                self.undoom(cell)

    def health_changed(self) -> None:
        """Choose doomed cells anew, where machines may be bad in part and so one choice is better than another."""
        with self.paused():
            if self._weighs_damage:
                self.undoom_all()

    def can_be_undoomed(self, cell: PhysicalCell) -> bool:
        virtual = cell.virtual
        return (
            virtual is not None
            and virtual.is_preassigned
            and cell in self.doomed[virtual.tenant][cell.level]
            and not _in_use(cell)
        )

    def order(self) -> Order:
        """The order of the free lists, which decides between equal cells."""
        return Order(_copied(self.free), _copied(self.bad_free))

    def restore(self, order: Order) -> None:
        """Restore that order in each list that has the same cells as then."""
        for now, then in zip((self.free, self.bad_free), order, strict=True):
            for level, cells in then.items():
                if set(now[level]) == set(cells):
                    self._journal.entry(now, level)
                    now[level] = cells.copy(journal=self._journal)

    @contextmanager
    def paused(self, *, settles: bool = True) -> Iterator[None]:
        """Doom and release nothing within the block, and settle at its end.

        Without `settles`, all changes made within the block must be undone at its end.
        """
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before
        if settles and not before:
            self.settle()

    def settle(self) -> None:
        """Release doomed cells where possible, and doom cells where necessary, at every level.

        It goes from the top down, because doomed cells of a level reduce the free healthy hardware below. It repeats
        if anything changed, because released cells may have merged into a larger one.
        """
        for _ in self.all_vc_free_cells:
            before = self._number_doomed()
            for level in reversed(self.all_vc_free_cells):
                self._undoom(level)
                self._doom(level)
            if self._number_doomed() == before:
                return

    def _number_doomed(self) -> list[int]:
        return [len(cells) for levels in self.doomed.values() for cells in levels.values()]


def reserved(chain: Chain, vc_free_cells: Mapping[int, int], level: int) -> int:
    """The number of cells of the level that are owed, as such or as parts of larger cells."""
    number = 0
    for higher in range(chain.top, level, -1):
        number = (number + vc_free_cells[higher]) * chain.levels[higher].fanout
    return number + vc_free_cells[level]


def _copied(lists: _Lists) -> _Lists:
    return {level: cells.copy() for level, cells in lists.items()}


def _in_use(cell: PhysicalCell) -> bool:
    """Whether a guaranteed pod runs there."""
    return cell.virtual is not None and cell.virtual.priority >= 0
