"""What every node has, which pods take it, and which holds there are: updated with every call.

    free = allocatable - (requests of the pods on the node) - (what is held there for pods to come)

`free` may be negative without harm: the node shrank, another scheduler over-committed it, or a preemptor's seat is held
while its victims still run. In the last case this is intended: a held seat counts in full from the start, so no other
pod gets the room that the victims leave.

Pods and holds may name a node that is not known (yet, or any more). They are kept under its name and count as soon as
it appears. Only known nodes are in the index.

Of the resources that pods and holds take, only those count that the node has: no other can ever be free there. So the
cost of looking at a node does not depend on what other pods request.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

from algorithm.model import PODS, Node, Pod
from algorithm.packing.bulk import BulkSearch
from algorithm.packing.demand import Demand, demand_of
from algorithm.packing.index import Allowed, FreeIndex
from algorithm.tables import Followers, Table

_NOTHING: Mapping[str, int] = {}
#: The most changes that are remembered. A reader that is further behind looks at every node again.
_JOURNAL = 4096


@dataclass(frozen=True, slots=True)
class Hold:
    """Room on `node` kept for the pod `uid`; `holder` names the pod or its gang for people."""

    uid: str
    node: str
    demand: Demand
    priority: int
    holder: str
    #: A seat of a gang's plan, for which no pod was evicted.
    planned: bool = False


class NodeRoom:
    """One node name: the node, if it is known, and all that counts on it."""

    __slots__ = ("allocatable", "free", "held", "holds", "name", "node", "pods", "taken")

    def __init__(self, name: str) -> None:
        self.name = name
        self.node: Node | None = None
        self.allocatable: dict[str, int] = {}
        self.free: dict[str, int] = {}
        self.pods: dict[str, Pod] = {}
        self.holds: dict[str, Hold] = {}
        #: The amounts that pods take, by their priority, and the held amounts.
        self.taken: dict[int, dict[str, int]] = {}
        self.held: dict[str, int] = {}

    @property
    def lowest(self) -> int | None:
        """The lowest priority among the pods; None without pods."""
        return min(self.taken, default=None)

    @property
    def schedulable(self) -> bool:
        """Whether the node is known, ready and not cordoned, and so may be used even if it was not offered."""
        return self.node is not None and self.node.takes_pods

    @property
    def empty(self) -> bool:
        return self.node is None and not self.pods and not self.holds

    def could_fit(self, demand: Demand, below: int) -> bool:
        """Whether there can be room once all pods of a priority below `below` are gone. False is certain."""
        for name, amount in demand:
            missing = amount - self.free.get(name, 0)
            if missing > 0 and missing > self._taken_below(name, below):
                return False
        return True

    def pods_that_fit(self, demand: Demand, below: int | None = None) -> int:
        """How many pods of this demand fit once all pods of a priority below `below` are gone."""
        fewest: int | None = None
        free = self.free
        for name, amount in demand:
            room = free.get(name, 0) if below is None else free.get(name, 0) + self._taken_below(name, below)
            if room < amount:
                return 0
            number = room // amount
            if fewest is None or number < fewest:
                fewest = number
        return fewest or 0

    def _taken_below(self, name: str, below: int) -> int:
        found = 0
        for priority, taken in self.taken.items():  # a generator would take twice as long, and this is asked often
            if priority < below:
                found += taken.get(name, 0)
        return found

    def counted(self, demand: Demand) -> Demand:
        """The part of the demand that counts here. `pods` always counts, so that `taken` has every priority."""
        return tuple([part for part in demand if part[0] in self.allocatable or part[0] == PODS])

    def used(self) -> dict[str, int]:
        return _sum(self.taken.values())

    def derive(self) -> None:
        """Compute `taken`, `held` and `free` from the records alone."""
        self.taken, self.held, self.free = {}, {}, dict(self.allocatable)
        for pod in self.pods.values():
            self.take(pod, 1)
        for hold in self.holds.values():
            self.keep(hold, 1)

    def take(self, pod: Pod, sign: int) -> Demand:
        """The pod takes room (`sign` 1) or frees it (-1). Returns the demand that counts."""
        demand = self.counted(demand_of(pod.requests))
        taken = self.taken.setdefault(pod.priority, {})
        _add(taken, demand, sign)
        if not taken:
            del self.taken[pod.priority]
        self.shift(demand, -sign)
        return demand

    def keep(self, hold: Hold, sign: int) -> Demand:
        """The hold takes room (`sign` 1) or frees it (-1). Returns the demand that counts."""
        demand = self.counted(hold.demand)
        _add(self.held, demand, sign)
        self.shift(demand, -sign)
        return demand

    def shift(self, demand: Demand, sign: int) -> None:
        """Change `free` only."""
        free = self.free
        for name, amount in demand:
            if name in free:
                free[name] += sign * amount

    def fits_instead(self, demand: Demand, hold: Hold) -> bool:
        """Whether there is room for `demand` once this hold, which is here, is released."""
        free, released = self.free, dict(hold.demand)
        for name, amount in demand:
            if free.get(name, 0) + (released.get(name, 0) if name in free else 0) < amount:
                return False
        return True

    def copy(self) -> NodeRoom:
        twin = NodeRoom(self.name)
        twin.node = self.node
        twin.taken = {priority: taken.copy() for priority, taken in self.taken.items()}
        twin.held = self.held.copy()
        twin.allocatable = self.allocatable
        twin.free = self.free.copy()
        twin.pods, twin.holds = self.pods.copy(), self.holds.copy()
        return twin


class Schedulable:
    """Allows every node that is known, ready and not cordoned: gang mates may use it even if it was not offered."""

    few = None

    def __init__(self, rooms: Mapping[str, NodeRoom]) -> None:
        self._rooms = rooms

    @property
    def check(self) -> Callable[[str], bool]:
        return self.__call__

    def __call__(self, name: str) -> bool:
        return self._rooms[name].schedulable


class Cluster:
    """All nodes. Every change keeps `free`, the index and the order by priority consistent."""

    def __init__(self, *, spread: bool) -> None:
        self.spread = spread
        self.rooms: Table[str, NodeRoom] = Table()
        self.index = FreeIndex(spread=spread)
        #: (lowest priority on the node, node name) of every known node with pods, sorted.
        self.by_priority: list[tuple[int, str]] = []
        #: The number of changes so far. Trials do not count, because they are undone.
        self.generation = 0
        #: The number of times that a name was added or dropped.
        self.names_changed = 0
        #: The names of the nodes that changed last, the newest change at the end.
        self._journal: list[str] = []
        #: In a batch, the nodes that were taken out of the index and are not back yet.
        self._aside: dict[str, NodeRoom] | None = None
        #: The nodes that have changed since a copy in pieces began (`copying.py`); None: there is none.
        self.watch: set[str] | None = None
        #: Sums over the known nodes: allocatable, and the amounts that pods and holds take, as far as they count.
        self.allocatable: dict[str, int] = {}
        self.used: dict[str, int] = {}
        self.held: dict[str, int] = {}

    def tables(self) -> tuple[Table[Any, Any], ...]:
        """All that may be large."""
        return self.rooms, *self.index.tables()

    def taken(self, followers: Followers) -> Self:
        """A copy that still refers to the rooms of this one."""
        twin = type(self)(spread=self.spread)
        twin.rooms = followers.taken(self.rooms)
        twin.index = self.index.taken(followers)
        twin.by_priority = self.by_priority.copy()
        twin.allocatable, twin.used, twin.held = self.allocatable.copy(), self.used.copy(), self.held.copy()
        return twin

    # -- nodes ------------------------------------------------------------------------------------------------

    def put_node(self, node: Node) -> None:
        """Add or update a node. An update of fields that do not count here (a heartbeat) changes nothing."""
        known = self.known(node.name)
        if known is not None and known.node is not None and _counts(known.node) == _counts(node):
            known.node = node
            self._note(node.name)
            return
        amounts = dict(node.allocatable)  # before anything changes: what raises changes nothing
        self._set_node(self._room(node.name), node, amounts)

    def drop_node(self, name: str) -> None:
        """Remove the node; its pods and holds stay under its name."""
        self._set_node(self._room(name), None, {})

    def _set_node(self, room: NodeRoom, node: Node | None, allocatable: dict[str, int]) -> None:
        self._out(room)
        self._count(room, -1)
        room.node = node
        room.allocatable = allocatable
        room.derive()
        self._count(room, 1)
        self._in(room)

    def _count(self, room: NodeRoom, sign: int) -> None:
        _add(self.allocatable, room.allocatable.items(), sign)
        _add(self.used, room.used().items(), sign)
        _add(self.held, room.held.items(), sign)

    def known(self, name: str) -> NodeRoom | None:
        room = self.rooms.get(name)
        return room if room is not None and room.node is not None else None

    # -- pods and holds ---------------------------------------------------------------------------------------

    def place(self, pod: Pod) -> None:
        """The pod takes room on its node."""
        room = self._room(pod.node_name)
        self._out(room)
        room.pods[pod.uid] = pod
        _add(self.used, room.take(pod, 1), 1)
        self._in(room)

    def displace(self, pod: Pod) -> None:
        """The pod, with the record that was placed, frees its room."""
        room = self._room(pod.node_name)
        self._out(room)
        del room.pods[pod.uid]
        _add(self.used, room.take(pod, -1), -1)
        self._in(room)

    def replace(self, pod: Pod) -> None:
        """Replace the record of a placed pod that takes the same as before."""
        self.rooms[pod.node_name].pods[pod.uid] = pod
        self._note(pod.node_name)

    def hold(self, hold: Hold) -> None:
        room = self._room(hold.node)
        self._out(room)
        room.holds[hold.uid] = hold
        _add(self.held, room.keep(hold, 1), 1)
        self._in(room)

    def unhold(self, hold: Hold) -> None:
        room = self._room(hold.node)
        self._out(room)
        del room.holds[hold.uid]
        _add(self.held, room.keep(hold, -1), -1)
        self._in(room)

    @contextmanager
    def batch(self) -> Iterator[None]:
        """For several changes: the index is updated once for each node, at the end. Do not read it before."""
        if self._aside is not None:  # in another batch
            yield
            return
        self._aside = {}
        try:
            yield
        finally:
            rooms, self._aside = self._aside.values(), None
            for room in rooms:
                self._in(room)

    def shift(self, name: str, demand: Demand, sign: int) -> None:
        """Change `free` and the index only: for trials, which undo it."""
        room = self.known(name)
        if room is None:
            return
        self.index.remove(name)
        room.shift(demand, sign)
        self.index.add(name, room.free)

    def shift_all(self, shifts: Sequence[tuple[str, Demand, int]]) -> None:
        """The same for several changes in any order: the index is updated once for each node."""
        if len(shifts) == 1:
            self.shift(*shifts[0])
            return
        rooms: dict[str, NodeRoom] = {}
        for name, demand, sign in shifts:
            room = rooms.get(name) or self.known(name)
            if room is None:
                continue
            if name not in rooms:
                self.index.remove(name)
                rooms[name] = room
            room.shift(demand, sign)
        for name, room in rooms.items():
            self.index.add(name, room.free)

    # -- looking ----------------------------------------------------------------------------------------------

    def free_of(self, name: str) -> Mapping[str, int]:
        room = self.rooms.get(name)
        return room.free if room is not None else _NOTHING

    def best(self, demand: Demand, allowed: Allowed) -> str | None:
        """The best allowed, known node for `demand`; None if it fits on none."""
        if allowed.few is not None:
            return self.index.best_of(allowed.few, demand, self.free_of)
        return self.index.best(demand, allowed, self.free_of)

    def best_for(self, number: int, demand: Demand, allowed: Allowed) -> tuple[list[str], Mapping[str, int]]:
        """The nodes that `number` calls of `best` find if each takes its demand, and how many pods go to each node."""
        names = None if allowed.few is None else [name for name in allowed.few if self.known(name)]
        search = BulkSearch(self.index, demand, allowed, self.free_of, names)
        return search.seats(number), search.taken

    def roomy(self, demand: Demand, allowed: Allowed, homes: AbstractSet[str] = frozenset()) -> Iterable[NodeRoom]:
        """The allowed nodes, and those named besides, that may have room for `demand`. All others have none."""
        if allowed.few is not None:
            return [room for name in {*allowed.few, *homes} if (room := self.known(name)) is not None]
        return (self.rooms[name] for name in self.index.roomy(demand) if name in homes or allowed(name))

    def with_lower_pods(self, priority: int, start: int = 0) -> Iterator[NodeRoom]:
        """Known nodes that run a pod of lower priority, the lowest first, then by name; skips the first `start`."""
        for lowest, name in islice(self.by_priority, start, None):
            if lowest >= priority:
                return
            yield self.rooms[name]

    def has_lower_pods(self, priority: int) -> bool:
        return bool(self.by_priority) and self.by_priority[0][0] < priority

    def changed_since(self, generation: int) -> set[str] | None:
        """The names of the nodes that changed after that generation; None if that is too long ago."""
        since = self.generation - generation
        if since > len(self._journal):
            return None
        return set(self._journal[len(self._journal) - since :])

    # -- bookkeeping ------------------------------------------------------------------------------------------

    def _room(self, name: str) -> NodeRoom:
        room = self.rooms.get(name)
        if room is None:
            room = self.rooms[name] = NodeRoom(name)
            self.names_changed += 1
        return room

    def _note(self, name: str) -> None:
        if self.watch is not None:
            self.watch.add(name)

    def _out(self, room: NodeRoom) -> None:
        if self._aside is not None:
            if room.name in self._aside:
                return
            self._aside[room.name] = room
        if room.node is None:
            return
        self.index.remove(room.name)
        lowest = room.lowest
        if lowest is not None:
            del self.by_priority[bisect_left(self.by_priority, (lowest, room.name))]

    def _in(self, room: NodeRoom) -> None:
        if self._aside is not None:
            return
        self.generation += 1
        self._note(room.name)
        self._journal.append(room.name)
        if len(self._journal) > 2 * _JOURNAL:
            del self._journal[:_JOURNAL]
        if room.node is not None:
            self.index.add(room.name, room.free)
            lowest = room.lowest
            if lowest is not None:
                insort(self.by_priority, (lowest, room.name))
        elif room.empty:
            del self.rooms[room.name]
            self.names_changed += 1

    def validate(self) -> None:
        """Derive everything again from the records. Raises AssertionError, which names the node that differs."""
        known = {name: room for name, room in self.rooms.items() if room.node is not None}
        for name, room in self.rooms.items():
            assert not room.empty, f"{name}: an empty room was kept"
            fresh = room.copy()
            fresh.derive()
            assert (room.free, room.taken, room.held) == (fresh.free, fresh.taken, fresh.held), name
            assert all(pod.node_name == name for pod in room.pods.values()), name
            assert all(hold.node == name for hold in room.holds.values()), name
        expected = {name: self.index.expected(name, room.free) for name, room in known.items()}
        assert self.index.contents() == expected, "index differs from the nodes"
        order = sorted((room.lowest, name) for name, room in known.items() if room.lowest is not None)
        assert self.by_priority == order, "order by priority differs from the nodes"
        assert self.allocatable == _sum(dict(room.allocatable) for room in known.values()), "sum of what nodes have"
        assert self.used == _sum(room.used() for room in self.rooms.values()), "sum of what pods take"
        assert self.held == _sum(room.held for room in self.rooms.values()), "sum of what is held"


def _counts(node: Node) -> tuple[object, ...]:
    """All of a node that decisions depend on."""
    return node.allocatable, node.ready, node.unschedulable


def _sum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    summed: dict[str, int] = {}
    for each in amounts:
        _add(summed, each.items(), 1)
    return summed


def _add(total: dict[str, int], amounts: Iterable[tuple[str, int]], sign: int) -> None:
    """Add the amounts to `total`, and drop entries that become 0."""
    for name, amount in amounts:
        total[name] = total.get(name, 0) + sign * amount
        if not total[name]:
            del total[name]
