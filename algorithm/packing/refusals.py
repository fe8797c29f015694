"""Why single nodes have no room for a pod, told for thousands of nodes at little cost.

For the last few demands the reasons of all nodes are remembered, and only nodes that changed since are looked at
again. What is remembered cannot be observed: the answers are those of a fresh look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from algorithm.model import PODS
from algorithm.packing.demand import Demand, short_of
from algorithm.packing.nodes import Cluster, NodeRoom
from algorithm.reasons import Code, Reason, reason

_REMEMBERED = 4
_SHOWN = 3

UNKNOWN = reason(Code.NODE_UNKNOWN)
_TOO_MANY = reason(Code.TOO_MANY_PODS)


def some(names: Iterable[str]) -> str:
    """A few of the names, sorted, for a text that must not grow without end."""
    ordered = sorted(set(names))
    return ", ".join(ordered[:_SHOWN]) + (" and others" if len(ordered) > _SHOWN else "")


def refusal(room: NodeRoom, demand: Demand) -> Reason | None:
    """Why this known node has no room for `demand` now, None if it has."""
    short = short_of(demand, room.free)
    if not short:
        return None
    never = short_of(demand, room.allocatable)
    if never:
        return reason(Code.NODE_LACKS_RESOURCE, resources=never)
    if room.holds:
        held = room.held()
        if all(held.get(name, 0) >= missing for name, missing in short.items()):
            return reason(Code.HELD_FOR_OTHERS, holder=some(hold.holder for hold in room.holds.values()))
    return _TOO_MANY if short.keys() == {PODS} else reason(Code.INSUFFICIENT, resources=short)


class Told(NamedTuple):
    """The reasons of some nodes by name; `shared` is the one that all nodes asked about have, if there is such."""

    shared: Reason | None
    nodes: dict[str, Reason]


class Refusals:
    """The reasons of all nodes, by demand."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._remembered: dict[Demand, _Remembered] = {}

    def of(self, demand: Demand, names: Sequence[str]) -> Told:
        """Why these nodes have no room for `demand` now; those that have room are left out."""
        refused = self._current(demand)
        given = dict(zip(names, map(refused.get, names), strict=True))
        # By identity: equal reasons are one object here, and hashing thousands of them would take longest of all.
        kinds = {id(why) for why in given.values()}
        if id(None) not in kinds:
            nodes = cast("dict[str, Reason]", given)
            return Told(next(iter(nodes.values())) if len(kinds) == 1 else None, nodes)
        rooms = self._cluster.rooms
        return Told(None, {name: why or UNKNOWN for name, why in given.items() if why or name not in rooms})

    def kinds(self, demand: Demand, names: Sequence[str]) -> list[Reason]:
        """The different reasons among these nodes, in no order that means anything."""
        refused = self._current(demand)
        found = {id(why): why for why in map(refused.get, names) if why is not None}
        return list(found.values())

    def validate(self) -> None:
        """Compares what is remembered with a fresh look. Raises AssertionError."""
        for demand in tuple(self._remembered):
            fresh = _Remembered(self._cluster)
            fresh.refresh(self._cluster, demand)
            self._cluster.watchers = [w for w in self._cluster.watchers if w is not fresh.changed]
            assert self._current(demand) == fresh.refused, f"remembered refusals of {demand} are stale"

    def _current(self, demand: Demand) -> Mapping[str, Reason]:
        found = self._remembered.pop(demand, None)
        if found is None:
            self._forget_oldest()
            found = _Remembered(self._cluster)
        self._remembered[demand] = found
        found.refresh(self._cluster, demand)
        return found.refused

    def _forget_oldest(self) -> None:
        if len(self._remembered) >= _REMEMBERED:
            oldest = self._remembered.pop(next(iter(self._remembered)))
            self._cluster.watchers = [w for w in self._cluster.watchers if w is not oldest.changed]


class _Remembered:
    """The refusing nodes for one demand; `changed` are those to look at again."""

    __slots__ = ("_kinds", "changed", "refused")

    def __init__(self, cluster: Cluster) -> None:
        self.refused: dict[str, Reason] = {}
        self.changed = set(cluster.rooms)
        self._kinds: dict[Reason, Reason] = {}
        cluster.watchers.append(self.changed)

    def refresh(self, cluster: Cluster, demand: Demand) -> None:
        for name in self.changed:
            why = self._look(cluster.rooms.get(name), demand)
            if why is None:
                self.refused.pop(name, None)
            else:
                self.refused[name] = self._kinds.setdefault(why, why)
        self.changed.clear()

    def _look(self, room: NodeRoom | None, demand: Demand) -> Reason | None:
        if room is None:
            return None
        return UNKNOWN if room.node is None else refusal(room, demand)
