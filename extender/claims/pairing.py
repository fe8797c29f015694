"""Decides which requests get which idle pods of a pool.

The first in rank gets its pods if there are enough for it. If there are not (it is a gang), the pods that it could use
are kept for it: nobody behind it may take them, or a stream of small requests would starve it. Requests that need other
pods are served meanwhile. Its deadline ends this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from extender.claims.line import Waiter
from extender.claims.records import Demand, WarmPod
from extender.claims.state import PoolState

#: Returns up to as many idle pods for a request as it lacks, but none of those that are kept for others.
Choose = Callable[[Waiter, Collection[str]], list[WarmPod]]


def at_once(state: PoolState, tenant: str, demand: Demand, count: int) -> list[WarmPod]:
    """Return the pods for a request that has just come and need not stand in line: nobody does, and there are enough.
    Otherwise none. The caller holds them. The same as `pair` would do, without the line.
    """
    if not state.line.may_pass(tenant, count):
        return []
    pods = state.supply.first(demand, count)
    if len(pods) < count:
        return []
    state.line.charge(tenant, count)
    return pods


def pair(state: PoolState, choose: Choose | None) -> Iterator[tuple[Waiter, list[WarmPod]]]:
    """Yield requests with the pods that they get. The caller holds these pods before it asks for the next.
    When it does, the request has left the line. `choose` None: pods are chosen in the pool's order.
    """
    while (found := _next(state, choose)) is not None:
        waiter, pods = found
        yield found
        state.line.remove(waiter.request)
        state.line.charge(waiter.tenant, len(pods))


def _next(state: PoolState, choose: Choose | None) -> tuple[Waiter, list[WarmPod]] | None:
    line, supply = state.line, state.supply
    ranked = sorted(
        (first for demand in line.demands() if supply.count(demand) and (first := line.first(demand)) is not None),
        key=lambda first: first[0],
    )
    kept: set[str] = set()
    for _, waiter in ranked:
        pods = choose(waiter, kept) if choose else supply.first(waiter.demand, waiter.pods, kept)
        if len(pods) == waiter.pods:
            return waiter, pods
        kept.update(pod.uid for pod in pods)
    return None
