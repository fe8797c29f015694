"""Counts the pods that fit before a gang is placed: if their number is too small, no search is needed.

At most as many members fit on a node as the gang's smallest demand fits into its free room. The sum over nodes is an
upper bound, which costs one division a node. For members of one size it is exact. "Too few" is certain; "enough" only
means that a search is worthwhile.

A gang that does not fit is asked about member by member, and again whenever a node has changed. So what fits on each
node is remembered from the second time on: if that is too little on all nodes together, only the nodes that have
changed were looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from algorithm.packing.demand import Demand, least_of
from algorithm.packing.index import Allowed
from algorithm.packing.nodes import Cluster, NodeRoom
from algorithm.packing.perdemand import PerDemand
from algorithm.packing.plan import Member
from algorithm.packing.trial import Trial

#: A demand, and the priority below which pods count as gone; None: all stay.
Fit: TypeAlias = tuple[Demand, int | None]
#: The pods that fit, by Fit and node.
SeatCounts: TypeAlias = PerDemand[Fit, int]

_NOWHERE = frozenset[str]()


def seat_counts(cluster: Cluster) -> SeatCounts:
    return PerDemand(cluster, _pods_that_fit)


def _pods_that_fit(room: NodeRoom, fit: Fit) -> int | None:
    return room.pods_that_fit(*fit) or None


class Seats:
    """How many of these members fit, once the pods of a priority below `below` are gone (None: all stay).

    Make it before a trial begins, and ask in the trial. Without `homes`, nothing is known of what is held for members.
    """

    __slots__ = ("_counted", "_counts", "_fit", "_holds", "demand")

    def __init__(
        self, counts: SeatCounts, members: Sequence[Member], below: int | None = None, *, homes: bool = True
    ) -> None:
        self._counts = counts
        self._holds = [member.hold for member in members if member.hold is not None] if homes else []
        #: The smallest demand, resource by resource.
        self.demand = least_of([member.demand for member in members])
        self._fit: Fit = self.demand, below
        self._counted = counts.if_wanted(self._fit)

    def enough_free(self, trial: Trial, offered: Allowed, needed: int) -> bool:
        """Whether `needed` members may fit on offered nodes, and where room is held for them.

        The holds of the members are released in the trial.
        """
        homes = self._release(trial)
        rooms = trial.cluster.roomy(self.demand, offered, homes)
        return self._reach(needed, trial, (room.pods_that_fit(*self._fit) for room in rooms))

    def enough_evictable(self, trial: Trial, allowed: Callable[[str], bool], needed: int) -> bool:
        """The same on allowed nodes. The trial stays as it is."""
        start = trial.mark()
        homes = self._release(trial)
        found = self._reach(needed, trial, self._evictable(trial.cluster, allowed, homes))
        trial.back_to(start)
        return found

    def _evictable(self, cluster: Cluster, allowed: Callable[[str], bool], homes: frozenset[str]) -> Iterator[int]:
        demand, below = self._fit
        assert below is not None
        for room in cluster.with_lower_pods(below):
            if room.name in homes or allowed(room.name):
                yield room.pods_that_fit(demand, below)
        for name in cluster.index.roomy(demand):
            room = cluster.rooms[name]
            if (name in homes or allowed(name)) and (room.lowest is None or room.lowest >= below):
                yield room.pods_that_fit(demand)

    def _release(self, trial: Trial) -> frozenset[str]:
        if not self._holds:
            return _NOWHERE
        for hold in self._holds:
            trial.release(hold)
        return frozenset([hold.node for hold in self._holds])

    def _reach(self, needed: int, trial: Trial, fitting: Iterable[int]) -> bool:
        if self._counted is not None and self._most(self._counted, trial) < needed:
            return False
        for number in fitting:
            needed -= number
            if needed <= 0:
                return True
        self._counts.want(self._fit)
        return needed <= 0

    def _most(self, counted: Mapping[str, int], trial: Trial) -> int:
        """How many fit on all nodes together, as they are in the trial."""
        most = sum(counted.values())
        for name in trial.touched():
            room = trial.cluster.known(name)
            most += (room.pods_that_fit(*self._fit) if room is not None else 0) - counted.get(name, 0)
        return most
