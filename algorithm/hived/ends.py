"""Whose end would let a group run: found by trying, see `whatif.py`.

One group alone is best, else a set of which nobody can be left out. Groups are tried in the order of what their end
costs: those of the same tenant first, then the least important, then the smallest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from algorithm.hived.groups import Group
from algorithm.hived.hive import Hive
from algorithm.hived.planner import Plan, decide
from algorithm.hived.podspec import PodSpec
from algorithm.hived.tally import Tally
from algorithm.hived.whatif import WhatIf

#: So many sets of groups are tried one by one; and of those that would do alone, so many are named.
_TRIALS, _ALONE = 40, 5


@dataclass(frozen=True, slots=True)
class Ends:
    """Any one of `alone` would do; else all of `together`; if both are empty, nobody's end helps.

    `minimal`: nobody can be left out of `together`. It may be larger than it has to be where that takes too long to
    find out.
    """

    alone: tuple[Group, ...] = ()
    together: tuple[Group, ...] = ()
    minimal: bool = True


def find_ends(hive: Hive, spec: PodSpec, tallies: Sequence[Tally], what_if: WhatIf) -> Ends:
    """For a group that cannot have a place now. `tallies` are those of the chains in which it may be."""
    return _Search(hive, spec, tallies, what_if).run()


class _Search:
    def __init__(self, hive: Hive, spec: PodSpec, tallies: Sequence[Tally], what_if: WhatIf) -> None:
        self.hive, self.spec, self.what_if = hive, spec, what_if
        self.offered = hive.layout.machines.keys()
        #: The end of fewer devices than this cannot help.
        self.missing = max(0, min(each.need - each.left for each in tallies))
        self.rivals = sorted(_rivals(hive, spec, tallies), key=self._cost)
        self.trials = 0

    def run(self) -> Ends:
        alone = self._alone()
        if alone:
            return Ends(alone=alone)
        enough = self._enough()
        return self._least(enough) if enough else Ends()

    def _cost(self, group: Group) -> tuple[bool, int, int, str]:
        return group.tenant != self.spec.tenant, group.priority, size(group), group.name

    def _alone(self) -> tuple[Group, ...]:
        found: list[Group] = []
        for group in [each for each in self.rivals if size(each) >= self.missing][:_TRIALS]:
            if self._runs_without([group]):
                found.append(group)
                if len(found) == _ALONE:
                    break
        return tuple(found)

    def _enough(self) -> list[Group]:
        """The cheapest ones, as many as it takes; none if not even the end of all of them helps."""
        ended: list[Group] = []
        devices = 0
        with self.what_if.open():
            for number, group in enumerate(self.rivals, start=1):
                self.what_if.end(group)
                ended.append(group)
                devices += size(group)
                is_turn = number <= _TRIALS or number % _TRIALS == 0 or number == len(self.rivals)
                if devices >= self.missing and is_turn and self._runs():
                    return ended
        return []

    def _least(self, enough: list[Group]) -> Ends:
        """Leaves out whoever is not needed, the most expensive first, by halves."""
        kept, share, self.trials = enough, max(1, len(enough) // 2), 0
        while self.trials < _TRIALS:
            fewer = self._without_some(kept, share)
            if fewer is not None:
                kept = fewer
            elif share == 1:
                return Ends(together=tuple(kept))
            else:
                share //= 2
        return Ends(together=tuple(kept), minimal=False)

    def _without_some(self, groups: list[Group], share: int) -> list[Group] | None:
        for end in range(len(groups), 0, -share):
            fewer = groups[: max(0, end - share)] + groups[end:]
            self.trials += 1
            if fewer and self._runs_without(fewer):
                return fewer
            if self.trials >= _TRIALS:
                return None
        return None

    def _runs_without(self, groups: Iterable[Group]) -> bool:
        with self.what_if.ended(groups):
            return self._runs()

    def _runs(self) -> bool:
        return isinstance(decide(self.hive, self.spec, self.offered, preempting=True), Plan)


def _rivals(hive: Hive, spec: PodSpec, tallies: Sequence[Tally]) -> Iterable[Group]:
    """Who holds what it could have.

    A tenant's quota is used up by the tenant alone. Where hardware is bad, others may have the healthy part.
    """
    chains = {each.chain for each in tallies}
    groups = [group for group in hive.groups.values() if group.chain in chains and group.name != spec.group]
    if spec.priority < 0 or any(each.fitting >= each.pods or _has_bad(hive, each.chain) for each in tallies):
        return groups
    return [group for group in groups if group.tenant == spec.tenant and group.priority >= spec.priority]


def _has_bad(hive: Hive, chain: str) -> bool:
    found = hive.layout.chains[chain]
    return not all(top.healthy for top in found.full[found.top])


def size(group: Group) -> int:
    """Its devices."""
    return sum(1 for _ in group.leafs())
