"""Runs a dependency graph in the form of `fixpoint-graphs/1` through the engine.

A node of the graph needs every id of `needs` to be ready (an optional one that turns out to be absent is waived), and
emits the ids of `emits`, which are nodes, when it is ready itself.

One worker runs bodies inline. Several are simulated: the bodies take turns in an order drawn from the seed, and each
may be interrupted by others after it has looked at its needs, and between what it emits.
"""

from __future__ import annotations

from typing import Any

from extender.fixpoint import Done, Engine, Executor, Inline, Need, Report
from extender.fixpoint.records import Outcome
from extender.fixpoint.visit import Visit
from tests.support.fixpoint import Shuffled


def run(graph: dict[str, Any], workers: int, seed: int) -> set[str]:
    """Return the ids of the nodes that are ready in the end."""
    return set(report(graph, workers, seed).ready)


def report(graph: dict[str, Any], workers: int, seed: int) -> Report[str]:
    """Return the report of the run."""
    shuffled = Shuffled(workers, seed) if workers > 1 else None
    executor: Executor = shuffled or Inline()
    needs = {
        node: tuple(Need(need["id"], optional=need["optional"]) for need in declared)
        for node, declared in graph["needs"].items()
    }

    def body(visit: Visit[str]) -> Outcome[str]:
        blocked = visit.gate(needs.get(visit.id, ()))
        if shuffled is not None:
            shuffled.interrupt()
        if blocked is not None:
            return blocked
        for emitted in graph["emits"].get(visit.id, ()):
            visit.arrive(emitted, "content")
            if shuffled is not None:
                shuffled.interrupt()
        return Done()

    return Engine(body, executor=executor).run(graph["seeds"])
