"""Nodes for many equal pods at once: exactly those that one call of `Cluster.best` after the other would find.

The cost of a call of `best` grows with the index, and so does that of updating the index for each seat. Here the index
is read once, in order, and updated once for each node, at the end: a seat costs a few steps in a heap.

That works because taking seats only takes room away. A node that does not fit now fits no later pod of the same kind,
and the nodes that no seat was taken on stay in the order in which the index has them. So the next best node is the
first of the untouched ones of some bucket, or one that was taken from; a heap holds one of each bucket and all of the
latter. To pack, a node stays the best one as long as it fits: it is filled in one step.

The order by cpu and the one by memory (`FreeIndex.scarcer`) can change places while seats are taken, so there may be
two heaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush

from algorithm.model import CPU, MEMORY, fits
from algorithm.packing.demand import Demand, pods_that_fit
from algorithm.packing.index import Allowed, FreeIndex, FreeOf, Preference, Shape, SortKey, shape_of

#: Preference of the bucket and place in it, seats taken on the node by then, number of the source: the least is best.
_Item = tuple[Preference, SortKey, int, int]
_Source = Iterator[tuple[Preference, SortKey]]


class BulkSearch:
    """Seats for pods of one demand, of which each takes it on its node. `names`: look at these known nodes only."""

    def __init__(
        self, index: FreeIndex, demand: Demand, allowed: Allowed, free_of: FreeOf, names: list[str] | None
    ) -> None:
        self._index = index
        self._demand = demand
        self._allowed = allowed
        self._free_of = free_of
        self._names = names
        self._least = dict(demand)
        self._preferences: dict[Shape, Preference | None] = {}
        #: By node: what is left of its room, and how many seats were taken on it.
        self._left: dict[str, dict[str, int]] = {}
        self.taken: dict[str, int] = {}
        self._frontiers: dict[str, tuple[list[_Item], list[_Source]]] = {}
        self._enough = self._count_enough()

    def seats(self, number: int) -> list[str]:
        """The nodes of so many pods, one after the other; fewer if there is no room for more."""
        found: list[str] = []
        while len(found) < number:
            item = self._pop(CPU if self._enough[CPU] <= self._enough[MEMORY] else MEMORY)
            if item is None:
                break
            name = item[1][-1]
            times = self._take(name, 1 if self._index.spreads else number - len(found))
            found += [name] * times
        return found

    def _take(self, name: str, most: int) -> int:
        left = self._left.get(name)
        if left is None:
            left = self._left[name] = dict(self._free_of(name))
        times = min(most, pods_that_fit(left, self._demand))
        for resource, amount in self._demand:
            left[resource] -= times * amount
        self.taken[name] = self.taken.get(name, 0) + times
        preference = self._preference(left)
        for lead in (CPU, MEMORY):
            self._enough[lead] -= not self._counts(left, lead, preference)
        if fits(self._demand, left):
            assert preference is not None, "a node that fits is in a bucket that fits"
            sort_keys = self._index.sort_keys(name, left)
            for lead, (heap, _) in self._frontiers.items():
                heappush(heap, (preference, sort_keys[lead == MEMORY], self.taken[name], -1))
        return times

    def _pop(self, lead: str) -> _Item | None:
        """The best node in the order of `lead`."""
        frontier = self._frontiers.get(lead)
        if frontier is None:
            frontier = self._frontiers[lead] = self._frontier(lead)
        heap, sources = frontier
        while heap:
            item = heappop(heap)
            _, sort_key, taken, source = item
            if source >= 0:
                self._advance(heap, sources, source)
            if self.taken.get(sort_key[-1], 0) == taken:
                return item
        return None

    def _frontier(self, lead: str) -> tuple[list[_Item], list[_Source]]:
        heap: list[_Item] = []
        sources = self._few(lead) if self._names is not None else self._in_buckets(lead)
        touched = [
            (preference, self._index.sort_keys(name, left)[lead == MEMORY], self.taken[name], -1)
            for name, left in self._left.items()
            if fits(self._demand, left) and (preference := self._preference(left)) is not None
        ]
        for source in range(len(sources)):
            self._advance(heap, sources, source)
        heap += touched
        heapify(heap)
        return heap, sources

    @staticmethod
    def _advance(heap: list[_Item], sources: list[_Source], source: int) -> None:
        found = next(sources[source], None)
        if found is not None:
            heappush(heap, (*found, 0, source))

    def _in_buckets(self, lead: str) -> list[_Source]:
        buckets = self._index.fitting(self._demand)
        return [self._in_order(self._index.in_order(b, lead, self._least.get(lead, 0)), b.shape) for _, b in buckets]

    def _in_order(self, sort_keys: Iterator[SortKey], shape: Shape) -> _Source:
        preference = self._of_shape(shape)
        assert preference is not None, "the bucket fits"
        for sort_key in sort_keys:
            name = sort_key[-1]
            if name not in self._left and self._allowed(name) and fits(self._demand, self._free_of(name)):
                yield preference, sort_key

    def _few(self, lead: str) -> list[_Source]:
        """One source for each node: they are in no order."""
        found = []
        for name in self._names or ():
            free = self._free_of(name)
            preference = self._preference(free)
            if name not in self._left and preference is not None and fits(self._demand, free):
                found.append(iter([(preference, self._index.sort_keys(name, free)[lead == MEMORY])]))
        return found

    def _preference(self, free: Mapping[str, int]) -> Preference | None:
        """That of the bucket; None if the demand does not go into it."""
        return self._of_shape(shape_of(free))

    def _of_shape(self, shape: Shape) -> Preference | None:
        if shape not in self._preferences:
            self._preferences[shape] = self._index.preference(shape, self._demand)
        return self._preferences[shape]

    def _count_enough(self) -> dict[str, int]:
        """How many nodes have enough of cpu, and of memory, as `FreeIndex` counts them."""
        if self._names is not None:
            frees = [self._free_of(name) for name in self._names]
            return {lead: sum(self._counts(free, lead, ()) for free in frees) for lead in (CPU, MEMORY)}
        return dict(zip((CPU, MEMORY), self._index.enough(self._index.fitting(self._demand), self._least), strict=True))

    def _counts(self, free: Mapping[str, int], lead: str, preference: Preference | None) -> bool:
        least = self._least.get(lead, 0)
        if self._names is not None:
            return free.get(lead, 0) >= least
        return preference is not None and (not least or free.get(lead, 0) >= least)
