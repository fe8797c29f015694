"""Decides which requests get which idle pods of a pool.

The first request of the queue gets its pods if enough of them are idle. If not, because it is a gang, the idle pods
that fit it are reserved until it is served or its deadline ends: otherwise a stream of small requests could starve it.
Requests that need other pods are served meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from extender.claims.claim_queue import Waiter
from extender.claims.records import Demand, WarmPod
from extender.claims.state import PoolState

#: Returns idle pods for a request, at most as many as it lacks, and none of the given ones, which are reserved.
Choose = Callable[[Waiter, Collection[str]], list[WarmPod]]


def at_once(state: PoolState, tenant: str, demand: Demand, count: int) -> list[WarmPod]:
    """Return the pods for a new request if the queue is empty and enough pods are idle, else none.

    The result is that of `pair`, without the cost of the queue. The caller must hold the pods.
    """
    if not state.queue.may_pass(tenant, count):
        return []
    pods = state.supply.first(demand, count)
    if len(pods) < count:
        return []
    state.queue.charge(tenant, count)
    return pods


def pair(state: PoolState, choose: Choose | None) -> Iterator[tuple[Waiter, list[WarmPod]]]:
    """Yield requests with the pods that they get. `choose` None: pods are chosen in the pool's order.

    The caller must hold the pods before it asks for the next request. Then the request leaves the queue.
    """
    while (found := _next(state, choose)) is not None:
        waiter, pods = found
        yield found
        state.queue.remove(waiter.request)
        state.queue.charge(waiter.tenant, len(pods))


def _next(state: PoolState, choose: Choose | None) -> tuple[Waiter, list[WarmPod]] | None:
    queue, supply = state.queue, state.supply
    ranked = sorted(
        (first for demand in queue.demands() if supply.count(demand) and (first := queue.first(demand)) is not None),
        key=lambda first: first[0],
    )
    kept: set[str] = set()
    for _, waiter in ranked:
        pods = choose(waiter, kept) if choose else supply.first(waiter.demand, waiter.pods, kept)
        if len(pods) == waiter.pods:
            return waiter, pods
        kept.update(pod.uid for pod in pods)
    return None
