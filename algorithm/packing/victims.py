"""Which pods to evict on one node so that a pod fits there, and which node costs least.

The search first counts all evictable pods of a node as gone. It then spares them one after the other, the most valuable
first, as long as the pod still fits. The result is minimal: no victim can be spared. Two orders are tried, sparing
small pods first and sparing large ones first; the cheaper result counts. Costs are compared in this order:

1. the highest priority among the victims, then how many have it;
2. the number of gangs that lose so many members that they are useless;
3. the number of victims;
4. the node's name.

Members of one gang are spared together: it is better to evict one whole gang than to break several. Members of a
broken gang go before other pods. Pods that are being deleted go first of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from algorithm.model import Pod, PodKey
from algorithm.packing.demand import Demand, demand_of, short_of, size
from algorithm.packing.gangs import Gang, GangIndex
from algorithm.packing.nodes import NodeRoom
from algorithm.packing.trial import Trial

#: Higher than every possible priority: every pod is evictable.
ANY_PRIORITY = 1 << 40


class Cost(NamedTuple):
    """Smaller is better."""

    highest: int
    of_highest: int
    gangs_broken: int
    pods: int
    node: str


class Eviction(NamedTuple):
    """A way to make room on a node; `victims` are sorted by name."""

    cost: Cost
    node: str
    victims: tuple[Pod, ...]

    @property
    def rank(self) -> tuple[Cost, tuple[tuple[PodKey, str], ...]]:
        """The sort key, the better eviction first. The same in every process."""
        return self.cost, tuple((pod.key, pod.uid) for pod in self.victims)

    @classmethod
    def none_needed(cls, node: str) -> Eviction:
        """The eviction without victims: the pod fits on the node already."""
        return cls(Cost(0, 0, 0, 0, node), node, ())


class Evictor:
    """Finds victims of a priority below `below`; `spared` pods are never victims."""

    def __init__(self, trial: Trial, gangs: GangIndex, *, below: int, spared: AbstractSet[str]) -> None:
        self._trial = trial
        self._gangs = gangs
        self.below = below
        self._spared = spared

    def cheapest(self, demand: Demand, rooms: Iterable[NodeRoom], *, enough: int) -> Eviction | None:
        """The cheapest eviction on these nodes; `enough` possible ones end the search."""
        best: Eviction | None = None
        for room in rooms:
            found = self.on(room, demand)
            if found is None:
                continue
            best = found if best is None or found.rank < best.rank else best
            enough -= 1
            if not enough:
                break
        return best

    def on(self, room: NodeRoom, demand: Demand) -> Eviction | None:
        """The eviction that makes room on this node; None if there is none, or no need for one."""
        if not room.could_fit(demand, self.below):
            return None
        missing = short_of(demand, room.free)
        if not missing or short_of(demand, room.allocatable):
            return None
        evictable = [
            pod for pod in self._trial.pods_on(room) if pod.priority < self.below and pod.uid not in self._spared
        ]
        surplus = {name: -amount for name, amount in missing.items()}
        for pod in evictable:
            _add(surplus, pod, 1)
        if any(amount < 0 for amount in surplus.values()):
            return None
        # If all pods have equal requests, both orders are the same.
        orders = (True, False) if len({pod.requests for pod in evictable}) > 1 else (True,)
        found = [self._spare(evictable, dict(surplus), small_first, room.name) for small_first in orders]
        return min(found, key=lambda eviction: eviction.rank)

    def _spare(self, evictable: Sequence[Pod], surplus: dict[str, int], small_first: bool, node: str) -> Eviction:
        victims = []
        for pod in sorted(evictable, key=lambda pod: self._value(pod, small_first)):
            _add(surplus, pod, -1)
            if any(amount < 0 for amount in surplus.values()):
                _add(surplus, pod, 1)
                victims.append(pod)
        victims.sort(key=lambda pod: (pod.key, pod.uid))
        return Eviction(self._cost(victims, node), node, tuple(victims))

    def _value(self, pod: Pod, small_first: bool) -> tuple[object, ...]:
        """The sort key: smaller values are spared earlier."""
        gang = self._gangs.of(pod.uid)
        whole = gang is not None and gang.minimum > 1 and self._left(gang) >= gang.minimum
        sign = 1 if small_first else -1
        bulk = tuple(sign * part for part in size(demand_of(pod.requests)))
        in_gang = ("", "") if gang is None or not whole else gang.key
        return (pod.terminating, -pod.priority, not whole, in_gang, bulk, pod.key, pod.uid)

    def _cost(self, victims: Sequence[Pod], node: str) -> Cost:
        highest = max(pod.priority for pod in victims)
        return Cost(
            highest=highest,
            of_highest=sum(pod.priority == highest for pod in victims),
            gangs_broken=self._broken(victims),
            pods=len(victims),
            node=node,
        )

    def _broken(self, victims: Sequence[Pod]) -> int:
        hit: dict[int, tuple[Gang, int]] = {}
        for pod in victims:
            gang = self._gangs.of(pod.uid)
            if gang is not None:
                _, count = hit.get(id(gang), (gang, 0))
                hit[id(gang)] = (gang, count + 1)
        return sum(self._left(gang) >= gang.minimum > self._left(gang) - count for gang, count in hit.values())

    def _left(self, gang: Gang) -> int:
        return len(gang.allocated) - len(gang.allocated.keys() & self._trial.gone)


def _add(surplus: dict[str, int], pod: Pod, sign: int) -> None:
    for name, amount in demand_of(pod.requests):
        if name in surplus:
            surplus[name] += sign * amount
