"""The reasons why single nodes have no room for a pod, for thousands of nodes at little cost.

Pods that are refused are asked about again and again, and in between a node changes here or there, seldom so that a
reason changes. So the reasons of a demand and a set of offered nodes are put together once, and again only after one of
them has changed: the same object is returned until then, and who has encoded it need not encode it again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple, cast

from algorithm.interface import SuggestedNodes
from algorithm.model import PODS
from algorithm.packing.demand import Demand
from algorithm.packing.index import Allowed
from algorithm.packing.nodes import Cluster, NodeRoom
from algorithm.packing.perdemand import PerDemand, Table
from algorithm.reasons import Code, FixedReasons, Reason, reason

_SHOWN = 3
#: The most answers that are remembered. One about 5,000 nodes takes a third of a megabyte, and its names as much
#: unless they are those of another one.
REMEMBERED = 16
#: The most resources that a text names.
_NAMED = 5
_MORE = " and others"

UNKNOWN = reason(Code.NODE_UNKNOWN)
_TOO_MANY = reason(Code.TOO_MANY_PODS)


def some(names: Iterable[str]) -> str:
    """A few of the names, sorted, for a text that must not grow without end."""
    return _listed(names, _SHOWN)


def few(resources: Iterable[str]) -> str:
    """The first of these resources by name, for the text of one node."""
    return _listed(resources, _NAMED)


def few_of(text: str) -> list[str]:
    """The names that `few` has put into a text."""
    return text.removesuffix(_MORE).split(", ")


def _listed(names: Iterable[str], most: int) -> str:
    ordered = sorted(set(names))
    return ", ".join(ordered[:most]) + (_MORE if len(ordered) > most else "")


def refusal(room: NodeRoom, demand: Demand, free: Mapping[str, int]) -> Reason | None:
    """Why this known node has no room for `demand` with these free amounts; None if it has room."""
    short = [(name, amount) for name, amount in demand if free.get(name, 0) < amount]
    if not short:
        return None
    never = [name for name, amount in short if room.allocatable.get(name, 0) < amount]
    if never:
        return _lacks(tuple(never[: _NAMED + 1]))
    if room.holds and all(room.held.get(name, 0) >= amount - free.get(name, 0) for name, amount in short):
        return reason(Code.HELD_FOR_OTHERS, holder=some(hold.holder for hold in room.holds.values()))
    return _insufficient(tuple(name for name, _ in short[: _NAMED + 1]))


# Made once for all nodes: making a reason costs ten times as much as finding it.


@lru_cache(maxsize=1024)
def _lacks(resources: tuple[str, ...]) -> Reason:
    return reason(Code.NODE_LACKS_RESOURCE, resources=few(resources))


@lru_cache(maxsize=1024)
def _insufficient(resources: tuple[str, ...]) -> Reason:
    return _TOO_MANY if resources == (PODS,) else reason(Code.INSUFFICIENT, resources=few(resources))


def _look(room: NodeRoom, demand: Demand) -> Reason | None:
    return UNKNOWN if room.node is None else refusal(room, demand, room.free)


def _look_when_filled(room: NodeRoom, demands: tuple[Demand, Demand]) -> Reason | None:
    """Why one more of the second demand has no room, once the node is filled with pods of the first, which is no larger
    in anything; None if not even one of those fits."""
    filling, demand = demands
    number = room.pods_that_fit(filling)
    if not number:
        return None
    left = {**room.free, **{name: room.free[name] - number * amount for name, amount in filling}}
    return refusal(room, demand, left)


def _count(reasons: Iterable[Reason | None]) -> dict[Reason | None, int]:
    """How often each occurs. By identity first: nearly all equal reasons are one object, and hashing thousands would
    take longest of all."""
    times: dict[Reason | None, int] = {}
    objects = list(reasons)
    for number, why in zip(Counter(map(id, objects)).values(), {id(why): why for why in objects}.values(), strict=True):
        times[why] = times.get(why, 0) + number
    return times


class NodeReasons(NamedTuple):
    """The reasons of some nodes, by name, and how often each reason occurs.

    `version` and `names_changed` are those of what they were read from, `offered` the nodes that were asked about.
    """

    by_node: Mapping[str, Reason]
    times: Mapping[Reason, int]
    version: int
    names_changed: int
    offered: frozenset[str]

    @property
    def shared(self) -> Reason | None:
        """The reason that all the nodes have, None if they differ, or if there is room on one."""
        return next(iter(self.times)) if len(self.times) == 1 and len(self.by_node) == len(self.offered) else None


class Refusals:
    """The reasons of all nodes, by demand."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._refused = PerDemand(cluster, _look)
        #: The latest ones, by demand and number of offered nodes: a trial of one node does not replace those of all.
        self._found: dict[tuple[Demand, int], NodeReasons] = {}

    @cached_property  # a checkpoint of an older release has none
    def _when_filled(self) -> PerDemand[tuple[Demand, Demand], Reason]:
        return PerDemand(self._cluster, _look_when_filled)

    def of(self, demand: Demand, offered: SuggestedNodes) -> NodeReasons:
        """Why these nodes have no room for `demand` now; those that have room are left out."""
        table = self._refused.table(demand)
        key = demand, len(offered)
        known = self._found.pop(key, None)
        if known is None or known.names_changed != self._cluster.names_changed or not offered.are(known.offered):
            known = None
        reasons = self._next(known, table) or self._read(table, offered)
        if len(self._found) >= REMEMBERED:
            del self._found[next(iter(self._found))]
        self._found[key] = reasons
        return reasons

    def _read(self, table: Table[Reason], offered: SuggestedNodes) -> NodeReasons:
        found = list(map(table.found.get, offered))
        times = _count(found)
        by_node = dict(zip(offered, found, strict=True))
        if None in times:
            rooms = self._cluster.rooms
            by_node = {name: why or UNKNOWN for name, why in by_node.items() if why or name not in rooms}
            times = _count(by_node.values())
        reasons, numbers = cast("dict[str, Reason]", by_node), cast("dict[Reason, int]", times)
        return NodeReasons(FixedReasons(reasons), numbers, table.version, self._cluster.names_changed, offered.as_set())

    @staticmethod
    def _next(known: NodeReasons | None, table: Table[Reason]) -> NodeReasons | None:
        """The known reasons with what has changed since; None if that is not known."""
        changes = None if known is None else table.changes_since(known.version)
        if known is None or changes is None:
            return None
        changed = {name: table.found.get(name) for name in changes if name in known.offered}
        if not changed:
            return known._replace(version=table.version)
        by_node, times = dict(known.by_node), dict(known.times)
        for name, now in changed.items():
            before = by_node.get(name)
            if before is None and now is not None:
                return None  # the reasons are in the order of the offer, in which this one is missing
            for why, number in ((before, -1), (now, 1)):
                if why is not None:
                    times[why] = times.get(why, 0) + number
            if now is not None:
                by_node[name] = now
            elif before is not None:
                del by_node[name]
        numbers = {why: n for why, n in times.items() if n}
        return known._replace(by_node=FixedReasons(by_node), times=numbers, version=table.version)

    def with_free(self, demand: Demand, free: Mapping[str, Mapping[str, int]]) -> dict[str, Reason | None]:
        """The reasons of the nodes for which `free` has other free amounts."""
        rooms = {name: self._cluster.known(name) for name in free}
        return {name: UNKNOWN if room is None else refusal(room, demand, free[name]) for name, room in rooms.items()}

    def when_filled(self, filling: Demand, demand: Demand, offered: Allowed) -> Mapping[str, Reason | None]:
        """The reasons of the nodes with room for pods of a demand, once they are filled with those, and maybe of nodes
        that are not offered. `filling` is no larger than `demand` in anything."""
        key = filling, demand
        known = self._when_filled.if_wanted(key)
        if known is not None:
            return known
        self._when_filled.want(key)
        rooms = self._cluster.roomy(filling, offered)
        found = {room.name: _look_when_filled(room, key) for room in rooms}
        return {name: why for name, why in found.items() if why is not None}

    def kinds(self, demand: Demand, offered: SuggestedNodes, others: Mapping[str, Reason | None]) -> set[Reason]:
        """The different reasons among these nodes; `others` has other reasons for some of them."""
        reasons = self.of(demand, offered)
        left = dict(reasons.times)
        kinds = set()
        for name in others.keys() & offered.as_set() if others else ():
            known = reasons.by_node.get(name)
            if known is not None:
                left[known] -= 1
            kinds.add(others[name])
        return {why for why in kinds if why is not None} | {why for why, number in left.items() if number}

    def validate(self) -> None:
        """Compares what is remembered with a fresh look. Raises AssertionError."""
        self._refused.validate()
        self._when_filled.validate()
