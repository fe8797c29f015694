"""Finds, by trying (`whatif.py`), the groups whose end would let another group run.

A single group is best, else a minimal set. Groups are tried in the order of what their end costs: those of the same
tenant first, then the least important; the smallest one alone, or else the few largest.

The search goes step by step: the cluster may change between two trials. The result of a trial is valid for its moment.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from algorithm.hived.formats.podspec import PodSpec, UserError
from algorithm.hived.insight.capacity import ChainCapacity
from algorithm.hived.insight.whatif import ended
from algorithm.hived.planning.planner import Plan, decide
from algorithm.hived.state.cluster import HivedCluster
from algorithm.hived.state.groups import Group

#: So many groups are tried alone; and of those that would do, so many are named.
_TRIALS, _ALONE = 40, 5
#: What may be tried at all, in devices that are given back; to place one costs more, and a trial costs no less than so
#: many. That is tenths of a second at most, a second for a gang that wants all that a tenant with 800 machines has.
_EFFORT, _PLACING, _LEAST = 10_000, 3, 60

T = TypeVar("T")
#: Something that takes several trials: gives nothing after each, and the answer in the end.
Steps = Generator[None, None, T]


@dataclass(frozen=True, slots=True)
class Unblockers:
    """Any one of `alone` is enough; else all of `together`; if both are empty, no group's end helps.

    `minimal`: nobody can be left out of `together`. In large clusters it may take too long to find out.
    """

    alone: tuple[Group, ...] = ()
    together: tuple[Group, ...] = ()
    minimal: bool = True


def find_unblockers(hive: HivedCluster, spec: PodSpec, capacities: Sequence[ChainCapacity]) -> Steps[Unblockers]:
    """For a group that cannot have a place now. `capacities` are those of the chains in which it may be.

    None of them: it is not devices that are missing, but the place that it had.
    """
    return (yield from _Search(hive, spec, capacities).run())


class _Search:
    def __init__(self, hive: HivedCluster, spec: PodSpec, capacities: Sequence[ChainCapacity]) -> None:
        self.hive, self.spec = hive, spec
        self.offered = hive.layout.machines.keys()
        self.need = spec.devices
        #: The end of fewer devices than this cannot help.
        self.missing = max(0, min((each.need - each.left for each in capacities), default=0))
        self.sizes = {group: size(group) for group in _rivals(hive, spec, capacities)}
        self.effort = _EFFORT

    def run(self) -> Steps[Unblockers]:
        alone = yield from self._alone()
        if alone:
            return Unblockers(alone=alone)
        enough = yield from self._enough()
        return (yield from self._least(enough)) if enough else Unblockers()

    def _ordered(self, sign: int) -> list[Group]:
        mine = self.spec.tenant
        return sorted(
            self.sizes, key=lambda each: (each.tenant != mine, each.priority, sign * self.sizes[each], each.name)
        )

    def _alone(self) -> Steps[tuple[Group, ...]]:
        found: list[Group] = []
        for group in [each for each in self._ordered(1) if self.sizes[each] >= self.missing][:_TRIALS]:
            if (yield from self._runs_without([group])):
                found.append(group)
                if len(found) == _ALONE:
                    break
        return tuple(found)

    def _enough(self) -> Steps[list[Group]]:
        """The cheapest ones, as many as it takes; none if not even the end of all of them helps.

        In leaps that become larger, and then by halves.
        """
        ordered = self._ordered(-1)
        devices = accumulate(self.sizes[group] for group in ordered)
        number = next((number for number, sum_ in enumerate(devices, 1) if sum_ >= self.missing), 0)
        too_few, leap = number - 1, 1
        while number and not (yield from self._runs_without(ordered[:number])):
            if number == len(ordered):
                return []
            too_few, leap = number, 2 * leap
            number = min(number + leap, len(ordered)) if self.effort > 0 else len(ordered)
        while number - too_few > 1 and self.effort > 0:
            middle = (number + too_few) // 2
            if (yield from self._runs_without(ordered[:middle])):
                number = middle
            else:
                too_few = middle
        return ordered[:number]

    def _least(self, enough: list[Group]) -> Steps[Unblockers]:
        """Leave out groups that are not needed, the most expensive first, by halves."""
        kept, share = enough, max(1, len(enough) // 2)
        while self.effort > 0:
            fewer = yield from self._without_some(kept, share)
            if fewer is not None:
                kept = fewer
            elif share > 1:
                share //= 2
            elif self.effort > 0:
                return Unblockers(together=tuple(kept))
        return Unblockers(together=tuple(kept), minimal=False)

    def _without_some(self, groups: list[Group], share: int) -> Steps[list[Group] | None]:
        for end in range(len(groups), 0, -share):
            fewer = groups[: max(0, end - share)] + groups[end:]
            if self.effort > 0 and fewer and (yield from self._runs_without(fewer)):
                return fewer
        return None

    def _runs_without(self, groups: Sequence[Group]) -> Steps[bool]:
        self.effort -= sum(self.sizes[group] for group in groups)
        with ended(self.hive, groups):
            runs = self._runs()
        yield
        return runs

    def _runs(self) -> bool:
        try:
            runs = isinstance(decide(self.hive, self.spec, self.offered, preempting=True), Plan)
        except UserError:  # it has got a place meanwhile
            runs = False
        self.effort -= _LEAST + (_PLACING * self.need if runs else 0)
        return runs


def _rivals(hive: HivedCluster, spec: PodSpec, capacities: Sequence[ChainCapacity]) -> Iterable[Group]:
    """Who holds what it could have.

    A tenant's quota is used up by the tenant alone. Where hardware is bad, others may have the healthy part.
    """
    chains = {each.chain for each in capacities} or hive.layout.chains.keys()
    groups = [group for group in hive.groups.values() if group.chain in chains and group.name != spec.group]
    if (
        not capacities
        or spec.priority < 0
        or any(each.fitting >= each.pods or _has_bad(hive, each.chain) for each in capacities)
    ):
        return groups
    return [group for group in groups if group.tenant == spec.tenant and group.priority >= spec.priority]


def _has_bad(hive: HivedCluster, chain: str) -> bool:
    found = hive.layout.chains[chain]
    return not all(top.healthy for top in found.full[found.top])


def size(group: Group) -> int:
    """Its devices."""
    return sum(1 for _ in group.leafs())
