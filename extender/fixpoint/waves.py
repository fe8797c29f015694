"""Waves: how many steps each node is away from those that need nothing, and the longest chain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic

from extender.fixpoint.records import Id


class Waves(Generic[Id]):
    """`before`: of each node the nodes that came before it, sorted. Others count for nothing. Time O(nodes + edges).

    An edge that would close a circle is left out (a node may have run again for what came after it).
    """

    def __init__(self, before: Mapping[Id, Sequence[Id]]) -> None:
        self._before = before
        self._last: dict[Id, Id] = {}
        self.of: dict[Id, int] = {}
        for key in sorted(before):
            if key not in self.of:
                self._visit(key)

    def longest(self, ends: Iterable[Id]) -> tuple[Id, ...]:
        """The longest chain to one of these nodes, first the node of wave 0; of several the one with the first end."""
        last = min(ends, key=lambda key: (-self.of[key], key), default=None)
        if last is None:
            return ()
        path = [last]
        while path[-1] in self._last:
            path.append(self._last[path[-1]])
        return tuple(reversed(path))

    def _visit(self, start: Id) -> None:
        entered = {start}
        work: list[tuple[Id, Iterator[Id]]] = [(start, iter(self._before[start]))]
        while work:
            key, rest = work[-1]
            for earlier in rest:
                if earlier in self._before and earlier not in self.of and earlier not in entered:
                    entered.add(earlier)
                    work.append((earlier, iter(self._before[earlier])))
                    break
            else:
                work.pop()
                self._settle(key)

    def _settle(self, key: Id) -> None:
        known = [earlier for earlier in self._before[key] if earlier in self.of]
        if known:
            self._last[key] = last = min(known, key=lambda earlier: (-self.of[earlier], earlier))
            self.of[key] = self.of[last] + 1
        else:
            self.of[key] = 0
