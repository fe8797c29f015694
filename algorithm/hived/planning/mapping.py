"""From a tenant's plan to hardware: which physical cell each virtual device becomes.

Virtual cells that are hardware already stay it. For the others, whole trees are mapped: trees under an unbound
preassigned cell by buddy allocation from the free hardware, trees under a bound cell onto the children of its
hardware. Nothing is changed here: the free lists are copied as far as they are touched. The journal would be slower:
the search takes cells out and puts them back far more often than it touches a new list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from algorithm.hived.cells.celllist import CellList
from algorithm.hived.cells.cells import PhysicalCell, VirtualCell
from algorithm.hived.cells.chain_allocator import ChainAllocator, reserved
from algorithm.hived.cells.request import Offered
from algorithm.hived.formats.podspec import OPPORTUNISTIC

#: The hardware of each virtual device.
Mapped = dict[VirtualCell, PhysicalCell]


@dataclass(slots=True)
class Tree:
    """An unbound virtual cell that the plan needs, and those of its children that it needs."""

    cell: VirtualCell
    children: list[Tree] = field(default_factory=list)


class _Free:
    """A working copy of a chain's free lists; a level is copied when it is first touched."""

    def __init__(self, allocator: ChainAllocator) -> None:
        self._allocator = allocator
        self._own: dict[int, CellList[PhysicalCell]] = {}

    def at(self, level: int) -> CellList[PhysicalCell]:
        own = self._own.get(level)
        return self._allocator.free[level] if own is None else own

    def own(self, level: int) -> CellList[PhysicalCell]:
        if level not in self._own:
            self._own[level] = self._allocator.free[level].copy()
        return self._own[level]


def map_plan(
    leafs: Sequence[VirtualCell], allocator: ChainAllocator, offered: Offered, *, sparing: bool
) -> Mapped | None:
    """The hardware for the devices of a plan; None if it would need what is bad or not offered.

    `allocator` is that of the chain. All devices are of one chain and tenant. `sparing` keeps healthy cells whole where
    it can; otherwise that is tried only where the original's way, which does not look ahead, comes to nothing.
    """
    any_bad = any(allocator.bad_free.values())
    if not (sparing and any_bad):
        mapper = _Mapper(allocator, offered)
        mapped = _run(mapper, leafs)
        if mapped is not None or not (any_bad or mapper.relaxed):
            return mapped
    return _run(_Sparing(allocator, offered), leafs)


def _run(mapper: _Mapper, leafs: Sequence[VirtualCell]) -> Mapped | None:
    mapped: Mapped = {}
    roots, below = _trees(leafs, mapped)
    return mapper.run(roots, below, mapped)


def _trees(leafs: Iterable[VirtualCell], mapped: Mapped) -> tuple[list[Tree], dict[VirtualCell, list[Tree]]]:
    """What has to be mapped: trees of whole preassigned cells, and trees by the bound cell they hang below."""
    trees: dict[VirtualCell, Tree] = {}
    roots: list[Tree] = []
    below: dict[VirtualCell, list[Tree]] = {}
    for leaf in leafs:
        if leaf.physical is not None:
            mapped[leaf] = leaf.physical
            continue
        cell: VirtualCell | None = leaf
        lower: Tree | None = None
        while cell is not None and cell.physical is None and cell not in trees:
            tree = trees[cell] = Tree(cell, [] if lower is None else [lower])
            cell, lower = cell.parent, tree
        if lower is None:
            continue
        if cell is None:
            roots.append(lower)
        elif cell.physical is None:
            trees[cell].children.append(lower)
        else:
            below.setdefault(cell, []).append(lower)
    return roots, below


class _Mapper:
    def __init__(self, allocator: ChainAllocator, offered: Offered) -> None:
        self._allocator, self._offered = allocator, offered
        self._top = allocator.chain.top
        self._vc_free_cells = dict(allocator.all_vc_free_cells)
        self._free = _Free(allocator)
        #: Whether larger cells were split although there are free ones of the wanted size.
        self.relaxed = False

    def run(self, roots: list[Tree], below: dict[VirtualCell, list[Tree]], mapped: Mapped) -> Mapped | None:
        for root in roots:
            if not self._allocate(root, mapped):
                return None
        for bound, trees in below.items():
            assert bound.physical is not None
            if self._map(trees, bound.physical.children, mapped) is None:
                return None
        return None if self.relaxed and not self._keeps_promises(roots, mapped) else mapped

    def _keeps_promises(self, roots: list[Tree], mapped: Mapped) -> bool:
        """Whether all that is owed then could still be handed out; the original does not look."""
        chain, left = self._allocator.chain, dict(self._allocator.total_left)
        vc_free_cells = dict(self._allocator.all_vc_free_cells)
        split: set[PhysicalCell] = set()
        for root in roots:
            cell = _hardware(root, mapped)
            vc_free_cells[cell.level] -= 1
            number = 1
            for level in range(cell.level, 0, -1):
                left[level] -= number
                number *= chain.levels[level].fanout
            above = cell.parent
            while above is not None and not above.split and above not in split:
                split.add(above)
                left[above.level] -= 1
                above = above.parent
        return all(left[level] >= reserved(chain, vc_free_cells, level) for level in vc_free_cells)

    # -- buddy allocation -------------------------------------------------------------------------------------

    def _allocate(self, root: Tree, mapped: Mapped) -> bool:
        wanted = root.cell.level
        start = next((level for level in range(wanted, self._top + 1) if self._free.at(level)), None)
        if start is None:
            return False
        if self._split(root, start, mapped):
            self._vc_free_cells[wanted] -= 1
            return True
        return self._relax(root, mapped)

    def _split(self, root: Tree, level: int, mapped: Mapped) -> bool:
        """Takes a free cell of the level, or a part of one."""
        if level == root.cell.level:
            picked = self._map([root], self._free.at(level), mapped)
            if picked is not None:
                self._free.own(level).remove(picked[0])
            return picked is not None
        for cell in self._usable(self._free.at(level), 1):
            self._free.own(level - 1).extend(cell.children)
            if self._split(root, level - 1, mapped):
                self._free.own(level).remove(cell)
                return True
            self._free.own(level - 1).clear()
        return False

    def _relax(self, root: Tree, mapped: Mapped) -> bool:
        """Split larger cells, if no tenant is owed them, although there is a free cell that cannot be used."""
        wanted = root.cell.level
        spare = self._spare(wanted)
        for level in range(wanted + 1, self._top + 1):
            free = self._free.own(level)
            taken: list[PhysicalCell] = []
            for _ in range(min(len(free), spare[level])):
                taken.append(free[0])
                free.remove(free[0])
            if not taken:
                continue
            parts = taken
            for _ in range(level - wanted):
                parts = [child for cell in parts for child in cell.children]
            here = self._free.own(wanted)
            here.prepend(parts)
            picked = self._map([root], here, mapped)
            if picked is not None:
                here.remove(picked[0])
                self.relaxed = True
                return True
        return False

    def _spare(self, wanted: int) -> dict[int, int]:
        """How many free cells of each higher level may be split without breaking a promise."""
        spare: dict[int, int] = {}
        above = 0
        for level in range(self._top, wanted, -1):
            fanout = self._allocator.chain.levels[level + 1].fanout if level < self._top else 0
            above = len(self._free.at(level)) - self._vc_free_cells[level] + above * fanout
            spare[level] = max(0, above)
        return spare

    # -- one level --------------------------------------------------------------------------------------------

    def _usable(self, cells: Iterable[PhysicalCell], needed: int) -> list[PhysicalCell]:
        """What may be taken, least used by opportunistic pods first; nothing if there is less than is needed."""
        found = [cell for cell in cells if cell.virtual is None and self._can_be_used(cell)]
        if len(found) < needed:
            return []
        found.sort(key=_borrowed)
        return found

    def _can_be_used(self, cell: PhysicalCell) -> bool:
        if len(cell.nodes) == 1 and not cell.healthy:
            return False
        return self._offered.ignored or any(node in self._offered for node in cell.nodes)

    def _map(self, trees: Sequence[Tree], cells: Iterable[PhysicalCell], mapped: Mapped) -> list[PhysicalCell] | None:
        """A cell for each tree, backtracking over the trees of this level; what was picked, in order of the trees."""
        unborrowed = self._first_unborrowed(trees[0], cells, mapped) if len(trees) == 1 else None
        if unborrowed is not None:
            return [unborrowed]
        candidates = self._usable(cells, len(trees))
        if not candidates:
            return None
        picked: list[int] = []
        following = 0
        while True:
            index = next(
                (
                    index
                    for index in range(following, len(candidates))
                    if index not in picked and self._fits(trees[len(picked)], candidates[index], mapped)
                ),
                None,
            )
            if index is not None:
                picked.append(index)
                following = 0
                if len(picked) == len(trees):
                    return [candidates[each] for each in picked]
            elif not picked:
                return None
            else:
                following = picked.pop() + 1

    def _first_unborrowed(self, tree: Tree, cells: Iterable[PhysicalCell], mapped: Mapped) -> PhysicalCell | None:
        """What would come first among all that may be taken, without looking at all of them."""
        for cell in cells:
            free = _borrowed(cell) == 0 and cell.virtual is None and self._can_be_used(cell)
            if free and self._fits(tree, cell, mapped):
                return cell
        return None

    def _fits(self, tree: Tree, cell: PhysicalCell, mapped: Mapped) -> bool:
        if not tree.children:
            mapped[tree.cell] = cell
            return True
        return self._map(tree.children, cell.children, mapped) is not None


class _Sparing(_Mapper):
    """Takes what costs the others no healthy cell: parts of cells that are partly bad, then of healthy spare ones.

    If there is enough healthy hardware for all that is owed at once, this finds it, and there is enough afterwards.
    """

    def __init__(self, allocator: ChainAllocator, offered: Offered) -> None:
        super().__init__(allocator, offered)
        self._healthy = {level: allocator.healthy_free(level) for level in allocator.all_vc_free_cells}

    def _allocate(self, root: Tree, mapped: Mapped) -> bool:
        for healthy, hurting in ((True, False), (False, False), (False, True)):
            for cell in self._sources(root.cell.level):
                parts = [part for part in _parts(cell, root.cell.level) if part.healthy or not healthy]
                if not hurting:
                    parts = [part for part in parts if not self._hurts(part, cell)]
                picked = self._map([root], parts, mapped)
                if picked is not None:
                    self._take(picked[0], cell)
                    return True
        return False

    def _sources(self, wanted: int) -> Iterator[PhysicalCell]:
        """Free cells of the level, then larger ones that may be split without breaking a promise."""
        spare = self._spare(wanted)
        for level in range(wanted, self._top + 1):
            if level > wanted and not spare[level]:
                # What is larger cannot be split down to the wanted size without splitting a cell of this level.
                return
            yield from sorted(self._free.at(level), key=_borrowed)

    def _hurts(self, part: PhysicalCell, source: PhysicalCell) -> bool:
        """Whether taking it splits a healthy cell of which no more are free than are owed."""
        cell = part
        while cell is not source:
            assert cell.parent is not None
            cell = cell.parent
            if cell.healthy and self._healthy[cell.level] <= reserved(
                self._allocator.chain, self._vc_free_cells, cell.level
            ):
                return True
        return False

    def _take(self, part: PhysicalCell, source: PhysicalCell) -> None:
        self._free.own(source.level).remove(source)
        self._vc_free_cells[part.level] -= 1
        for cell in part.walk():
            assert isinstance(cell, PhysicalCell)
            self._healthy[cell.level] -= cell.healthy
        cell = part
        while cell is not source:
            assert cell.parent is not None
            self._free.own(cell.level).extend(buddy for buddy in cell.parent.children if buddy is not cell)
            cell = cell.parent
            self._healthy[cell.level] -= cell.healthy


def _hardware(tree: Tree, mapped: Mapped) -> PhysicalCell:
    """What the tree's own cell is mapped to."""
    leaf = tree
    while leaf.children:
        leaf = leaf.children[0]
    hardware = mapped[leaf.cell]
    while hardware.level < tree.cell.level:
        assert hardware.parent is not None
        hardware = hardware.parent
    return hardware


def _parts(cell: PhysicalCell, level: int) -> list[PhysicalCell]:
    parts = [cell]
    while parts[0].level > level:
        parts = [child for part in parts for child in part.children]
    return parts


def _borrowed(cell: PhysicalCell) -> int:
    return cell.used.get(OPPORTUNISTIC, 0)
