"""The sentences of `explain.py`: numbers and names put into words. A sentence begins with what matters most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from algorithm.model import CPU, PODS, Pod
from algorithm.packing.demand import Demand, extended_of
from algorithm.packing.gangs import GANG_MIN, Gang
from algorithm.packing.nodes import NodeRoom
from algorithm.quantity import format_quantity

#: So many names are shown at most.
SHOWN = 5


def listed(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def amount(name: str, value: int) -> str:
    return f"{format_quantity(value, milli=name == CPU)} {name}"


def amounts(demand: Demand) -> str:
    """What a pod takes, without the place of the pod itself: devices first."""
    devices = extended_of(demand)
    others = [part for part in demand if part not in devices and part[0] != PODS]
    return ", ".join(amount(*part) for part in (*devices, *others)) or "a place for one pod"


def main(demand: Demand) -> str:
    """What such pods are known by: their devices, or everything that they take if they have none."""
    return amounts(extended_of(demand) or demand)


def several(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


# -- never ------------------------------------------------------------------------------------------------------------


def incomplete(gang: Gang) -> str:
    missing = gang.minimum - len(gang.waiting)
    more = f"{missing} more {'has' if missing == 1 else 'have'} to be created"
    return f"Gang {gang.key} has {len(gang.waiting)} of the {gang.minimum} pods that it needs: {more}."


def no_node_is_large_enough(subject: str, demand: Demand, nodes: Sequence[Mapping[str, int]]) -> str:
    most = {name: max(node.get(name, 0) for node in nodes) for name, _ in demand}
    short = tuple((name, wanted) for name, wanted in demand if most[name] < wanted)
    if not short:
        return f"{subject} can never run: no node has {amounts(demand)} at once, even when it is empty."
    has = ", ".join("none" if not most[name] else amount(name, most[name]) for name, _ in short)
    return f"{subject} can never run: a pod needs {amounts(short)} on one node, and the largest node has {has}."


def too_few_nodes(subject: str, demand: Demand, wanted: int, ever: Sequence[int]) -> str:
    if max(ever) == 1:
        needs = f"it needs {several(wanted, 'node')} with {main(demand)} each"
        return f"{subject} can never run: {needs}, and the cluster has {len(ever)}."
    return (
        f"{subject} can never run: it needs room for {wanted} pods with {main(demand)} each, and the cluster has room "
        f"for {sum(ever)}, even when it is empty."
    )


def too_little_in_all(subject: str, name: str, wanted: int, there: int) -> str:
    has = format_quantity(there, milli=name == CPU)
    return f"{subject} can never run: its pods need {amount(name, wanted)} together, and the cluster has {has}."


def more_nodes(demand: Demand, wanted: int, ever: Sequence[int], *, in_gang: bool) -> str:
    nodes = -(-(wanted - sum(ever)) // max(ever))
    added = f"It would fit with {several(nodes, 'more node')} with room for {amounts(demand)} each"
    return f"{added}, or with {GANG_MIN} of at most {sum(ever)}." if in_gang else f"{added}."


def nodes_are_away(subject: str, demand: Demand, wanted: int, usable: Sequence[int], away: Sequence[str]) -> str:
    what = f"{several(wanted, 'node')} with {main(demand)}" if wanted > 1 else f"a node with {main(demand)}"
    return (
        f"{subject} cannot run while nodes are cordoned or not ready: it needs {what}, and those that can be used have "
        f"room for {sum(usable)}. Away: {listed(away)}."
    )


# -- now --------------------------------------------------------------------------------------------------------------


def there_is_room(subject: str, needed: int, nodes: Sequence[str]) -> str:
    where = f"on {listed(nodes)}"
    if needed == 1:
        return f"There is room for it now, {where}."
    return f"There is room for all {needed} pods of {subject[0].lower()}{subject[1:]} now, {where}."


def too_little_free(subject: str, demand: Demand, wanted: int, seats: int, large: Sequence[NodeRoom]) -> str:
    """`large` are the nodes that are large enough for a pod of this demand."""
    short = _scarce(demand, large)
    if wanted == 1:
        if not short:
            return f"{subject} needs {amounts(demand)} on one node, and no node has all of that free at once."
        name, need = short
        return f"{subject} needs {amount(name, need)} on one node: {_free(name, large)}."
    need_text = f"{subject} needs room for {wanted} pods with {main(demand)} each, and there is room for {seats}"
    return f"{need_text}: {_free(short[0], large)}." if short else f"{need_text}."


def _scarce(demand: Demand, rooms: Sequence[NodeRoom]) -> tuple[str, int] | None:
    """The resource that is short on every node without a place for the pod, devices first; None if they differ."""
    full = [room.free for room in rooms if not room.seats(demand)]
    for name, need in (*extended_of(demand), *demand):
        if all(free.get(name, 0) < need for free in full):
            return name, need
    return None


def _free(name: str, rooms: Sequence[NodeRoom]) -> str:
    left = {room.name: max(0, room.free.get(name, 0)) for room in rooms}
    total = sum(room.allocatable.get(name, 0) for room in rooms)
    if not any(left.values()):
        return f"none of {amount(name, total)} is free"
    node, most = max(left.items(), key=lambda item: (item[1], item[0]))
    free, one = (format_quantity(value, milli=name == CPU) for value in (sum(left.values()), most))
    return f"{free} of {amount(name, total)} are free, at most {one} on one node ({node})"


def too_little_free_in_all(subject: str, name: str, wanted: int, free: int) -> str:
    left = format_quantity(free, milli=name == CPU)
    return f"{subject} needs {amount(name, wanted)} for its pods together, and {left} are free."


def do_not_combine(subject: str, demands: Sequence[Demand]) -> str:
    sizes = listed([main(each) for each in demands])
    return f"{subject} finds no places for its pods of different sizes ({sizes}), though enough is free in sum."


def held(holders: Sequence[str], nodes: int) -> str:
    return f"Room on {several(nodes, 'node')} is held for {listed(holders)}."


# -- what would help --------------------------------------------------------------------------------------------------


def lower(pods: Sequence[Pod]) -> str:
    return f"It would fit without {_these(pods)} of lower priority: {_names(pods)}."


def ended(pods: Sequence[Pod]) -> str:
    which = "this pod" if len(pods) == 1 else f"these {len(pods)} pods"
    return f"It would fit if {which} ended: {_names(pods)}."


def _these(pods: Sequence[Pod]) -> str:
    return "this pod" if len(pods) == 1 else f"these {len(pods)} pods"


def _names(pods: Sequence[Pod]) -> str:
    return listed([f"{pod.key} on {pod.node_name}" for pod in sorted(pods, key=lambda pod: (pod.node_name, pod.key))])
