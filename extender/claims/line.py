"""The line of a pool: who waits, and who is next.

Next is, among those whose demand can be met, the one of the highest priority; then of the tenant that was served least
for its weight; then the one that came first. A request that comes back (its pod was lost) has its old place.

Fairness is start-time fair queueing (Goyal, Vin, Cheng 1996), not deficit round robin: both give each tenant that waits
its weighted share, but this one needs no quantum, and a gang of eight does not wait for eight rounds. A tenant's start
time is the virtual time at which its next pod may be handed out; being served moves it by cost / weight. A tenant that
was away starts at the present virtual time: idleness saves nothing up.

Every operation costs the logarithm of the number of requests that wait, times the number of different demands that the
tenant waits with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush

import msgspec

from extender.claims.records import Demand


class Waiter(msgspec.Struct, frozen=True, gc=False):
    """A request in line for so many `pods`. `sequence` is its seniority: smaller came earlier."""

    request: str
    tenant: str
    demand: Demand
    priority: int
    sequence: int
    pods: int = 1


_Place = tuple[Demand, int, str]
#: Minus the priority, start time, sequence, tenant.
_Head = tuple[int, float, int, str]


class Line:
    """See the module. `may_have(tenant, pods)` is asked before somebody is named: see `reopen`."""

    def __init__(self, weights: Mapping[str, float], may_have: Callable[[str, int], bool]) -> None:
        self._weights = weights
        self._may_have = may_have
        self._waiters: dict[str, Waiter] = {}
        #: The requests of one demand, priority and tenant, by sequence. Those that left are skipped.
        self._queues: dict[_Place, list[tuple[int, str]]] = {}
        #: The first of each queue, by demand. Outdated entries are skipped; every change of a first one is pushed.
        self._heads: dict[Demand, list[_Head]] = {}
        self._places: dict[str, set[_Place]] = {}
        self._waiting: Counter[Demand] = Counter()
        self._of_tenant: dict[str, int] = {}
        self._starts: dict[str, float] = {}
        self._virtual = 0.0

    def __len__(self) -> int:
        return len(self._waiters)

    def __contains__(self, request: str) -> bool:
        return request in self._waiters

    def of_tenant(self, tenant: str) -> int:
        """How many requests of this tenant wait."""
        return self._of_tenant.get(tenant, 0)

    def tenants(self) -> dict[str, int]:
        """How many requests of each tenant wait."""
        return dict(self._of_tenant)

    def demands(self) -> list[Demand]:
        """The demands that somebody waits with."""
        return list(self._heads)

    def waiters(self) -> list[Waiter]:
        """All that wait, by seniority."""
        return sorted(self._waiters.values(), key=lambda waiter: waiter.sequence)

    def place(self, request: str) -> tuple[int, int]:
        """Return the place of a request in line, 1 for the next one, and how many pods those before it wait for.

        It is the place if every demand can be met alike. Costs the number of requests in line.
        """
        me = self._waiters[request]
        mine = self._start_of(me, self._waiters.values())
        ahead, pods = 0, 0
        served: Counter[str] = Counter()
        for each in sorted(self._waiters.values(), key=lambda waiter: waiter.sequence):
            if each.priority < me.priority or each.request == request:
                continue
            is_ahead = each.priority > me.priority
            if not is_ahead:
                start = self._starts[each.tenant] + served[each.tenant] / self._weights.get(each.tenant, 1.0)
                served[each.tenant] += each.pods
                is_ahead = (start, each.sequence) < (mine, me.sequence)
            if is_ahead:
                ahead, pods = ahead + 1, pods + each.pods
        return ahead + 1, pods

    def _start_of(self, waiter: Waiter, all_of_them: Iterable[Waiter]) -> float:
        """The virtual time at which a request will be its tenant's next."""
        before = sum(
            each.pods
            for each in all_of_them
            if each.tenant == waiter.tenant and each.priority == waiter.priority and each.sequence < waiter.sequence
        )
        return self._starts[waiter.tenant] + before / self._weights.get(waiter.tenant, 1.0)

    def add(self, waiter: Waiter) -> None:
        """Put a request in line, at the place of its seniority."""
        assert waiter.request not in self._waiters, f"{waiter.request} is in line already"
        self._waiters[waiter.request] = waiter
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
        """Take a request out of the line; None if it is not in it."""
        waiter = self._waiters.pop(request, None)
        if waiter is None:
            return None
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

    def _leave(self, place: _Place) -> None:
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
        """Whether a request that has just come may be served without standing in line, as far as others matter."""
        return not self._waiters and self._may_have(tenant, pods)

    def charge(self, tenant: str, pods: int) -> None:
        """The tenant was given so many pods; less than none if they were lost again."""
        start = self._starts.get(tenant, 0.0)
        if pods > 0:
            start = self._virtual = max(start, self._virtual)
        self._starts[tenant] = start + pods / self._weights.get(tenant, 1.0)
        if tenant in self._places:
            self.reopen(tenant)
        if tenant not in self._of_tenant:
            self._forget(tenant)

    def reopen(self, tenant: str) -> None:
        """The tenant's turn or its right to more pods has changed."""
        for place in self._places.get(tenant, ()):
            self._push(place)

    def _forget(self, tenant: str) -> None:
        """A tenant that does not wait and has no advantage to lose need not be remembered."""
        if self._starts.get(tenant, 0.0) <= self._virtual:
            self._starts.pop(tenant, None)
        if len(self._starts) > 2 * len(self._of_tenant) + 1024:
            self._starts = {
                each: start for each, start in self._starts.items() if each in self._of_tenant or start > self._virtual
            }

    def _push(self, place: _Place) -> None:
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
        """Derive every index again. Raises AssertionError that names the difference."""
        for (demand, priority, tenant), queue in self._queues.items():
            assert queue, f"an empty queue is kept: {tenant}, {demand}"
            assert queue[0][1] in self._waiters, f"{queue[0][1]} left and is still first"
            rank = (-priority, self._starts[tenant], queue[0][0], tenant)
            may = self._may_have(tenant, self._waiters[queue[0][1]].pods)
            assert rank in self._heads[demand] or not may, f"{queue[0][1]} is never named"
        held = Counter(waiter.demand for waiter in self._waiters.values())
        assert held == self._waiting, f"demands {self._waiting}, waiting {held}"
        assert set(held) == set(self._heads), f"heads of {set(self._heads)}, waiting {set(held)}"
        tenants = Counter(waiter.tenant for waiter in self._waiters.values())
        assert tenants == self._of_tenant, f"tenants {self._of_tenant}, waiting {tenants}"
