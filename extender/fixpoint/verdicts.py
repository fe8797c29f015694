"""Verdicts: what is decided of parked nodes when nothing runs and nothing can run.

One step at a time, always the first of these that finds a node; then running is normal again:

    WAIVED   nodes that wait for absent optional ids only go on without them
    FAILED   nodes of which another need has failed no longer wait for the rest
    ABSENT   nodes with a required absent need fail
    UNREADY  nodes that wait for an id which nothing can make ready any more fail
    CYCLE    nodes that wait for themselves fail: the strongly connected components of the graph of waits

Each step looks at a state in which nothing moves, and decides all nodes that it finds at once. So the result depends
on no timing and no number of workers. It ends: each step retires at least one pair of a node and an id, and if the
first four find none, each parked node waits for a parked one, so that there is a cycle.
"""

from __future__ import annotations

from typing import Generic

from extender.fixpoint.components import cyclic_components, shortest_cycle
from extender.fixpoint.graph import Graph
from extender.fixpoint.records import Id, Verdict
from extender.fixpoint.things import Cycle, Node

#: In components up to this size each member gets a cycle through itself; in larger ones all get the same one.
_OWN_PATHS = 64


class Verdicts(Generic[Id]):
    """`steps`: how many steps there were of each kind."""

    def __init__(self, graph: Graph[Id]) -> None:
        self._graph = graph
        self._waiting = graph.waiting
        self.steps: dict[Verdict, int] = dict.fromkeys(Verdict, 0)

    def step(self) -> bool:
        """Give the verdicts of one step; whether there were any. There are some as long as a node is parked."""
        if not self._waiting.parked:
            return False
        if self._graph.look_again():
            return True
        self._waiting.forget_recovered()
        for verdict, given in (
            (Verdict.WAIVED, self._waive),
            (Verdict.FAILED, self._fail),
            (Verdict.ABSENT, self._absent),
            (Verdict.UNREADY, self._unready),
            (Verdict.CYCLE, self._cycles),
        ):
            if given():
                self.steps[verdict] += 1
                return True
        return False

    def _waive(self) -> bool:
        nodes = _sorted(self._waiting.waivable)
        for node in nodes:
            self._graph.give(node, dict.fromkeys(node.open, Verdict.WAIVED))
        return bool(nodes)

    def _fail(self) -> bool:
        nodes = _sorted(self._waiting.failing)
        for node in nodes:
            self._graph.give(node, dict.fromkeys(node.failing, Verdict.FAILED))
        return bool(nodes)

    def _absent(self) -> bool:
        nodes = _sorted(self._waiting.lacking)
        for node in nodes:
            missing = [key for key, opened in node.open.items() if opened.absent and opened.required()]
            self._graph.give(node, dict.fromkeys(missing, Verdict.ABSENT))
        return bool(nodes)

    def _unready(self) -> bool:
        parked = self._waiting.parked
        found = []
        for node in _sorted(parked):
            idle = [key for key, opened in node.open.items() if not opened.absent and key not in parked]
            if idle:
                found.append((node, idle))
        for node, idle in found:
            self._graph.give(node, dict.fromkeys(idle, Verdict.UNREADY))
        return bool(found)

    def _cycles(self) -> bool:
        parked = self._waiting.parked
        edges = {key: [needed for needed in sorted(node.open) if needed in parked] for key, node in parked.items()}
        components = cyclic_components(edges)
        for members in components:
            inside = set(members)
            cycles = _cycles_of(members, edges)
            for node in [parked[key] for key in members]:
                waits_for = [key for key in edges[node.id] if key in inside]
                self._graph.give(node, dict.fromkeys(waits_for, Verdict.CYCLE), cycles[node.id])
        return bool(components)


def _sorted(nodes: dict[Id, Node[Id]]) -> list[Node[Id]]:
    return [node for _, node in sorted(nodes.items())]


def _cycles_of(members: tuple[Id, ...], edges: dict[Id, list[Id]]) -> dict[Id, Cycle[Id]]:
    if len(members) > _OWN_PATHS:
        return dict.fromkeys(members, Cycle.of(shortest_cycle(members[0], edges, members)))
    return {key: Cycle.of(shortest_cycle(key, edges, members)) for key in members}
