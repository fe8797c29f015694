"""Waves and the critical path: the round in which a node could run, if there were workers for all."""

from __future__ import annotations

import random

import pytest

from extender.fixpoint import Need, Want
from extender.fixpoint.waves import Before, Waves
from tests.support.fixpoint import Declared


def waves(graph: Declared, seeds: list[str] | None = None) -> dict[str, int]:
    return {node.id: node.wave for node in graph.run(seeds).nodes}


def test_a_node_did_not_wait_for_what_it_was_waived() -> None:
    """`a` goes on without o, and only then reports it: o comes after a, not before."""
    graph = Declared({"a": ["?o"], "b": ["?o"]}, emits={"a": ["o"]})
    assert waves(graph) == {"a": 0, "b": 0, "o": 1}
    assert graph.engine.report().critical_path == ("a", "o")


def test_a_node_comes_after_the_first_one_that_reports_it() -> None:
    """Two report x: one at once, the other, whose id is smaller, three waves later."""
    graph = Declared({"a": ["b"], "b": ["c"], "c": [], "z": []}, emits={"a": ["x"], "z": ["x"]})
    assert waves(graph) == {"a": 2, "b": 1, "c": 0, "x": 1, "z": 0}


def test_what_waits_for_data_comes_after_the_first_one_that_reports_them() -> None:
    graph = Declared({"a": ["b"], "b": [], "z": [], "w": ["data"]}, data={"a": ["data"], "z": ["data"]})
    assert waves(graph) == {"a": 1, "b": 0, "w": 1, "z": 0}
    assert graph.engine.report().critical_path == ("b", "a")


def test_data_that_nobody_reported_come_first() -> None:
    graph = Declared({"a": [Need("data", Want.EXISTS)]})
    graph.engine.arrive("data", runnable=False)
    graph.engine.run(["a"])
    assert [node.wave for node in graph.engine.report().nodes] == [0]


def test_in_a_circle_the_first_one_waits_for_nobody() -> None:
    found = Waves({"a": Before(("b",)), "b": Before(("c",)), "c": Before(("a",)), "d": Before(("c",))}, {})
    assert found.of == {"a": 0, "c": 1, "b": 2, "d": 2}
    assert found.longest("abcd") == ("a", "c", "b")


@pytest.mark.parametrize("block", range(4))
def test_waves_are_rounds(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        draw = random.Random(seed)
        nodes = list(range(draw.randint(1, 12)))
        draw.shuffle(nodes)
        data = {20 + number: draw.sample(nodes, draw.randint(0, min(2, len(nodes)))) for number in range(3)}
        before = {}
        for rank, node in enumerate(nodes):
            early = nodes[:rank]
            known = early + [key for key, by in data.items() if set(by) <= set(early)] + [99, node]
            reporters = draw.sample(early, min(len(early), draw.choice((0, 0, 1, 2))))
            before[node] = Before(tuple(draw.sample(known, min(len(known), draw.randint(0, 3)))), tuple(reporters))
        found = Waves(before, data)
        assert found.of == rounds(before, data), f"graph {seed}"
        path = found.longest(nodes)
        assert [found.of[node] for node in path] == list(range(max(found.of.values()) + 1)), f"graph {seed}"


def rounds(before: dict[int, Before[int]], data: dict[int, list[int]]) -> dict[int, int]:
    """Run all that can run, round by round."""
    of: dict[int, int] = {}
    while len(of) < len(before):
        known = of.keys() | {key for key, by in data.items() if not by or any(node in of for node in by)}
        now = [
            node
            for node, each in before.items()
            if node not in of
            and (not each.reporters or any(by in of for by in each.reporters))
            and all(need in known or need in (99, node) for need in each.needs)
        ]
        of |= dict.fromkeys(now, max(of.values(), default=-1) + 1)
    return of
