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

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from algorithm.hived.state import lazy_preemption
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group, GroupState
from algorithm.hived.state.recovery import is_promised, restored
from algorithm.model import Pairs, Pod

#: Written beside the names of groups without their quota: the number of the pod that says so.
ORDER = "waggle.dev/hived-order"
_LONGEST_NUMBER = 15


class Said(NamedTuple):
    """The record on a pod: the groups without quota when it was bound, and its number; 0 if there were none."""

    lost: Sequence[lazy_preemption.QuotaLoss]
    number: int


def read(pod: Pod) -> Said:
    """What makes no sense counts for nothing. Without a number it was early."""
    lost = lazy_preemption.read(pod.annotation(lazy_preemption.LAZILY_PREEMPTED))
    text = pod.annotation(ORDER) or ""
    known = text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER
    return Said(lost, int(text) if known else min(1, len(lost)))


class PromotionQueue:
    """The groups without quota that are to get it back. Call it for every pod that comes and goes."""

    def __init__(self, hive: HivedCluster) -> None:
        self._hive = hive
        self._numbers: dict[str, int] = {}
        #: By group and one of its pods: the pods that name it.
        self._named: dict[tuple[str, str], dict[str, str]] = {}
        self._said: dict[str, Sequence[lazy_preemption.QuotaLoss]] = {}

    # -- what stands on pods --------------------------------------------------------------------------------------

    def to_write(self, uid: str, group: str, lost: Sequence[lazy_preemption.QuotaLoss]) -> Pairs:
        """The annotations for this pod of the group, which is placed now. None while no group has lost its quota.

        A pod of a group without its quota names its own group as well.
        """
        if not lost and not self._numbers:
            return ()
        number = max(self._numbers.values(), default=0) + 1
        lost = [each if each.group != group else each.joined_by(uid) for each in lost]
        return (*lazy_preemption.write(lost), (ORDER, str(number)))

    def add(self, uid: str, said: Said) -> None:
        if said.number:
            self._numbers[uid], self._said[uid] = said.number, said.lost
        for each in said.lost:
            for pod in each.pods:
                self._named.setdefault((each.group, pod), {})[uid] = each.by

    def drop(self, uid: str) -> None:
        self._numbers.pop(uid, None)
        for each in self._said.pop(uid, ()):
            for pod in each.pods:
                named = self._named.get((each.group, pod), {})
                named.pop(uid, None)
                if not named:  # maybe removed before: anyone may have written it there twice
                    self._named.pop((each.group, pod), None)

    def who_took(self, group: str, uids: Iterable[str]) -> str:
        """The group that has the quota of the group of these pods, as the latest pod says; "" if no pod names it."""
        namers = self._namers(group, uids)
        return namers[0][1] if namers else ""

    def _namers(self, group: str, uids: Iterable[str]) -> list[tuple[int, str]]:
        """The pods that name the group, the latest first: the number of each, and the taker of the quota.

        A pod with a later number was bound with quota, whatever earlier pods say.
        """
        found = {
            namer: (self._numbers.get(namer, 0), by)
            for uid in uids
            for namer, by in self._named.get((group, uid), {}).items()
            if by and self._numbers.get(namer, 0) >= self._numbers.get(uid, 0)
        }
        return sorted(found.values(), reverse=True)

    # -- the line -------------------------------------------------------------------------------------------------

    def step_aside(self, chains: Collection[str]) -> None:
        """Before a pod is placed: a group that has its claim only by promotion gives it up, for this moment."""
        if not self._named:
            return
        for group in self._hive.groups.values():
            if group.virtual and group.lazy and group.chain in chains and group.state is GroupState.ALLOCATED:
                by = self.who_took(group.name, _uids(group))
                if by:
                    self._hive.make_opportunistic(group, by)

    def realign(self) -> None:
        """Give quota back to the groups that can have it."""
        lost = self._hive.lazily_preempted
        if not lost:
            return
        with self._hive.changing_hands():
            self.step_aside({group.chain for group in lost})
            stuck: set[tuple[str, str]] = set()
            for group in sorted(filter(self._may_have, lost), key=self._rank):
                where = (group.tenant, group.chain)
                if where in stuck or not restored(self._hive, group):
                    stuck.add(where)

    def _rank(self, group: Group) -> tuple[list[int], int, str]:
        namers = self._namers(group.name, _uids(group))
        return [number for number, _ in namers], -group.priority, group.name

    def _may_have(self, group: Group) -> bool:
        """Whether its virtual cluster is promised such cells: who can never have its claim is in nobody's way."""
        return group.state is GroupState.ALLOCATED and is_promised(self._hive.layout, group)


def _uids(group: Group) -> list[str]:
    return [member.uid for member in group.members()]
