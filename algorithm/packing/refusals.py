"""Why single nodes have no room for a pod, told for thousands of nodes at little cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

from algorithm.model import PODS
from algorithm.packing.demand import Demand, short_of
from algorithm.packing.nodes import Cluster, NodeRoom
from algorithm.packing.perdemand import PerDemand
from algorithm.reasons import Code, Reason, reason

_SHOWN = 3

UNKNOWN = reason(Code.NODE_UNKNOWN)
_TOO_MANY = reason(Code.TOO_MANY_PODS)


def some(names: Iterable[str]) -> str:
    """A few of the names, sorted, for a text that must not grow without end."""
    ordered = sorted(set(names))
    return ", ".join(ordered[:_SHOWN]) + (" and others" if len(ordered) > _SHOWN else "")


def refusal(room: NodeRoom, demand: Demand, free: Mapping[str, int]) -> Reason | None:
    """Why this known node has no room for `demand` with so much free, None if it has."""
    short = short_of(demand, free)
    if not short:
        return None
    never = short_of(demand, room.allocatable)
    if never:
        return _about(Code.NODE_LACKS_RESOURCE, tuple(never))
    if room.holds:
        held = room.held()
        if all(held.get(name, 0) >= missing for name, missing in short.items()):
            return reason(Code.HELD_FOR_OTHERS, holder=some(hold.holder for hold in room.holds.values()))
    return _TOO_MANY if short.keys() == {PODS} else _about(Code.INSUFFICIENT, tuple(short))


@lru_cache(maxsize=1024)
def _about(code: Code, resources: tuple[str, ...]) -> Reason:
    """Made once for all nodes: making a reason costs ten times as much as finding it."""
    return reason(code, resources=resources)


def _look(room: NodeRoom, demand: Demand) -> Reason | None:
    return UNKNOWN if room.node is None else refusal(room, demand, room.free)


class Told(NamedTuple):
    """The reasons of some nodes by name; `shared` is the one that all nodes asked about have, if there is such."""

    shared: Reason | None
    nodes: dict[str, Reason]


class Refusals:
    """The reasons of all nodes, by demand."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._refused = PerDemand(cluster, _look)

    def of(self, demand: Demand, names: Sequence[str]) -> Told:
        """Why these nodes have no room for `demand` now; those that have room are left out."""
        refused = self._refused.of(demand)
        given = dict(zip(names, map(refused.get, names), strict=True))
        # By identity first: nearly all equal reasons are one object, and hashing thousands would take longest of all.
        kinds = {id(why): why for why in given.values()}
        if id(None) not in kinds:
            nodes = cast("dict[str, Reason]", given)
            different = set(kinds.values())
            return Told(different.pop() if len(different) == 1 else None, nodes)
        rooms = self._cluster.rooms
        return Told(None, {name: why or UNKNOWN for name, why in given.items() if why or name not in rooms})

    def kinds(self, demand: Demand, names: Sequence[str], changed: Mapping[str, Mapping[str, int]]) -> set[Reason]:
        """The different reasons among these nodes; on those in `changed` something else is free than now."""
        refused = self._refused.of(demand)
        found = {id(why): why for why in map(refused.get, [name for name in names if name not in changed])}
        kinds = {why for why in found.values() if why is not None}
        for name in changed.keys() & set(names):
            room = self._cluster.known(name)
            why = refusal(room, demand, changed[name]) if room is not None else None
            kinds |= {why} if why is not None else set()
        return kinds

    def validate(self) -> None:
        """Compares what is remembered with a fresh look. Raises AssertionError."""
        self._refused.validate()
