"""Strongly connected components of a graph, and the path of a cycle. Iterative: 10^5-deep chains are no trouble."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic

from extender.fixpoint.records import Id


def cyclic_components(edges: Mapping[Id, Sequence[Id]]) -> list[tuple[Id, ...]]:
    """Return the strongly connected components that contain a cycle, each sorted, by their first ids.

    `edges`: of each id the ids that it waits for; without an entry, none. Time and memory O(ids + edges).
    """
    search = _Search(edges)
    for start in sorted(edges):
        if start not in search.index:
            search.visit(start)
    return sorted(search.found, key=lambda members: members[0])


class _Search(Generic[Id]):
    """Tarjan's algorithm with a stack of its own."""

    def __init__(self, edges: Mapping[Id, Sequence[Id]]) -> None:
        self.index: dict[Id, int] = {}
        self.found: list[tuple[Id, ...]] = []
        self._edges = edges
        self._low: dict[Id, int] = {}
        self._stack: list[Id] = []
        self._on_stack: set[Id] = set()
        self._work: list[tuple[Id, Iterator[Id]]] = []

    def visit(self, start: Id) -> None:
        self._enter(start)
        while self._work:
            key, rest = self._work[-1]
            for needed in rest:
                if needed not in self.index:
                    self._enter(needed)
                    break
                if needed in self._on_stack:
                    self._low[key] = min(self._low[key], self.index[needed])
            else:
                self._leave(key)

    def _enter(self, key: Id) -> None:
        self.index[key] = self._low[key] = len(self.index)
        self._stack.append(key)
        self._on_stack.add(key)
        self._work.append((key, iter(self._edges.get(key, ()))))

    def _leave(self, key: Id) -> None:
        self._work.pop()
        if self._work:
            above = self._work[-1][0]
            self._low[above] = min(self._low[above], self._low[key])
        if self._low[key] == self.index[key]:
            members = self._pop_component(key)
            if len(members) > 1 or key in self._edges.get(key, ()):
                self.found.append(tuple(sorted(members)))

    def _pop_component(self, root: Id) -> list[Id]:
        members = []
        while True:
            member = self._stack.pop()
            self._on_stack.discard(member)
            members.append(member)
            if member == root:
                return members


def shortest_cycle(start: Id, edges: Mapping[Id, Sequence[Id]], within: Iterable[Id]) -> tuple[Id, ...]:
    """Return the shortest cycle through `start` within these ids: `start`, ..., `start`; () if there is none.

    Of several the one that comes first in the order of ids. Time O(edges within).
    """
    inside = set(within)
    came_from: dict[Id, Id] = {}
    queue = deque([start])
    while queue:
        key = queue.popleft()
        for next_id in sorted(set(edges.get(key, ())) & inside):
            if next_id == start:
                return _path_back(start, key, came_from)
            if next_id not in came_from:
                came_from[next_id] = key
                queue.append(next_id)
    return ()


def _path_back(start: Id, last: Id, came_from: Mapping[Id, Id]) -> tuple[Id, ...]:
    path = [start]
    while last != start:
        path.append(last)
        last = came_from[last]
    return (start, *reversed(path[1:]), start)
