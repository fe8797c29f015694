"""The idle pods of a pool, by demand, in the pool's order.

For each demand that is *tracked* (somebody waits with it, or did a moment ago) the pods that fit are kept ready, so
that a request neither scans the pool nor stands in the way of others that need less. A pod's change costs the number of
tracked demands.

Several servers may serve one pool. Each takes the pods first that are its own, and then those of the others, but from
opposite ends of the order: so two servers want the same pod only when hardly any are left. In a pool of the order
`fifo`, a server's own pods are taken from the end that came last, since those that stay idle longest are the ones that
the others may take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from extender.claims.records import Demand, Order, WarmPod

#: How many servers come before this one for the pod, the place in the pool's order, the place by arrival.
_Key = tuple[int, float, int]


@dataclass(slots=True)
class _Fitting:
    """The idle pods that fit one demand: the set, and a heap of them in which outdated entries are skipped."""

    uids: set[str] = field(default_factory=set)
    heap: list[tuple[_Key, str]] = field(default_factory=list)


class Supply:
    """See the module."""

    def __init__(self, order: Order, rank: Callable[[str], int], is_shared: Callable[[], bool]) -> None:
        self._is_shared = is_shared
        self._order = order
        self._rank = rank
        self._goes_by_node = order in (Order.PACK, Order.SPREAD)
        self._pods: dict[str, WarmPod] = {}
        self._keys: dict[str, _Key] = {}
        self._arrivals: dict[str, int] = {}
        self._last = 0
        #: Idle pods by node, and how many are claimed there; empty unless the order goes by them.
        self._on_node: dict[str, set[str]] = {}
        self._claimed: Counter[str] = Counter()
        self._fitting: dict[Demand, _Fitting] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def put(self, pod: WarmPod) -> None:
        """The pod is idle, or is so still and has changed. Its place in the order of arrival stays the same."""
        uid = pod.uid
        known = self._pods.get(uid)
        if known is None:
            self._last += 1
            arrival = self._last
        elif known == pod:
            return
        else:
            arrival = self._arrivals[uid]
            self.drop(uid)
        self._pods[uid] = pod
        self._arrivals[uid] = arrival
        if self._goes_by_node:
            self._on_node.setdefault(pod.node, set()).add(uid)
        self._keys[uid] = self._key(pod)
        for demand, fitting in self._fitting.items():
            if not (demand.labels or demand.containers) or demand.fits(pod):
                self._enter(fitting, uid)

    def drop(self, uid: str) -> None:
        """The pod is not idle."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        del self._keys[uid], self._arrivals[uid]
        if self._goes_by_node:
            on_node = self._on_node[pod.node]
            on_node.discard(uid)
            if not on_node:
                del self._on_node[pod.node]
        for fitting in self._fitting.values():
            fitting.uids.discard(uid)

    def claimed(self, node: str, change: int) -> None:
        """The number of claimed pods on a node has changed: pack and spread go by it."""
        if not self._goes_by_node:
            return
        self._claimed[node] += change
        if not self._claimed[node]:
            del self._claimed[node]
        for uid in sorted(self._on_node.get(node, ())):
            self._keys[uid] = self._key(self._pods[uid])
            for fitting in self._fitting.values():
                if uid in fitting.uids:
                    self._enter(fitting, uid)

    def rank_again(self) -> None:
        """Other servers come first for the pods."""
        for uid, pod in self._pods.items():
            self._keys[uid] = self._key(pod)
        for fitting in self._fitting.values():
            fitting.heap = [(self._keys[uid], uid) for uid in fitting.uids]
            heapify(fitting.heap)

    def rank(self, uid: str) -> int:
        """How many servers came before this one for the pod when it was put here."""
        return self._keys[uid][0]

    def _key(self, pod: WarmPod) -> _Key:
        arrival, is_shared = self._arrivals[pod.uid], self._is_shared()
        rank = self._rank(pod.uid) if is_shared else 0
        if self._order is Order.FIFO:
            return (rank, 0.0, -arrival) if not rank and is_shared else (rank, 0.0, arrival)
        place = self._place(pod)
        return (0, place, arrival) if not rank else (rank, -place, -arrival)

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
        """The tracked demands, the one tracked for the longest time first."""
        return list(self._fitting)

    def track(self, demand: Demand) -> None:
        """Keep the pods that fit this demand ready from now on. Costs the number of idle pods, once."""
        if demand in self._fitting:
            return
        fitting = self._fitting[demand] = _Fitting()
        fitting.uids = {uid for uid, pod in self._pods.items() if demand.fits(pod)}
        fitting.heap = [(self._keys[uid], uid) for uid in fitting.uids]
        heapify(fitting.heap)

    def untrack(self, demand: Demand) -> None:
        self._fitting.pop(demand, None)

    def count(self, demand: Demand) -> int:
        """How many idle pods fit this tracked demand."""
        return len(self._fitting[demand].uids)

    def first(self, demand: Demand, number: int, besides: Collection[str] = ()) -> list[WarmPod]:
        """Return up to `number` idle pods that fit, in the pool's order, but none of `besides`.

        Costs the logarithm of the pool's size for each of `number` and `besides`.
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

    def validate(self) -> None:
        """Derive every index again. Raises AssertionError that names the difference."""
        for demand, fitting in self._fitting.items():
            uids = {uid for uid, pod in self._pods.items() if demand.fits(pod)}
            assert uids == fitting.uids, f"{demand}: ready {fitting.uids}, fit {uids}"
            lost = [uid for uid in uids if (self._keys[uid], uid) not in fitting.heap]
            assert not lost, f"{demand}: never found: {lost}"
        nodes = {uid: pod.node for uid, pod in self._pods.items() if self._goes_by_node}
        assert nodes == {uid: node for node, uids in self._on_node.items() for uid in uids}
        assert all(self._keys[uid] == self._key(pod) for uid, pod in self._pods.items())
