"""The idle pods of a pool, by demand, in the pool's order.

For each *tracked* demand (that of a waiting or a recent request) the fitting pods are indexed, so that a request does
not scan the pool, and does not block requests with other demands. A change of a pod takes O(tracked demands).

Several servers may serve one pool. Each claims its own share first, and then the pods of the others, but from the
opposite end of the order: so two servers choose the same pod only if hardly any are left. With the order `fifo`, a
server that shares a pool claims the newest pods of its share first, because the others may claim the oldest ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from extender.claims.records import Demand, Order, WarmPod

#: This server's rank for the pod (see `Members`), the pod's place in the pool's order, its place by arrival: negative
#: where the pod that came last is first.
_Key = tuple[int, float, int]


_FIFO = Order.FIFO


@dataclass(slots=True)
class _Fitting:
    """The idle pods that fit one demand: a set, and a heap in which outdated entries are skipped."""

    uids: set[str] = field(default_factory=set)
    heap: list[tuple[_Key, str]] = field(default_factory=list)


class Supply:
    """See the module. `rank(uid)`: this server's rank for a pod; `is_shared()`: whether other servers serve it, too."""

    def __init__(self, order: Order, rank: Callable[[str], int], is_shared: Callable[[], bool]) -> None:
        self._is_shared = is_shared
        self._order = order
        self._rank = rank
        self._goes_by_node = order in (Order.PACK, Order.SPREAD)
        self._pods: dict[str, WarmPod] = {}
        self._keys: dict[str, _Key] = {}
        self._last = 0
        #: Idle pods by node, and the number of claimed pods by node; empty unless the order is pack or spread.
        self._on_node: dict[str, set[str]] = {}
        self._claimed: Counter[str] = Counter()
        self._fitting: dict[Demand, _Fitting] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def put(self, pod: WarmPod) -> None:
        """Add an idle pod, or replace its record. A pod that is here keeps its place by arrival."""
        uid = pod.uid
        known = self._pods.get(uid)
        if known is None:
            self._last += 1
            arrival = self._last
        elif known == pod:
            return
        else:
            arrival = abs(self._keys[uid][2])
            self.drop(uid)
        self._pods[uid] = pod
        if self._goes_by_node:
            self._on_node.setdefault(pod.node, set()).add(uid)
        self._keys[uid] = self._key(pod, arrival)
        for demand, fitting in self._fitting.items():
            if not (demand.labels or demand.containers) or demand.fits(pod):
                self._enter(fitting, uid)

    def drop(self, uid: str) -> None:
        """Remove a pod that is no longer idle."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        del self._keys[uid]
        if self._goes_by_node:
            on_node = self._on_node[pod.node]
            on_node.discard(uid)
            if not on_node:
                del self._on_node[pod.node]
        for fitting in self._fitting.values():
            fitting.uids.discard(uid)

    def claimed(self, node: str, change: int) -> None:
        """Change the number of claimed pods on a node, by which pack and spread order the pods."""
        if not self._goes_by_node:
            return
        self._claimed[node] += change
        if not self._claimed[node]:
            del self._claimed[node]
        for uid in sorted(self._on_node.get(node, ())):
            self._keys[uid] = self._key_again(self._pods[uid])
            for fitting in self._fitting.values():
                if uid in fitting.uids:
                    self._enter(fitting, uid)

    def rank_again(self) -> None:
        """Order the pods again after a change of the members."""
        for uid, pod in self._pods.items():
            self._keys[uid] = self._key_again(pod)
        for fitting in self._fitting.values():
            fitting.heap = [(self._keys[uid], uid) for uid in fitting.uids]
            heapify(fitting.heap)

    def rank(self, uid: str) -> int:
        """Return this server's rank for a pod, as of when it was put here."""
        return self._keys[uid][0]

    def _key_again(self, pod: WarmPod) -> _Key:
        """Return the present key of a pod that is here."""
        return self._key(pod, abs(self._keys[pod.uid][2]))

    def _key(self, pod: WarmPod, arrival: int) -> _Key:
        place = 0.0 if self._order is _FIFO else self._place(pod)
        if not self._is_shared():
            return 0, place, arrival
        rank = self._rank(pod.uid)
        if self._order is _FIFO:
            return rank, place, arrival if rank else -arrival
        return (rank, -place, -arrival) if rank else (0, place, arrival)

    def _place(self, pod: WarmPod) -> float:
        match self._order:
            case Order.OLDEST:
                return pod.created
            case Order.NEWEST:
                return -pod.created
            case Order.PACK:
                return -self._claimed[pod.node]
            case Order.SPREAD:
                return self._claimed[pod.node]
            case _:
                return 0.0

    def _enter(self, fitting: _Fitting, uid: str) -> None:
        fitting.uids.add(uid)
        heappush(fitting.heap, (self._keys[uid], uid))
        if len(fitting.heap) > 2 * len(fitting.uids) + 64:
            fitting.heap = [(self._keys[each], each) for each in fitting.uids]
            heapify(fitting.heap)

    # -- by demand ------------------------------------------------------------------------------------------------

    def is_tracked(self, demand: Demand) -> bool:
        return demand in self._fitting

    def tracked(self) -> list[Demand]:
        """Return the tracked demands, the oldest first."""
        return list(self._fitting)

    def track(self, demand: Demand) -> None:
        """Index the pods that fit this demand from now on. Takes O(idle pods) once."""
        if demand in self._fitting:
            return
        fitting = self._fitting[demand] = _Fitting()
        fitting.uids = {uid for uid, pod in self._pods.items() if demand.fits(pod)}
        fitting.heap = [(self._keys[uid], uid) for uid in fitting.uids]
        heapify(fitting.heap)

    def untrack(self, demand: Demand) -> None:
        self._fitting.pop(demand, None)

    def count(self, demand: Demand) -> int:
        """Return how many idle pods fit this tracked demand."""
        return len(self._fitting[demand].uids)

    def first(self, demand: Demand, number: int, besides: Collection[str] = ()) -> list[WarmPod]:
        """Return up to `number` idle pods that fit, in the pool's order, but none of `besides`.

        Takes O((number + besides) log n) for n idle pods.
        """
        fitting = self._fitting[demand]
        if number == 1 and not besides:
            return self._first(fitting)
        found: list[WarmPod] = []
        seen: list[tuple[_Key, str]] = []
        taken: set[str] = set()
        while fitting.heap and len(found) < number:
            entry = heappop(fitting.heap)
            uid = entry[1]
            if uid not in fitting.uids or self._keys[uid] != entry[0] or uid in taken:
                continue
            seen.append(entry)
            taken.add(uid)
            if uid not in besides:
                found.append(self._pods[uid])
        for entry in seen:
            heappush(fitting.heap, entry)
        return found

    def _first(self, fitting: _Fitting) -> list[WarmPod]:
        heap, uids, keys = fitting.heap, fitting.uids, self._keys
        while heap:
            key, uid = heap[0]
            if uid in uids and keys[uid] == key:
                return [self._pods[uid]]
            heappop(heap)
        return []

    def validate(self, claimed: Counter[str]) -> None:
        """Derive every index again. Raise AssertionError, which names the difference. `claimed`: the pool's claimed
        pods by node."""
        for demand, fitting in self._fitting.items():
            uids = {uid for uid, pod in self._pods.items() if demand.fits(pod)}
            assert uids == fitting.uids, f"{demand}: indexed {fitting.uids}, fit {uids}"
            lost = [uid for uid in uids if (self._keys[uid], uid) not in fitting.heap]
            assert not lost, f"{demand}: not in the heap: {lost}"
        nodes = {uid: pod.node for uid, pod in self._pods.items() if self._goes_by_node}
        assert nodes == {uid: node for node, uids in self._on_node.items() for uid in uids}
        assert all(self._keys[uid] == self._key_again(pod) for uid, pod in self._pods.items())
        assert not self._goes_by_node or self._claimed == claimed, f"claimed {self._claimed}, are {claimed}"
