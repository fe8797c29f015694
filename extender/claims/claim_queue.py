"""The queue of a pool: the requests that wait, and which of them is next.

Among the requests whose demand can be met, the next one is that with the highest priority; then that of the tenant that
was served least in proportion to its weight; then the oldest. A request that lost its pod gets its old position back.

Fairness is start-time fair queueing (Goyal, Vin, Cheng 1996), not deficit round robin: both give each waiting tenant
its weighted share, but this one needs no quantum, and a gang of eight does not wait for eight rounds. A tenant's start
time is the virtual time at which its next pod may be claimed; each claim moves it by pods / weight. A tenant without
waiting requests starts again at the present virtual time: it gains no credit while it does not wait.

An operation takes O(d log n): n requests wait, and the tenant's requests have d different demands and priorities, of
which the admission allows few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Set
from heapq import heappop, heappush
from operator import itemgetter

import msgspec

from extender.claims.records import Demand


class Waiter(msgspec.Struct, frozen=True, gc=False):
    """A queued request for `pods` pods. `sequence` is its seniority: a smaller number is older."""

    request: str
    tenant: str
    demand: Demand
    priority: int
    sequence: int
    pods: int = 1


#: Demand, priority and tenant: requests with the same place are in the same heap.
Place = tuple[Demand, int, str]
#: Minus the priority, start time, sequence, tenant.
_Head = tuple[int, float, int, str]
_NO_PLACES: frozenset[Place] = frozenset()
#: The requests of a queue that is ranked for each question about a position, and seconds between two rankings of longer
#: ones.
_EXACT, _RANKED = 256, 1.0
_RANK = itemgetter(0, 1, 2)


class ClaimQueue:
    """See the module. `may_have(tenant, pods)`: whether the tenant may have that many more pods; see `reopen`."""

    def __init__(self, weights: Mapping[str, float], may_have: Callable[[str, int], bool]) -> None:
        self._weights = weights
        self._may_have = may_have
        self._waiters: dict[str, Waiter] = {}
        #: Heaps of the requests of one demand, priority and tenant, by sequence. Removed requests are skipped.
        self._queues: dict[Place, list[tuple[int, str]]] = {}
        #: Heaps of the first request of each of these, by demand. Outdated entries are skipped; each change is pushed.
        self._heads: dict[Demand, list[_Head]] = {}
        self._places: dict[str, set[Place]] = {}
        self._waiting: Counter[Demand] = Counter()
        self._of_tenant: dict[str, int] = {}
        self._starts: dict[str, float] = {}
        self._virtual = 0.0
        #: How many pods all requests wait for.
        self._pods = 0
        #: The positions of all requests, with the pods before each, and when they were found.
        self._ranks: dict[str, tuple[int, int]] = {}
        self._ranked_at = float("-inf")

    def __len__(self) -> int:
        return len(self._waiters)

    def __contains__(self, request: str) -> bool:
        return request in self._waiters

    def of_tenant(self, tenant: str) -> int:
        """Return how many requests of this tenant wait."""
        return self._of_tenant.get(tenant, 0)

    def tenants(self) -> dict[str, int]:
        """Return how many requests of each tenant wait."""
        return dict(self._of_tenant)

    def demands(self) -> list[Demand]:
        """Return the demands of the waiting requests."""
        return list(self._heads)

    def requests(self) -> Collection[str]:
        """Return the names of all waiting requests, in no order that means anything."""
        return self._waiters.keys()

    def waiters(self) -> list[Waiter]:
        """Return all waiting requests by seniority."""
        return sorted(self._waiters.values(), key=lambda waiter: waiter.sequence)

    def has(self, demand: Demand) -> bool:
        """Return whether a request with this demand waits."""
        return demand in self._waiting

    def number_of_demands(self) -> int:
        """Return how many different demands the waiting requests have."""
        return len(self._waiting)

    def places_of(self, tenant: str) -> Set[Place]:
        """Return the different demands and priorities of the tenant's waiting requests."""
        return self._places.get(tenant, _NO_PLACES)

    def place(self, request: str, now: float) -> tuple[int, int]:
        """Return the position of a request, 1 for the next one, and how many pods the requests before it wait for.

        The position assumes that every demand can be met. To rank n requests takes O(n log n), so a queue of more than
        `_EXACT` is ranked once in `_RANKED` seconds, and a request that has come since is told the last position.
        """
        if len(self._waiters) <= _EXACT or now >= self._ranked_at + _RANKED or now < self._ranked_at:
            self._ranks, self._ranked_at = self._ranked(), now
        found = self._ranks.get(request)
        return (len(self._waiters), self._pods - self._waiters[request].pods) if found is None else found

    def _ranked(self) -> dict[str, tuple[int, int]]:
        before: Counter[tuple[str, int]] = Counter()
        order: list[tuple[int, float, int, Waiter]] = []
        for each in self.waiters():
            turn = each.tenant, each.priority
            start = self._starts[each.tenant] + before[turn] / self._weights.get(each.tenant, 1.0)
            before[turn] += each.pods
            order.append((-each.priority, start, each.sequence, each))
        order.sort(key=_RANK)
        ranks: dict[str, tuple[int, int]] = {}
        pods = 0
        for number, (_, _, _, each) in enumerate(order, 1):
            ranks[each.request] = number, pods
            pods += each.pods
        return ranks

    def add(self, waiter: Waiter) -> None:
        """Add a request, at the position of its seniority."""
        assert waiter.request not in self._waiters, f"{waiter.request} is queued already"
        self._waiters[waiter.request] = waiter
        self._pods += waiter.pods
        self._waiting[waiter.demand] += 1
        waiting = self._of_tenant[waiter.tenant] = self._of_tenant.get(waiter.tenant, 0) + 1
        if waiting == 1:
            self._starts[waiter.tenant] = max(self._starts.get(waiter.tenant, 0.0), self._virtual)
        place = (waiter.demand, waiter.priority, waiter.tenant)
        queue = self._queues.setdefault(place, [])
        heappush(queue, (waiter.sequence, waiter.request))
        self._places.setdefault(waiter.tenant, set()).add(place)
        if queue[0][1] == waiter.request:
            self._push(place)

    def remove(self, request: str) -> Waiter | None:
        """Remove and return a request; None if it is not queued."""
        waiter = self._waiters.pop(request, None)
        if waiter is None:
            return None
        self._pods -= waiter.pods
        place = (waiter.demand, waiter.priority, waiter.tenant)
        queue = self._queues[place]
        was_first = queue[0][1] == request
        while queue and queue[0][1] not in self._waiters:
            heappop(queue)
        if not queue:
            self._leave(place)
        elif was_first:
            self._push(place)
        self._of_tenant[waiter.tenant] -= 1
        if not self._of_tenant[waiter.tenant]:
            del self._of_tenant[waiter.tenant]
            self._forget(waiter.tenant)
        self._waiting[waiter.demand] -= 1
        if not self._waiting[waiter.demand]:
            del self._waiting[waiter.demand], self._heads[waiter.demand]
        return waiter

    def _leave(self, place: Place) -> None:
        del self._queues[place]
        places = self._places[place[2]]
        places.discard(place)
        if not places:
            del self._places[place[2]]

    def first(self, demand: Demand) -> tuple[_Head, Waiter] | None:
        """Return the next request with this demand, with its rank; None if none may be served now."""
        heads = self._heads.get(demand)
        while heads:
            rank = heads[0]
            queue = self._queues.get((demand, -rank[0], rank[3]))
            is_current = queue is not None and queue[0][0] == rank[2] and self._starts[rank[3]] == rank[1]
            if queue is not None and is_current:
                waiter = self._waiters[queue[0][1]]
                if self._may_have(waiter.tenant, waiter.pods):
                    return rank, waiter
            heappop(heads)
        return None

    def may_pass(self, tenant: str, pods: int) -> bool:
        """Whether a new request may be served without being queued: no request waits, and its limit allows it."""
        return not self._waiters and self._may_have(tenant, pods)

    def charge(self, tenant: str, pods: int) -> None:
        """Charge the tenant for this many pods; a negative number refunds pods that it has lost."""
        start = self._starts.get(tenant, 0.0)
        if pods > 0:
            start = self._virtual = start if start > self._virtual else self._virtual
        self._starts[tenant] = start + pods / self._weights.get(tenant, 1.0)
        if tenant in self._of_tenant:
            self.reopen(tenant)
        else:
            self._forget(tenant)

    def reopen(self, tenant: str) -> None:
        """Rank a tenant's requests again: its start time, or what `may_have` says of it, has changed."""
        for place in self._places.get(tenant, ()):
            self._push(place)

    def _forget(self, tenant: str) -> None:
        """Forget the start time of a tenant without waiting requests, if a new one would not be earlier."""
        if self._starts.get(tenant, 0.0) <= self._virtual:
            self._starts.pop(tenant, None)
        if len(self._starts) > 2 * len(self._of_tenant) + 1024:
            self._starts = {
                each: start for each, start in self._starts.items() if each in self._of_tenant or start > self._virtual
            }

    def _push(self, place: Place) -> None:
        demand, priority, tenant = place
        sequence, _ = self._queues[place][0]
        heads = self._heads.setdefault(demand, [])
        heappush(heads, (-priority, self._starts[tenant], sequence, tenant))
        if len(heads) > 4 * self._waiting[demand] + 64:
            self._heads[demand] = sorted(
                (-each[1], self._starts[each[2]], queue[0][0], each[2])
                for each, queue in self._queues.items()
                if each[0] == demand
            )

    def validate(self) -> None:
        """Derive every index again. Raise AssertionError, which names the difference."""
        for (demand, priority, tenant), queue in self._queues.items():
            assert queue, f"an empty queue is kept: {tenant}, {demand}"
            assert queue[0][1] in self._waiters, f"{queue[0][1]} was removed and is still first"
            rank = (-priority, self._starts[tenant], queue[0][0], tenant)
            may = self._may_have(tenant, self._waiters[queue[0][1]].pods)
            assert rank in self._heads[demand] or not may, f"{queue[0][1]} would never be returned"
        held = Counter(waiter.demand for waiter in self._waiters.values())
        assert held == self._waiting, f"demands {self._waiting}, waiting {held}"
        assert set(held) == set(self._heads), f"heads of {set(self._heads)}, waiting {set(held)}"
        assert self._pods == sum(waiter.pods for waiter in self._waiters.values())
        tenants = Counter(waiter.tenant for waiter in self._waiters.values())
        assert tenants == self._of_tenant, f"tenants {self._of_tenant}, waiting {tenants}"
