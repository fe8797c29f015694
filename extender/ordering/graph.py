"""Strongly connected components of a graph that is read while it is searched. Tarjan, 1972, without recursion.

Components come in reverse topological order: each after all others that can be reached from it. The successors of a
vertex are read once, when it is reached. So the result is that of one graph, which has all edges that existed during
the whole search; an edge that came or went meanwhile may be in it or not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

V = TypeVar("V", bound=Hashable)


def components(
    vertices: Iterable[V], successors: Callable[[V], Iterable[V]], *, pause: int = 0
) -> Iterator[list[V] | None]:
    """Yield the components that can be reached from these vertices, and None after every `pause` edges (0: never)."""
    index: dict[V, int] = {}
    low: dict[V, int] = {}
    on_stack: dict[V, None] = {}
    steps = 0
    for start in vertices:
        if start in index:
            continue
        index[start] = low[start] = len(index)
        on_stack[start] = None
        path = [(start, iter(list(successors(start))))]
        while path:
            vertex, edges = path[-1]
            steps += 1
            if pause and steps % pause == 0:
                yield None
            for other in edges:
                if other not in index:
                    index[other] = low[other] = len(index)
                    on_stack[other] = None
                    path.append((other, iter(list(successors(other)))))
                    break
                if other in on_stack:
                    low[vertex] = min(low[vertex], index[other])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    low[above] = min(low[above], low[vertex])
                if low[vertex] == index[vertex]:
                    yield _popped(on_stack, vertex)


def _popped(on_stack: dict[V, None], last: V) -> list[V]:
    found = []
    while True:
        vertex, _ = on_stack.popitem()
        found.append(vertex)
        if vertex == last:
            return found


def circle(members: Iterable[V], successors: Callable[[V], Iterable[V]], start: V) -> list[V]:
    """Return a shortest way from a vertex back to itself among `members`, without its end; [] if there is none."""
    within = set(members)
    came_from: dict[V, V] = {}
    queue = [start]
    for vertex in queue:
        for other in successors(vertex):
            if other == start:
                way = [vertex]
                while way[-1] != start:
                    way.append(came_from[way[-1]])
                return way[::-1]
            if other in within and other not in came_from:
                came_from[other] = vertex
                queue.append(other)
    return []
