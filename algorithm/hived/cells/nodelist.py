"""The machines on which a gang can be placed, kept in the order in which they are tried.

The order is: healthy machines first, then offered ones, then the most used. Equal machines keep their previous order,
as in the original, which sorts the same list in place at every request. Here the list is a row of buckets. A machine
that has moved since the last request is put before or behind those that were in its new bucket already, as a stable
sort would do. So the cost of a request depends on what has changed, and full machines are skipped a bucket at a time.

Within a bucket, machines with the same use (the number of devices by priority) are also listed together. Whether a pod
that may preempt has room on them is then checked once for all of them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge

from algorithm.hived.cells.cells import Cell, PhysicalCell, VirtualCell
from algorithm.hived.cells.request import Offered
from algorithm.hived.formats.podspec import OPPORTUNISTIC

#: Sort key: damage, whether it is not offered, use (negative), use by higher priorities. Smaller ones are tried first.
_Key = tuple[int, bool, int, int]
#: Some devices of a machine are bad, or all.
_SOME, _ALL = 1, 2

#: Devices, and how many of them are used by each priority.
_Use = tuple[int, frozenset[tuple[int, int]]]
#: Machines of a bucket that are used alike, by rank.
_Alike = dict[_Use, list[tuple[int, Cell]]]
_Cells = dict[Cell, None]
#: Buckets and their order; key, rank and use of each machine; those that changed, those that were not offered; those
#: that are used alike.
_Remembered = tuple[
    dict[_Key, OrderedDict[Cell, None]],
    list[_Key],
    dict[Cell, _Key],
    dict[Cell, int],
    dict[Cell, _Use],
    _Cells,
    _Cells,
    dict[_Key, _Alike],
]
#: The same for `taken` and `refill`: buckets as lists, and nothing of the machines that are used alike.
Taken = tuple[
    bool,
    bool,
    dict[_Key, list[Cell]],
    list[_Key],
    tuple[dict[Cell, _Key], dict[Cell, int], dict[Cell, _Use]],
    tuple[_Cells, _Cells],
]


class NodeList:
    """Cells that are machines, or parts of one that a tenant was promised by themselves."""

    __slots__ = (
        "_alike",
        "_buckets",
        "_changed",
        "_key_of",
        "_keys",
        "_packs",
        "_rank",
        "_unoffered",
        "_use_of",
        "uniform",
    )

    def __init__(self, cells: list[PhysicalCell] | list[VirtualCell], *, packs_across_priorities: bool) -> None:
        self._packs = packs_across_priorities
        #: Whether all have the same number of devices: then those of a bucket have the same number free.
        self.uniform = len({cell.leafs for cell in cells}) <= 1
        self._buckets: dict[_Key, OrderedDict[Cell, None]] = {}
        self._keys: list[_Key] = []
        self._key_of: dict[Cell, _Key] = {}
        self._changed: dict[Cell, None] = {}
        self._unoffered: dict[Cell, None] = {}
        #: Within a bucket, order is that of the OrderedDict; ranks compare machines across and within buckets.
        self._rank: dict[Cell, int] = {}
        self._use_of: dict[Cell, _Use] = {}
        self._alike: dict[_Key, _Alike] = {}
        for cell in cells:
            cell.listed = self
            self._put(cell, self._key(cell, offered=True), last=True)

    def touch(self, cell: Cell) -> None:
        """The use or the health of the cell has changed: `arrange` moves it."""
        self._changed[cell] = None

    def remembered(self) -> _Remembered:
        """A copy of the order and of the pending changes, for `put_back`."""
        buckets = {key: bucket.copy() for key, bucket in self._buckets.items()}
        alike = {key: {use: cells.copy() for use, cells in of_bucket.items()} for key, of_bucket in self._alike.items()}
        of_each = (self._key_of.copy(), self._rank.copy(), self._use_of.copy())
        return buckets, self._keys.copy(), *of_each, self._changed.copy(), self._unoffered.copy(), alike

    def put_back(self, remembered: _Remembered) -> None:
        """Restore a copy that `remembered` made. Each copy can be restored only once."""
        self._buckets, self._keys, self._key_of, self._rank, self._use_of = remembered[:5]
        self._changed, self._unoffered, self._alike = remembered[5:]

    def taken(self) -> Taken:
        """A copy of what `refill` makes the list of: of everything but what it can derive."""
        return (
            self._packs,
            self.uniform,
            {key: list(bucket) for key, bucket in self._buckets.items()},
            self._keys.copy(),
            (self._key_of.copy(), self._rank.copy(), self._use_of.copy()),
            (self._changed.copy(), self._unoffered.copy()),
        )

    def refill(self, taken: Taken, twins: Mapping[Cell, Cell]) -> None:
        """Make an empty list, which may not even be initialised, a copy of another one. It has the twins of cells."""
        self._packs, self.uniform, buckets, self._keys, of_each, pending = taken
        keys, ranks, uses = of_each
        self._buckets, self._alike = {}, {}
        for key, cells in buckets.items():
            copies = list(map(twins.__getitem__, cells))
            self._buckets[key] = OrderedDict.fromkeys(copies)
            alike: _Alike = self._alike.setdefault(key, {})
            for cell, twin in zip(cells, copies, strict=True):
                alike.setdefault(uses[cell], []).append((ranks[cell], twin))
        self._key_of = dict(zip(map(twins.__getitem__, keys), keys.values(), strict=True))
        self._rank = dict(zip(map(twins.__getitem__, ranks), ranks.values(), strict=True))
        self._use_of = dict(zip(map(twins.__getitem__, uses), uses.values(), strict=True))
        self._changed, self._unoffered = (dict.fromkeys(map(twins.__getitem__, cells)) for cells in pending)

    def _key(self, cell: Cell, *, offered: bool) -> _Key:
        damage = _damage(cell)
        if self._packs:
            return (damage, not offered, -cell.used_total, 0)
        same = cell.used.get(OPPORTUNISTIC, 0)
        return (damage, not offered, -same, cell.used_total - same)

    # -- sorting ----------------------------------------------------------------------------------------------

    def arrange(self, offered: Offered) -> None:
        """Sorts for a request. `offered` decides which machines come first, unless the request ignores it."""
        unoffered = self._missing(offered)
        stale = dict.fromkeys([*self._changed, *self._unoffered, *unoffered])
        self._changed, self._unoffered = {}, unoffered
        moved = []
        for cell in stale:
            old, new = self._key_of[cell], self._key(cell, offered=cell not in unoffered)
            if old != new:
                moved.append((old, self._rank[cell], new, cell))
            elif _use(cell) != self._use_of[cell]:
                self._forget_use(cell)
                self._note_use(cell)
        if not moved:
            return
        moved.sort(key=lambda each: each[:2])
        for old, _, _, cell in moved:
            self._forget_use(cell)
            del self._buckets[old][cell]
        # A stable sort: those that come from earlier buckets stand before, those from later ones behind.
        for old, _, new, cell in reversed(moved):
            if old < new:
                self._put(cell, new, last=False)
        for old, _, new, cell in moved:
            if old > new:
                self._put(cell, new, last=True)

    def _put(self, cell: Cell, key: _Key, *, last: bool) -> None:
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = OrderedDict()
            insort(self._keys, key)
        self._key_of[cell] = key
        if not bucket:
            self._rank[cell] = 0
        elif last:
            self._rank[cell] = self._rank[next(reversed(bucket))] + 1
        else:
            self._rank[cell] = self._rank[next(iter(bucket))] - 1
        bucket[cell] = None
        if not last:
            bucket.move_to_end(cell, last=False)
        self._note_use(cell)

    def _note_use(self, cell: Cell) -> None:
        use = self._use_of[cell] = _use(cell)
        insort(self._alike.setdefault(self._key_of[cell], {}).setdefault(use, []), (self._rank[cell], cell), key=_rank)

    def _forget_use(self, cell: Cell) -> None:
        of_bucket = self._alike[self._key_of[cell]]
        use = self._use_of.pop(cell)
        alike = of_bucket[use]
        del alike[bisect_left(alike, self._rank[cell], key=_rank)]
        if not alike:
            del of_bucket[use]

    def _missing(self, offered: Offered) -> dict[Cell, None]:
        """The machines that are not offered. An unbound virtual machine counts as offered."""
        if offered.ignored:
            return {}
        return {cell: None for cell in self._key_of if not _is_offered(cell, offered)}

    def is_too_small(self, pods: int, devices: int) -> bool:
        """Whether so many pods with so many devices each could not even be placed if nothing else ran.

        Says so only if no machine is bad or unoffered: those give another reason. Counts as arranged the last time.
        """
        if not self.uniform or not self._key_of:
            return not self._key_of
        if any(self._buckets[key] for key in self._keys if key[0] or key[1]):
            return False
        each = next(iter(self._key_of)).leafs
        return len(self._key_of) * (each // devices) < pods

    # -- reading ----------------------------------------------------------------------------------------------

    def candidates(self, priority: int, least: int) -> Iterator[tuple[Cell, int, bool, bool]]:
        """In order: machine, devices free for this priority (`least` or more), whether healthy, whether offered.

        Machines with less than `least` free are left out; nothing is ever placed on them, and as pods are placed in
        ascending order, nothing later is either. Of machines with bad and healthy devices, the healthy ones count.
        """
        for key in self._keys:
            bucket = self._buckets[key]
            if not bucket:
                continue
            bad, unoffered = key[0] == _ALL, key[1]
            if key[0] == _SOME:
                yield from ((cell, free, True, not unoffered) for cell, free in _undamaged(bucket, priority, least))
                continue
            if priority == OPPORTUNISTIC and self.uniform:
                first = next(iter(bucket))
                free = first.leafs - first.used_total
                if free >= least:
                    for cell in bucket:
                        yield cell, free, not bad, not unoffered
                continue
            yield from ((cell, free, not bad, not unoffered) for _, cell, free in self._with_room(key, priority, least))

    def _with_room(self, key: _Key, priority: int, least: int) -> Iterator[tuple[int, Cell, int]]:
        """Rank, machine and free devices of the bucket's machines that have `least` or more free, in order."""
        rows = []
        for (leafs, used), alike in self._alike[key].items():
            free = leafs - sum(number for held, number in used if held >= priority)
            if free >= least:
                rows.append(_with(alike, free))
        return rows[0] if len(rows) == 1 else merge(*rows, key=_rank)

    def with_bad_devices(self, priority: int, least: int) -> Cell | None:
        """A machine that would have `least` devices for this priority if none of them were bad."""
        return next(
            (
                cell
                for key in self._keys
                if key[0] == _SOME
                for cell in self._buckets[key]
                if cell.free_for(priority) >= least
            ),
            None,
        )


def usable(cell: Cell, priority: int) -> int:
    """How many healthy devices a pod of this priority could have here, those of lower priorities included."""
    if cell.healthy:  # type: ignore[attr-defined]
        return cell.free_for(priority)
    leafs = (leaf for leaf in cell.walk() if leaf.level == 1)
    return sum(leaf.healthy and leaf.priority < priority for leaf in leafs)  # type: ignore[attr-defined]


def _use(cell: Cell) -> _Use:
    return cell.leafs, frozenset(cell.used.items())


def _rank(listed: tuple[int, Cell] | tuple[int, Cell, int]) -> int:
    return listed[0]


def _with(alike: list[tuple[int, Cell]], free: int) -> Iterator[tuple[int, Cell, int]]:
    return ((rank, cell, free) for rank, cell in alike)


def _undamaged(cells: Iterable[Cell], priority: int, least: int) -> Iterator[tuple[Cell, int]]:
    return ((cell, free) for cell in cells if (free := usable(cell, priority)) >= least)


def _damage(cell: Cell) -> int:
    if cell.healthy:  # type: ignore[attr-defined]
        return 0
    return _SOME if 0 < cell.bad_leafs < cell.leafs else _ALL  # type: ignore[attr-defined]


def _is_offered(cell: Cell, offered: Offered) -> bool:
    physical = cell if isinstance(cell, PhysicalCell) else cell.physical  # type: ignore[attr-defined]
    return physical is None or physical.nodes[0] in offered


def schedulable_nodes(
    full: dict[int, list[VirtualCell]] | dict[int, list[PhysicalCell]], machine_level: int
) -> list[VirtualCell] | list[PhysicalCell]:
    """Machines first, then level by level the smaller cells that have no parent."""
    found = list(full.get(machine_level, ()))
    for level in range(machine_level - 1, 0, -1):
        found += [cell for cell in full.get(level, ()) if cell.parent is None]
    return found  # type: ignore[return-value]
