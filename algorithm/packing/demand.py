"""What a pod takes from a node, and arithmetic with it.

The rules are those of kube-scheduler's NodeResourcesFit plug-in: a request of zero always fits, a resource that a
node does not name counts as zero, and every pod takes one of the node's `pods`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from algorithm.model import PODS, Resources

#: Positive amounts by resource name, sorted, with one of `pods` for the pod itself.
Demand = Resources


@lru_cache(maxsize=4096)
def demand_of(requests: Resources) -> Demand:
    """What a pod with these requests takes."""
    taken = {name: amount for name, amount in requests if amount > 0}
    taken[PODS] = 1
    return tuple(sorted(taken.items()))


@lru_cache(maxsize=4096)
def extended_of(demand: Demand) -> Demand:
    """The devices and other extended resources in it: those have a domain in their name."""
    return tuple([part for part in demand if "/" in part[0]])


def pods_that_fit(free: Mapping[str, int], demand: Demand) -> int:
    """How many pods of this demand there is room for."""
    fewest: int | None = None
    for name, amount in demand:
        number = free.get(name, 0) // amount
        fewest = number if fewest is None or number < fewest else fewest
    return max(0, fewest or 0)


def short_of(demand: Demand, free: Mapping[str, int]) -> dict[str, int]:
    """The missing amount of each resource that is short, in the resource's units."""
    return {name: amount - free.get(name, 0) for name, amount in demand if free.get(name, 0) < amount}


def least_of(demands: Iterable[Demand]) -> Demand:
    """The minimum of these demands, resource by resource. Of equal demands, exactly that demand."""
    different = set(demands)
    if len(different) == 1:
        return different.pop()
    least = dict(different.pop())
    for amounts in map(dict, different):
        least = {name: min(amount, amounts[name]) for name, amount in least.items() if name in amounts}
    return tuple(sorted(least.items()))


@lru_cache(maxsize=4096)
def size(demand: Demand) -> tuple[int, ...]:
    """Larger means harder to place: extended resources count before cpu and memory."""
    amounts = dict(demand)
    extended = sum(amount for _, amount in extended_of(demand))
    return (extended, amounts.get("cpu", 0), amounts.get("memory", 0))
