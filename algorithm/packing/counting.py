"""Counts the pods that fit before a gang is placed: if their number is too small, no search is needed.

At most as many members fit on a node as the gang's smallest demand fits into its free room. The sum over nodes is an
upper bound, which costs one division a node. For members of one size it is exact. "Too few" is certain; "enough" only
means that a search is worthwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from algorithm.packing.demand import Demand, least_of
from algorithm.packing.index import OfferedNodes
from algorithm.packing.nodes import Cluster, NodeRoom
from algorithm.packing.plan import Member
from algorithm.packing.trial import Trial


def enough_free(trial: Trial, members: Iterable[Member], offered: OfferedNodes, needed: int) -> bool:
    """Whether `needed` members may fit on offered nodes, and where room is held for them.

    The holds of the members are released in the trial.
    """
    members = list(members)
    homes = _release(trial, members)
    demand = least_of(member.demand for member in members)
    rooms = _rooms(trial.cluster, demand, offered, homes)
    return _reaches(needed, (room.pods_that_fit(demand) for room in rooms))


def enough_evictable(
    trial: Trial, members: Iterable[Member], allowed: Callable[[str], bool], needed: int, below: int
) -> bool:
    """Whether `needed` members may fit on allowed nodes, if all pods of a priority below `below` were gone."""
    members = list(members)
    start = trial.mark()
    homes = _release(trial, members)
    demand = least_of(member.demand for member in members)
    cluster = trial.cluster

    def usable(room: NodeRoom) -> bool:
        return room.name in homes or allowed(room.name)

    def fitting() -> Iterable[int]:
        yield from (room.pods_that_fit(demand, below) for room in cluster.with_lower_pods(below) if usable(room))
        for name in cluster.index.roomy(demand):
            room = cluster.rooms[name]
            if usable(room) and (room.lowest is None or room.lowest >= below):
                yield room.pods_that_fit(demand)

    found = _reaches(needed, fitting())
    trial.back_to(start)
    return found


def filled(cluster: Cluster, demand: Demand, offered: OfferedNodes) -> dict[str, Mapping[str, int]]:
    """What stays free on the offered nodes with room for such pods, once they are filled with such pods."""
    left: dict[str, Mapping[str, int]] = {}
    for room in _rooms(cluster, demand, offered, frozenset()):
        number = room.pods_that_fit(demand)
        if number:
            left[room.name] = {**room.free, **{name: room.free[name] - number * amount for name, amount in demand}}
    return left


def _release(trial: Trial, members: Iterable[Member]) -> frozenset[str]:
    holds = [member.hold for member in members if member.hold is not None]
    for hold in holds:
        trial.release(hold)
    return frozenset(hold.node for hold in holds)


def _rooms(cluster: Cluster, demand: Demand, offered: OfferedNodes, homes: frozenset[str]) -> Iterable[NodeRoom]:
    if offered.few is not None:
        return [room for name in {*offered.few, *homes} if (room := cluster.known(name)) is not None]
    return (cluster.rooms[name] for name in cluster.index.roomy(demand) if name in homes or offered(name))


def _reaches(needed: int, fitting: Iterable[int]) -> bool:
    for number in fitting:
        needed -= number
        if needed <= 0:
            return True
    return needed <= 0
