"""Waves: how many steps each node is away from those that come first, and the longest chain.

A node comes after all the nodes that it needs, and after the first one that reports it. So wave n is what could run in
round n if there were workers for all, and each body took one round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Generic

import msgspec

from extender.fixpoint.records import Id


class Before(msgspec.Struct, Generic[Id], frozen=True, gc=False):
    """What comes before a node: the ids of `needs`, and one of `reporters` if there are any."""

    needs: Sequence[Id] = ()
    reporters: Sequence[Id] = ()


class Waves(Generic[Id]):
    """`before`: of each node; ids that are not in it count for nothing. `data`: of data, the nodes that report them.

    In a circle (a node may have run again for what came after it), the first one in order does not wait for the rest.
    Time O(n log n + edges).
    """

    def __init__(self, before: Mapping[Id, Before[Id]], data: Mapping[Id, Sequence[Id]]) -> None:
        self._before = before
        self._data = {key: [each for each in nodes if each in before] for key, nodes in data.items()}
        self.of: dict[Id, int] = {}
        #: Of a node the one that it came after; of data, the first that reported them.
        self._last: dict[Id, Id] = {}
        self._reported_by: dict[Id, Id] = {}
        #: How many needs are still to come; which nodes come after what, and what nodes report.
        self._open: dict[Id, int] = {}
        self._after: dict[Id, list[Id]] = {}
        self._reports: dict[Id, list[Id]] = {}
        self._unreported: set[Id] = set()
        #: What nothing is left to come before: its wave, itself, and what it came after.
        self._ready: list[tuple[int, Id, Id | None]] = []
        self._prepare()
        self._run()

    def longest(self, ends: Iterable[Id]) -> tuple[Id, ...]:
        """The longest chain to one of these nodes, first the node of wave 0; of several the one with the first end."""
        last = min(ends, key=lambda key: (-self.of[key], key), default=None)
        if last is None:
            return ()
        path = [last]
        while path[-1] in self._last:
            path.append(self._last[path[-1]])
        return tuple(reversed(path))

    def _prepare(self) -> None:
        for key in sorted(self._data):
            for node in self._data[key]:
                self._reports.setdefault(node, []).append(key)
        for key in sorted(self._before):
            before = self._before[key]
            needs = {each for each in before.needs if each != key and (each in self._before or self._data.get(each))}
            for each in needs:
                self._after.setdefault(each, []).append(key)
            self._open[key] = len(needs)
            for each in before.reporters:
                if each != key and each in self._before:
                    self._reports.setdefault(each, []).append(key)
                    self._unreported.add(key)
            self._offer(key)

    def _offer(self, key: Id) -> None:
        if not self._open[key] and key not in self._unreported:
            self._push(key)

    def _push(self, key: Id) -> None:
        needs = self._before[key].needs
        earlier = {each if each in self._before else self._reported_by.get(each, key) for each in needs}
        if key in self._reported_by:
            earlier.add(self._reported_by[key])
        last = min((each for each in earlier if each in self.of), key=lambda each: (-self.of[each], each), default=None)
        heappush(self._ready, (0 if last is None else self.of[last] + 1, key, last))

    def _run(self) -> None:
        rest = iter(sorted(self._before))
        while True:
            while self._ready:
                self._settle(*heappop(self._ready))
            key = next((each for each in rest if each not in self.of), None)
            if key is None:
                return
            self._push(key)

    def _settle(self, wave: int, key: Id, last: Id | None) -> None:
        if key in self.of:
            return
        self.of[key] = wave
        if last is not None:
            self._last[key] = last
        for reported in self._reports.get(key, ()):
            self._report(reported, key)
        self._come(key)

    def _report(self, key: Id, by: Id) -> None:
        if key in self._reported_by:
            return
        self._reported_by[key] = by
        if key not in self._before:
            self._come(key)
        elif key not in self.of:
            self._unreported.discard(key)
            self._offer(key)

    def _come(self, key: Id) -> None:
        for node in self._after.get(key, ()):
            if node not in self.of:
                self._open[node] -= 1
                self._offer(node)
