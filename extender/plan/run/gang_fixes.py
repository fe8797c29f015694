"""What would let a whole gang run on nodes that kube-scheduler's own filters accept. Pure; bounded by the nodes.

    seats on accepted nodes < seats needed
        --> the fewest cordoned nodes that would have the others
        --> else the fewest pods on accepted nodes whose end would make room for them
        --> else so many more nodes

The members of a gang are taken to be alike. Host ports let one member on a node.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from algorithm.quantity import format_quantity
from extender.embedded.kubescheduler.cluster import NodeInfo
from extender.embedded.kubescheduler.filters import has_untolerated_taint, matches_node, static_refusal
from extender.embedded.kubescheduler.model import SchedPod

#: Names in one sentence.
_NAMED = 5


def gang_fix(pod: SchedPod, needed: int, nodes: Sequence[NodeInfo]) -> str:
    """Return what would give `needed` members like this pod a seat, as a sentence; "" if they have room as it is."""
    accepted = [info for info in nodes if static_refusal(pod, info) is None]
    missing = needed - sum(seats(pod, info, needed) for info in accepted)
    if missing <= 0:
        return ""
    return _by_uncordoning(pod, missing, nodes) or _by_ending(pod, missing, accepted) or _by_adding(pod, missing)


def seats(pod: SchedPod, info: NodeInfo, most: int) -> int:
    """Return how many pods like this one the node has room for, at most `most`."""
    room = [info.free(name) // amount for name, amount in pod.pod.requests if amount > 0]
    return max(0, min(most, info.allowed_pods - len(info.pods), *room, *((1,) if pod.host_ports else ())))


def would_take(pod: SchedPod, info: NodeInfo) -> bool:
    """Return whether the node is cordoned, and would take the pod if it were not."""
    node = info.node
    if node is None or not node.node.unschedulable or has_untolerated_taint(pod, node):
        return False
    return matches_node(pod, info) and seats(pod, info, 1) > 0


def _by_uncordoning(pod: SchedPod, missing: int, nodes: Sequence[NodeInfo]) -> str:
    number, text = uncordoning(pod, missing, nodes)
    return f"It would fit {text}" if number >= missing else ""


def uncordoning(pod: SchedPod, wanted: int, nodes: Sequence[NodeInfo]) -> tuple[int, str]:
    """Return how many of `wanted` pods like this one the cordoned nodes would take, and the fewest nodes that would:
    "if node n1 were uncordoned."; 0 and "" if none would take any."""
    cordoned = [(seats(pod, info, wanted), info.name) for info in nodes if would_take(pod, info)]
    chosen: list[str] = []
    found = 0
    for number, name in sorted(cordoned, key=lambda each: (-each[0], each[1])):
        if found >= wanted:
            break
        chosen.append(name)
        found += number
    if not chosen:
        return 0, ""
    which = f"node {chosen[0]}" if len(chosen) == 1 else f"these {len(chosen)} nodes"
    names = f": {listed(chosen)}" if len(chosen) > 1 else ""
    return min(found, wanted), f"if {which} were uncordoned{names}."


def _by_ending(pod: SchedPod, missing: int, accepted: Sequence[NodeInfo]) -> str:
    """The cheapest seats first; those of one node come one after the other."""
    steps = {info.name: _steps(pod, missing, info) for info in accepted}
    heap: list[tuple[int, str, list[SchedPod], int]] = []

    def push(name: str) -> None:
        step = next(steps[name], None)
        if step is not None:
            heapq.heappush(heap, (len(step[0]), name, *step))

    for name in steps:
        push(name)
    ended: list[str] = []
    while heap and missing > 0:
        _, name, pods, gained = heapq.heappop(heap)
        ended += [f"{other.key} on {name}" for other in pods]
        missing -= gained
        push(name)
    if missing > 0:
        return ""
    which = "this pod" if len(ended) == 1 else f"these {len(ended)} pods"
    return f"It would fit if {which} ended: {listed(ended)}."


def _steps(pod: SchedPod, most: int, info: NodeInfo) -> Iterator[tuple[list[SchedPod], int]]:
    """Yield the pods whose end gives the next seats on a node, the least important ones first, and how many seats."""
    trial, before = info.copy(), seats(pod, info, most)
    short = [name for name, amount in pod.pod.requests if amount > 0 and info.free(name) < amount * most]
    step: list[SchedPod] = []
    for other in sorted(info.pods.values(), key=lambda each: (each.priority, each.key)):
        if not any(amount > 0 and name in short for name, amount in other.pod.requests):
            continue
        trial.remove(other)
        step.append(other)
        now = seats(pod, trial, most)
        if now > before:
            yield step, now - before
            step, before = [], now


def _by_adding(pod: SchedPod, missing: int) -> str:
    number = f"{missing} more node{'s'[: missing != 1]}"
    asked = ", ".join(shown(name, amount) for name, amount in pod.pod.requests if amount > 0 and name != "pods")
    room = f" with room for {asked} each" if asked else ""
    return f"It would fit with {number}{room} that its selector and tolerations accept."


def shown(name: str, amount: int) -> str:
    """Return an amount of a resource as people write it: "2 cpu", "64Gi memory"."""
    return f"{amount / 1000:g} {name}" if name == "cpu" else f"{format_quantity(amount)} {name}"


def listed(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
