"""Predicates and priorities with their arguments, which are texts of JSON.

A predicate says whether a pod may get one more vreplica of a vpod. A priority gives a pod a score: 2^64 - 1 less a
penalty. Scores are multiplied by weights and added as the unsigned numbers of 64 bits that they are, and wrap around.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from algorithm.placements.v0430.snapshot import Snapshot

K = TypeVar("K", bound=Hashable)
MOST = 2**64 - 1
INVALID = "invalid arguments"


class RefusedError(Exception):
    """A plug-in's reason not to take a pod, or not to score it."""


@dataclass(frozen=True, slots=True)
class PluginUse:
    """A plug-in as a policy names it. `weight` counts for priorities only."""

    name: str
    args: Any = None
    weight: int = 0


def _number(args: Any, field: str) -> int:
    """The one field of the arguments, 0 if it is left out."""
    try:
        found = json.loads(args)
        number = found.get(field, 0)
        if set(found) - {field} or not isinstance(number, int) or isinstance(number, bool):
            raise RefusedError(INVALID)
    except (TypeError, ValueError, AttributeError) as error:
        raise RefusedError(INVALID) from error
    return number


# -- predicates


def _fits(_args: Any, state: Snapshot, _key: str, ordinal: int) -> None:
    if state.free and state.free_on(ordinal) <= 0:
        raise RefusedError("pod at full capacity")


def _within_partitions(args: Any, state: Snapshot, key: str, ordinal: int) -> None:
    most = _number(args, "NumPartitions")
    spread = state.pods.get(key, {})
    if ordinal not in spread and len(spread) + 1 > most:
        raise RefusedError("pod increases total # of pods beyond partition count")


def _evenly(args: Any, state: Snapshot, key: str, ordinal: int) -> None:
    skew = _number(args, "MaxSkew")
    spread = state.pods.get(key)
    if spread is None:
        return
    mine = spread.get(ordinal, 0) + 1
    for other in state.usable:
        if other == ordinal or (other not in spread and state.free_on(other) <= 0):
            continue
        if abs(mine - spread.get(other, 0)) > skew:
            raise RefusedError("pod will cause an uneven spread")


# -- priorities: penalties


def _uneven(args: Any, state: Snapshot, key: str, ordinal: int) -> int:
    _number(args, "MaxSkew")
    spread = state.pods.get(key)
    if spread is None:
        return 0
    mine = spread.get(ordinal, 0) + 1
    others = (o for o in state.usable if o != ordinal and not (o not in spread and state.free_on(o) == 0))
    return sum(abs(mine - spread.get(other, 0)) for other in others)


def _uneven_nodes(args: Any, state: Snapshot, key: str, ordinal: int) -> int:
    _number(args, "MaxSkew")
    if key not in state.pods:
        return 0
    node = _node(state, ordinal)
    spread = state.by_node(key)
    mine = spread.get(node, 0) + 1
    return sum(abs(mine - spread.get(other, 0)) for other in state.cluster.zones if other != node)


def _uneven_zones(args: Any, state: Snapshot, key: str, ordinal: int) -> int:
    _number(args, "MaxSkew")
    if key not in state.pods:
        return 0
    zone = _zone(state, ordinal)
    spread = state.by_zone(key)
    mine = spread.get(zone, 0) + 1
    return sum(abs(mine - spread.get(other, 0)) for other in {*state.cluster.zones.values()} if other != zone)


def _node(state: Snapshot, ordinal: int) -> str:
    node = state.cluster.nodes.get(ordinal)
    if node is None or node not in state.cluster.zones:
        raise RefusedError("node does not exist")
    return node


def _zone(state: Snapshot, ordinal: int) -> str:
    node = state.cluster.nodes.get(ordinal)
    if node is None or node not in state.cluster.zones:
        raise RefusedError("zone does not exist")
    return state.cluster.zones[node]


def _ordinal(_args: Any, _state: Snapshot, _key: str, ordinal: int) -> int:
    return ordinal


def _not_ordinal(_args: Any, _state: Snapshot, _key: str, ordinal: int) -> int:
    return MOST - ordinal


def _uneven_without(args: Any, state: Snapshot, key: str, ordinal: int) -> int:
    _number(args, "MaxSkew")
    return _differences(state.pods.get(key, {}), ordinal)


def _uneven_nodes_without(args: Any, state: Snapshot, key: str, ordinal: int) -> int:
    _number(args, "MaxSkew")
    return _differences(state.by_node(key), _node(state, ordinal)) if key in state.pods else 0


def _uneven_zones_without(args: Any, state: Snapshot, key: str, ordinal: int) -> int:
    _number(args, "MaxSkew")
    return _differences(state.by_zone(key), _zone(state, ordinal)) if key in state.pods else 0


def _differences(spread: Mapping[K, int], chosen: K) -> int:
    mine = spread.get(chosen, 0) - 1
    return sum(abs(mine - number) for other, number in spread.items() if other != chosen)


PREDICATES: dict[str, Callable[[Any, Snapshot, str, int], None]] = {
    "PodFitsResources": _fits,
    "NoMaxResourceCount": _within_partitions,
    "EvenPodSpread": _evenly,
}
PENALTIES: dict[str, Callable[[Any, Snapshot, str, int], int]] = {
    "EvenPodSpread": _uneven,
    "AvailabilityNodePriority": _uneven_nodes,
    "AvailabilityZonePriority": _uneven_zones,
    "LowestOrdinalPriority": _ordinal,
    "RemoveWithEvenPodSpreadPriority": _uneven_without,
    "RemoveWithAvailabilityNodePriority": _uneven_nodes_without,
    "RemoveWithAvailabilityZonePriority": _uneven_zones_without,
    "RemoveWithHighestOrdinalPriority": _not_ordinal,
}


def reason_against(use: PluginUse, state: Snapshot, key: str, ordinal: int) -> str:
    """Why a predicate refuses a pod; "" if it does not, or if nobody knows the predicate."""
    try:
        if predicate := PREDICATES.get(use.name):
            predicate(use.args, state, key, ordinal)
    except RefusedError as refused:
        return str(refused)
    return ""


def score(use: PluginUse, state: Snapshot, key: str, ordinal: int) -> int:
    """The score that a priority gives a pod, without its weight; 0 for an unknown priority. Raises RefusedError."""
    penalty = PENALTIES.get(use.name)
    return 0 if penalty is None else (MOST - penalty(use.args, state, key, ordinal)) & MOST
