"""Why single nodes have no room for a pod, told for thousands of nodes at little cost.

For the last few demands the reasons of all nodes are remembered, and only nodes that changed since are looked at
again. What is remembered cannot be observed: the answers are those of a fresh look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from algorithm.model import PODS
from algorithm.packing.demand import Demand, short_of
from algorithm.packing.nodes import Cluster, NodeRoom
from algorithm.reasons import Code, Reason, reason

_REMEMBERED = 16
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
        return _lacking(Code.NODE_LACKS_RESOURCE, tuple(never))
    if room.holds:
        held = room.held()
        if all(held.get(name, 0) >= missing for name, missing in short.items()):
            return reason(Code.HELD_FOR_OTHERS, holder=some(hold.holder for hold in room.holds.values()))
    return _TOO_MANY if short.keys() == {PODS} else _lacking(Code.INSUFFICIENT, tuple(short))


@lru_cache(maxsize=1024)
def _lacking(code: Code, resources: tuple[str, ...]) -> Reason:
    """Made once for thousands of nodes: to make one costs more than all else that is done for a node."""
    return reason(code, resources=resources)


@dataclass(frozen=True, slots=True)
class Told:
    """The reasons of some nodes, in their order, None where a node has room; `kinds` are the different ones."""

    names: Sequence[str]
    whys: list[Reason | None]
    kinds: set[Reason | None]

    @property
    def shared(self) -> Reason | None:
        """The one reason that all nodes have, if there is such."""
        return self.whys[0] if len(self.kinds) == 1 else None

    def nodes(self) -> dict[str, Reason]:
        """The reasons by name, without the nodes that have room."""
        given = dict(zip(self.names, self.whys, strict=True))
        if None in self.kinds:
            return {name: why for name, why in given.items() if why is not None}
        return cast("dict[str, Reason]", given)


class Refusals:
    """The reasons of all nodes, by demand."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._remembered: dict[Demand, _Remembered] = {}

    def of(self, demand: Demand, names: Sequence[str]) -> Told:
        """Why these nodes have no room for `demand` now; those that have room are left out."""
        whys: list[Reason | None] = list(map(self._current(demand).get, names))
        kinds = set(whys)
        if None in kinds:
            rooms = self._cluster.rooms
            whys = [why or (None if name in rooms else UNKNOWN) for name, why in zip(names, whys, strict=True)]
            kinds = set(whys)
        return Told(names, whys, kinds)

    def kinds(self, demand: Demand, names: Sequence[str]) -> list[Reason]:
        """The different reasons among these nodes, in no order that means anything."""
        return [why for why in set(map(self._current(demand).get, names)) if why is not None]

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
