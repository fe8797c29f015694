"""The sentences of `explain.py`: numbers and names put into words. A sentence begins with what matters most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from algorithm.model import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Pod
from algorithm.packing.demand import Demand, extended_of, short_of
from algorithm.packing.gangs import GANG_MIN, Gang
from algorithm.packing.nodes import NodeRoom
from algorithm.quantity import format_quantity

_MI, _GI = 1 << 20, 1 << 30
#: So many names are shown at most.
SHOWN = 5


def listed(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def quantity(name: str, value: int) -> str:
    """A number for people: cores with decimals, bytes with a suffix, rounded; everything else as it is counted."""
    if name == CPU:
        return f"{value / 1000:g}"
    if name not in (MEMORY, EPHEMERAL_STORAGE) and not name.startswith("hugepages-"):
        return str(value)
    if value % _MI or value < _MI:
        return f"{value / _GI:.1f}Gi" if value >= _GI else f"{value / _MI:.1f}Mi"
    return format_quantity(value)


def amount(name: str, value: int) -> str:
    return f"{quantity(name, value)} {name}"


def amounts(demand: Demand) -> str:
    """The amounts that a pod takes, without the place of the pod itself: devices first."""
    devices = extended_of(demand)
    others = [part for part in demand if part not in devices and part[0] != PODS]
    return ", ".join(amount(*part) for part in (*devices, *others)) or "a place for one pod"


def main(demand: Demand) -> str:
    """A short name for such pods: their devices, or everything that they take if they have none."""
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
    has = quantity(name, there)
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


def too_little_free(subject: str, demand: Demand, wanted: int, fitting: int, large: Sequence[NodeRoom]) -> str:
    """`large` are the nodes that are large enough for a pod of this demand."""
    full = [room for room in large if not room.pods_that_fit(demand)]
    short = _scarce(demand, full)
    if wanted == 1:
        if short is None:
            return f"{subject} needs {amounts(demand)} on one node, and no node has that free at once."
        return f"{subject} needs {amount(*short)} on one node: {_free(demand, short[0], large)}."
    needs = f"{subject} needs room for {wanted} pods with {main(demand)} each, and there is room for {fitting}"
    return f"{needs}: {_free(demand, short[0], large)}." if short else f"{needs}."


def _scarce(demand: Demand, full: Sequence[NodeRoom]) -> tuple[str, int] | None:
    """The resource to name: a device that is short on most of these nodes, else one short on all; None: neither."""
    short = {name: sum(room.free.get(name, 0) < need for room in full) for name, need in demand}
    for name, need in extended_of(demand):
        if 2 * short[name] > len(full):
            return name, need
    return next(((name, need) for name, need in demand if short[name] == len(full)), None)


def _free(demand: Demand, name: str, rooms: Sequence[NodeRoom]) -> str:
    left = {room.name: max(0, room.free.get(name, 0)) for room in rooms}
    total = amount(name, sum(room.allocatable.get(name, 0) for room in rooms))
    if not any(left.values()):
        return f"none of {total} is free"
    best = max(rooms, key=lambda room: (left[room.name], room.name))
    most = left[best.name]
    sums = f"{quantity(name, sum(left.values()))} of {total} are free, at most {quantity(name, most)} on one node"
    lacks = [amount(*part) for part in short_of(demand, best.free).items()] if most >= dict(demand)[name] else []
    return f"{sums} ({best.name}{', which lacks ' if lacks else ''}{', '.join(lacks)})"


def too_little_free_in_all(subject: str, name: str, wanted: int, free: int) -> str:
    left = quantity(name, free)
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
