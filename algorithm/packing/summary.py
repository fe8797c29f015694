"""A summary of the algorithm's state for people: counts, sums, and the gangs and preemptions under way.

No decision is possible while it is made, so it stays small for any size of the cluster: sums are kept up to date and
not computed, complete gangs are only counted, and long lists show the first entries by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Any

from algorithm.packing.gangs import Gang
from algorithm.packing.state import Preemption, State

#: The most gangs, preemptions and names of each that are shown.
SHOWN = 50


def summary(state: State) -> dict[str, Any]:
    """JSON-ready. `resources` are in the model's units: cpu in thousandths, the rest in units or bytes."""
    waiting = {key: gang for key, gang in state.gangs.gangs.items() if gang.waiting}
    preempting = nsmallest(SHOWN, state.preemptions.values(), key=lambda one: (one.pod.key, one.pod.uid))
    return {
        "nodes": _nodes(state),
        "resources": _resources(state),
        "pods": {
            "allocated": len(state.allocated),
            "waiting": len(state.waiting),
            "preempting": len(state.preemptions),
            "held": len(state.holds),
        },
        "gangs": {"known": len(state.gangs.gangs), "waiting": len(waiting)},
        "waitingGangs": {str(key): _gang(waiting[key]) for key in nsmallest(SHOWN, waiting)},
        "preempting": {str(one.pod.key): _preemption(state, one) for one in preempting},
    }


def _nodes(state: State) -> dict[str, int]:
    rooms = state.cluster.rooms.values()
    return {
        "known": sum(room.node is not None for room in rooms),
        "schedulable": sum(room.schedulable for room in rooms),
        "empty": sum(room.node is not None and not room.pods for room in rooms),
    }


def _resources(state: State) -> dict[str, dict[str, int]]:
    kinds = {"allocatable": state.cluster.allocatable, "used": state.cluster.used, "held": state.cluster.held}
    names: set[str] = set().union(*kinds.values())
    return {name: {kind: amounts.get(name, 0) for kind, amounts in kinds.items()} for name in sorted(names)}


def _gang(gang: Gang) -> dict[str, Any]:
    seats = {gang.waiting[uid].name: node for uid, node in gang.seats().items()}
    return {
        "minimum": gang.minimum,
        "allocated": len(gang.allocated),
        "waiting": len(gang.waiting),
        "seats": _first(seats),
    }


def _preemption(state: State, one: Preemption) -> dict[str, Any]:
    pending = {str(pod.key) for pod in state.pending_victims(one)}
    return {"node": one.node, "waitsFor": _names(pending)}


def _first(mapping: Mapping[str, str]) -> dict[str, str]:
    return {name: mapping[name] for name in _names(mapping)}


def _names(names: Iterable[str]) -> list[str]:
    return nsmallest(SHOWN, names)
