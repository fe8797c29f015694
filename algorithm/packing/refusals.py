"""The reasons why single nodes have no room for a pod, for thousands of nodes at little cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

from algorithm.model import PODS
from algorithm.packing.demand import Demand
from algorithm.packing.nodes import Cluster, NodeRoom
from algorithm.packing.perdemand import PerDemand
from algorithm.reasons import Code, Reason, reason

_SHOWN = 3
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


def _different(reasons: Iterable[Reason | None]) -> set[Reason | None]:
    """By identity first: nearly all equal reasons are one object, and hashing thousands would take longest of all."""
    by_identity = {id(why): why for why in reasons}
    return set(by_identity.values())


class Told(NamedTuple):
    """The reasons of some nodes; `shared` is the reason that all of them have, None if they differ."""

    shared: Reason | None
    names: Sequence[str]
    reasons: Sequence[Reason]

    def by_node(self) -> dict[str, Reason]:
        return dict(zip(self.names, self.reasons, strict=True))


class Refusals:
    """The reasons of all nodes, by demand."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._refused = PerDemand(cluster, _look)

    def of(self, demand: Demand, names: Sequence[str]) -> Told:
        """Why these nodes have no room for `demand` now; those that have room are left out."""
        refused = self._refused.of(demand)
        found = list(map(refused.get, names))
        kinds = _different(found)
        if None not in kinds:
            return Told(kinds.pop() if len(kinds) == 1 else None, names, cast("list[Reason]", found))
        rooms = self._cluster.rooms
        told = [(name, why or UNKNOWN) for name, why in zip(names, found, strict=True) if why or name not in rooms]
        return Told(None, [name for name, _ in told], [why for _, why in told])

    def kinds(self, demand: Demand, names: Sequence[str], changed: Mapping[str, Mapping[str, int]]) -> set[Reason]:
        """The different reasons among these nodes; `changed` has other free amounts for some of them."""
        refused = self._refused.of(demand)
        kinds = _different(map(refused.get, [name for name in names if name not in changed]))
        for name in changed.keys() & set(names):
            room = self._cluster.known(name)
            kinds.add(refusal(room, demand, changed[name]) if room is not None else UNKNOWN)
        return {why for why in kinds if why is not None}

    def validate(self) -> None:
        """Compares what is remembered with a fresh look. Raises AssertionError."""
        self._refused.validate()
