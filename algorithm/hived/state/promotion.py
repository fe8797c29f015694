"""Gives groups that were preempted lazily their quota back as soon as there is room, and decides in which order.

        guaranteed --- somebody is placed who needs its quota --> lost: runs on, opportunistically, and stands in line
            ^                                                        |
            +------- all of its claim is there again, and it is next +

The queue follows from the annotations of running pods alone. So a restart, or a second replica that only listens, gets
the same queue, whatever it has missed. An algorithm can write only with a binding. But each pod that is bound names the
groups that lack their quota at that time (`lazy_preemption.py`), and gets a number higher than all present ones. Of two
groups whose claims exclude each other, a later pod names the one that lost. All groups that no pod names had their
quota at the same time, when the last of their pods was bound.

The queue is derived anew after each event, for each virtual cluster and chain: first the groups that no pod names, then
those that only early pods name, then the rest; among equals the more important first. Groups get their claims in this
order, up to the first whose claim is not possible. No group overtakes, so that many small groups do not keep a large
one out. So within a virtual cluster, the end of a group never takes away returned quota. Between two virtual clusters
that wait for the same spare hardware it may, because the hardware may then go to the group that is first.

A claim is all cells that are written on a group's pods, for the devices that they run on, at no other group's cost: no
group has to give up quota for it, and all cells that are owed to others can still be handed out.
"""

from __future__ import annotations

from collections.abc import Collection

from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group, GroupState
from algorithm.hived.state.lazy_preemption import LazyPreemptionLog
from algorithm.hived.state.recovery import is_promised, restored


class PromotionQueue:
    """The groups without quota that are to get it back. `log` says in which order."""

    def __init__(self, hive: HivedCluster, log: LazyPreemptionLog) -> None:
        self._hive, self._log = hive, log

    def suspend_promoted(self, chains: Collection[str]) -> None:
        """Before a pod is placed: a group that has its claim only by promotion gives it up, for this moment."""
        if self._log.is_empty:
            return
        for group in self._hive.groups.values():
            if group.virtual and group.lazy and group.chain in chains and group.state is GroupState.ALLOCATED:
                by = self._log.latest_taker(group.name, _uids(group))
                if by:
                    self._hive.make_opportunistic(group, by)

    def realign(self) -> None:
        """Give quota back to the groups that can have it."""
        lost = self._hive.lazily_preempted
        if not lost:
            return
        with self._hive.changing_hands():
            self.suspend_promoted({group.chain for group in lost})
            stuck: set[tuple[str, str]] = set()
            for group in sorted(filter(self._may_have, lost), key=self._rank):
                where = (group.tenant, group.chain)
                if where in stuck or not restored(self._hive, group):
                    stuck.add(where)

    def _rank(self, group: Group) -> tuple[list[int], int, str]:
        namers = self._log.namers(group.name, _uids(group))
        return [number for number, _ in namers], -group.priority, group.name

    def _may_have(self, group: Group) -> bool:
        """Whether its virtual cluster is promised such cells: who can never have its claim is in nobody's way."""
        return group.state is GroupState.ALLOCATED and is_promised(self._hive.layout, group)


def _uids(group: Group) -> list[str]:
    return [member.uid for member in group.members()]
