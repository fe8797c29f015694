"""Finds the best node for a demand without looking at all of them.

Nodes are in buckets by their free extended resources; a cluster has few such combinations. A bucket lists them in order
of free cpu and, a second time, of free memory. A search goes through the buckets from the one that wastes least, skips
by bisection the nodes without enough cpu (or memory, if fewer nodes have enough of that), and takes the first node that
fits and is allowed.

    pack     smallest bucket, least free first          spread     largest bucket, most free first
             (GPU nodes stay whole, and are left alone by pods that ask for none)

Ties go to the smaller node name. The index knows free amounts only; `nodes.py` knows the pods that take the rest.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, Protocol, Self

from algorithm.interface import SuggestedNodes
from algorithm.model import CPU, MEMORY, PODS, fits
from algorithm.packing.demand import Demand, extended_of
from algorithm.tables import Followers, Table

#: Up to here every amount of an extended resource has a bucket of its own; above, one per power of two.
_EXACT = 32
#: Up to so many offered nodes, looking at each of them is cheapest.
_FEW_NODES = 16

FreeOf = Callable[[str], Mapping[str, int]]
#: Leading amount, the other amount, pods, node name: all negated to spread, so that the first fitting one is best.
SortKey = tuple[int, int, int, str]
#: What is free of extended resources, rounded up above _EXACT, sorted by name.
Shape = tuple[tuple[str, int], ...]
Preference = tuple[Any, ...]
_first_of_pair = itemgetter(0)


class Allowed(Protocol):
    """Whether a known node may be used. `few` has all allowed nodes, if looking at each is cheapest; else None.

    `check` is the same question for many nodes: it may take a while to make, and then answers without calls in Python.
    """

    @property
    def few(self) -> tuple[str, ...] | None: ...

    @property
    def check(self) -> Callable[[str], bool]: ...

    def __call__(self, name: str) -> bool: ...


class OfferedNodes:
    """The nodes that kube-scheduler offered for one pod."""

    __slots__ = ("few", "nodes")

    def __init__(self, nodes: SuggestedNodes) -> None:
        self.nodes = nodes
        self.few = nodes[:] if len(nodes) <= _FEW_NODES else None

    @property
    def check(self) -> Callable[[str], bool]:
        return self.nodes.as_set().__contains__

    def __call__(self, name: str) -> bool:
        return name in self.nodes


class Bucket:
    """The nodes of one shape, in order of free cpu and in order of free memory."""

    __slots__ = ("by_cpu", "by_memory", "most", "shape")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.most = dict(shape)
        self.by_cpu: list[SortKey] = []
        self.by_memory: list[SortKey] = []

    def copy(self) -> Bucket:
        twin = Bucket(self.shape)
        twin.by_cpu = self.by_cpu.copy()
        twin.by_memory = self.by_memory.copy()
        return twin


class FreeIndex:
    """Nodes by their free amounts. `spread` reverses the order."""

    def __init__(self, *, spread: bool) -> None:
        self._sign = -1 if spread else 1
        self._buckets: dict[Shape, Bucket] = {}
        #: The bucket of each node, and its places in both orders there.
        self._places: Table[str, tuple[Shape, SortKey, SortKey]] = Table()

    def tables(self) -> tuple[Table[Any, Any], ...]:
        """All that may be large, but for the orders, which are copied in no time."""
        return (self._places,)

    def taken(self, followers: Followers) -> Self:
        """An independent copy."""
        twin = type(self)(spread=self._sign < 0)
        twin._buckets = {shape: bucket.copy() for shape, bucket in self._buckets.items()}
        twin._places = followers.taken(self._places)
        return twin

    def add(self, name: str, free: Mapping[str, int]) -> None:
        """Add a node that is not here."""
        shape = shape_of(free)
        bucket = self._buckets.get(shape)
        if bucket is None:
            bucket = self._buckets[shape] = Bucket(shape)
        by_cpu, by_memory = self.sort_keys(name, free)
        insort(bucket.by_cpu, by_cpu)
        insort(bucket.by_memory, by_memory)
        self._places[name] = shape, by_cpu, by_memory

    def remove(self, name: str) -> None:
        """Remove a node that is here."""
        shape, by_cpu, by_memory = self._places.pop(name)
        bucket = self._buckets[shape]
        del bucket.by_cpu[bisect_left(bucket.by_cpu, by_cpu)]
        del bucket.by_memory[bisect_left(bucket.by_memory, by_memory)]
        if not bucket.by_cpu:
            del self._buckets[shape]

    def contents(self) -> dict[str, set[SortKey]]:
        """Everything that is indexed, for validation: sort keys by node name."""
        found: dict[str, set[SortKey]] = {}
        for bucket in self._buckets.values():
            for sort_key in (*bucket.by_cpu, *bucket.by_memory):
                found.setdefault(sort_key[-1], set()).add(sort_key)
        assert found == {name: set(sort_keys) for name, (_, *sort_keys) in self._places.items()}, "places differ"
        return found

    def expected(self, name: str, free: Mapping[str, int]) -> set[SortKey]:
        """The sort keys that `contents` must have for this node."""
        return set(self.sort_keys(name, free))

    def best(self, demand: Demand, allowed: Allowed, free_of: FreeOf) -> str | None:
        """The first allowed node, in order of preference, that has room for `demand`."""
        buckets = self.fitting(demand)
        if not buckets:
            return None
        amounts = dict(demand)
        lead = self._scarcer(buckets, amounts)
        least = amounts.get(lead, 0)
        for _, alike in groupby(buckets, key=_first_of_pair):
            firsts = [self._first(bucket, lead, least, demand, allowed, free_of) for _, bucket in alike]
            found = [sort_key for sort_key in firsts if sort_key is not None]
            if found:
                return min(found)[-1]
        return None

    def best_of(self, names: Iterable[str], demand: Demand, free_of: FreeOf) -> str | None:
        """The best of a few given nodes; None if it fits on none. Looks at each; a node that is not here is no node."""
        amounts, sign = dict(demand), self._sign
        least_cpu, least_memory = amounts.get(CPU, 0), amounts.get(MEMORY, 0)
        cpu = memory = 0
        roomy = []
        for name in names:
            place = self._places.get(name)
            if place is None:
                continue
            enough_cpu, enough_memory = sign * place[1][0] >= least_cpu, sign * place[2][0] >= least_memory
            cpu += enough_cpu
            memory += enough_memory
            # Nothing is missing of an amount of 0, and an over-committed node has less.
            if (enough_cpu or not least_cpu) and (enough_memory or not least_memory) and fits(demand, free_of(name)):
                roomy.append(place)
        if len(roomy) < 2:
            return roomy[0][1][-1] if roomy else None
        extended = extended_of(demand)
        preferences = {shape: self._preference(self._buckets[shape], extended) for shape in {each[0] for each in roomy}}
        ranked = [(preferences[shape], by_memory if cpu > memory else by_cpu) for shape, by_cpu, by_memory in roomy]
        return min(ranked)[1][-1]

    def roomy(self, demand: Demand) -> Iterator[str]:
        """Nodes that may have room for `demand`, in arbitrary order. All other nodes have none."""
        buckets = self.fitting(demand)
        amounts = dict(demand)
        lead = self._scarcer(buckets, amounts)
        for _, bucket in buckets:
            for sort_key in self.in_order(bucket, lead, amounts.get(lead, 0)):
                yield sort_key[-1]

    @property
    def spreads(self) -> bool:
        return self._sign < 0

    def sort_keys(self, name: str, free: Mapping[str, int]) -> tuple[SortKey, SortKey]:
        """The node's places in the orders by cpu and by memory."""
        sign = self._sign
        cpu, memory, pods = sign * free.get(CPU, 0), sign * free.get(MEMORY, 0), sign * free.get(PODS, 0)
        return (cpu, memory, pods, name), (memory, cpu, pods, name)

    def fitting(self, demand: Demand) -> list[tuple[Preference, Bucket]]:
        """The buckets with enough of extended resources, with their preferences, the preferred one first."""
        extended = extended_of(demand)
        buckets = [
            (self._preference(bucket, extended), bucket)
            for bucket in self._buckets.values()
            if fits(extended, bucket.most)
        ]
        buckets.sort(key=_first_of_pair)
        return buckets

    def _preference(self, bucket: Bucket, extended: Demand) -> Preference:
        asked = tuple([self._sign * bucket.most[name] for name, _ in extended])
        if self._sign < 0:
            return asked
        return (len(bucket.most) - len(asked), asked, bucket.shape)

    def preference(self, shape: Shape, demand: Demand) -> Preference | None:
        """The preference of a bucket of this shape, the least is best; None if it lacks extended resources."""
        bucket, extended = Bucket(shape), extended_of(demand)
        return self._preference(bucket, extended) if fits(extended, bucket.most) else None

    def _scarcer(self, buckets: list[tuple[Preference, Bucket]], amounts: Mapping[str, int]) -> str:
        """cpu or memory, whichever fewer nodes have enough of: the search is shorter, and that one is packed tight."""
        cpu, memory = self.enough(buckets, amounts)
        return CPU if cpu <= memory else MEMORY

    def enough(self, buckets: list[tuple[Preference, Bucket]], amounts: Mapping[str, int]) -> tuple[int, int]:
        """How many nodes in these buckets have enough cpu, and how many have enough memory."""
        cpu = memory = 0
        for _, bucket in buckets:
            cpu += len(self._range(bucket.by_cpu, amounts.get(CPU, 0)))
            memory += len(self._range(bucket.by_memory, amounts.get(MEMORY, 0)))
        return cpu, memory

    def in_order(self, bucket: Bucket, lead: str, least: int) -> Iterator[SortKey]:
        """The nodes of a bucket with at least `least` free of `lead`, in order; the index must not change meanwhile."""
        sort_keys = bucket.by_cpu if lead == CPU else bucket.by_memory
        return map(sort_keys.__getitem__, self._range(sort_keys, least))

    def _range(self, sort_keys: list[SortKey], least: int) -> range:
        """Positions of the sort keys with at least `least` free of the leading resource."""
        if not least:  # an over-committed node also meets a demand of 0
            return range(len(sort_keys))
        if self._sign > 0:
            return range(bisect_left(sort_keys, (least,)), len(sort_keys))
        return range(bisect_left(sort_keys, (1 - least,)))

    def _first(
        self,
        bucket: Bucket,
        lead: str,
        least: int,
        demand: Demand,
        allowed: Allowed,
        free_of: FreeOf,
    ) -> SortKey | None:
        for sort_key in _usable(self.in_order(bucket, lead, least), allowed):
            if fits(demand, free_of(sort_key[-1])):
                return sort_key
        return None


def _usable(sort_keys: Iterator[SortKey], allowed: Allowed) -> Iterator[SortKey]:
    """The sort keys of allowed nodes. kube-scheduler offers all nodes, or a sample: then hundreds come before the first
    allowed one."""
    for sort_key in islice(sort_keys, _FEW_NODES):
        if allowed(sort_key[-1]):
            yield sort_key
    check = None
    for sort_key in sort_keys:
        check = check or allowed.check
        if check(sort_key[-1]):
            yield sort_key


def shape_of(free: Mapping[str, int]) -> Shape:
    """The shape of the bucket of a node with these free amounts."""
    return tuple(
        sorted(
            [
                (name, amount if amount < _EXACT else (1 << amount.bit_length()) - 1)
                for name, amount in free.items()
                if amount > 0 and "/" in name
            ]
        )
    )
