"""Conformance of the dependency engine, F39: random graphs against an independent oracle, at all widths and timings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extender.fixpoint import End, RunEnd
from tests.conformance import fixpoint_adapter
from tests.support.fixpoint import Shuffled
from tests.support.fixpoint.ancestor import Ancestor
from tests.support.fixpoint.random_graphs import least_fixpoint, random_graph

WIDTHS = (1, 2, 3, 5, 8, 99)
#: (workers, seed of the timing): one worker has no timing.
TIMINGS = [(1, 0), *((width, seed) for seed in (1, 2) for width in WIDTHS[1:]), (99, 3)]


def check(graph: dict[str, Any], timings: list[tuple[int, int]]) -> None:
    """Run the graph with each width and timing. Raises AssertionError unless each gives the oracle's answer."""
    ready, known = least_fixpoint(graph)
    outcomes = set()
    for workers, seed in timings:
        report = fixpoint_adapter.report(graph, workers, seed)
        where = f"{graph['id']}, {workers} workers, timing {seed}"
        assert report.end is RunEnd.CONVERGED, f"{where}: {report.error}"
        assert set(report.ready) == ready, f"{where}: {set(report.ready) ^ ready}"
        assert {node.id for node in report.nodes} == known, where
        for node in report.nodes:
            edges = len(graph["needs"].get(node.id, ()))
            assert node.end in (End.READY, End.FAILED), f"{where}: {node}"
            assert (node.reason is None) is (node.end is End.READY), f"{where}: {node}"
            assert node.runs <= 2 + 2 * edges, f"{where}: {node.id} ran {node.runs} times for {edges} needs"
        outcomes.add(report.outcome())
    assert len(outcomes) == 1, f"{graph['id']}: {len(outcomes)} different outcomes"


@pytest.mark.parametrize("block", range(4))
def test_f39_random_graphs_end_in_their_least_fixpoint(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        check(random_graph(seed), TIMINGS[:6])


@pytest.mark.slow
@pytest.mark.parametrize("block", range(12))
def test_f39_six_thousand_random_graphs_end_in_their_least_fixpoint_at_twelve_timings(block: int) -> None:
    assert len(TIMINGS) == 12
    for seed in range(1_000 + 500 * block, 1_000 + 500 * block + 500):
        check(random_graph(seed), TIMINGS)


def test_f39_the_random_graphs_have_all_that_they_should() -> None:
    """Ready and failed nodes, nodes that others report, cycles, ghosts, waivers: else the others prove little."""
    reports = [fixpoint_adapter.report(random_graph(seed), 1, 0) for seed in range(200)]
    codes = {node.reason.code for report in reports for node in report.nodes if node.reason is not None}
    steps = {verdict for report in reports for verdict, count in report.steps if count}
    assert {code.value for code in codes} >= {"NotFound", "Cycle", "DependencyFailed"}
    assert {step.value for step in steps} >= {"waived", "absent", "cycle"}
    assert sum(bool(report.ready) and bool(report.failed) for report in reports) > 50


def test_f39_the_ancestor_depends_on_timing_and_is_wrong_now_and_then() -> None:
    """Both engines on the same graphs, so that they can be compared: W1 to W3."""
    depends, wrong = [], []
    for seed in range(200):
        graph = random_graph(seed)
        outcomes = [_by_levels(graph, workers, timing) for workers, timing in TIMINGS[:6]]
        depends += [seed] if len(set(outcomes)) > 1 else []
        wrong += [seed] if outcomes[0] != least_fixpoint(graph)[0] else []
    assert 2 <= len(depends) <= 20, depends
    assert 2 <= len(wrong) <= 20, wrong


def _by_levels(graph: dict[str, Any], workers: int, seed: int) -> frozenset[str]:
    needs = {
        node: [f"?{need['id']}" if need["optional"] else need["id"] for need in declared]
        for node, declared in graph["needs"].items()
    }
    world = Ancestor(needs, emits=graph["emits"], executor=Shuffled(workers, seed) if workers > 1 else None)
    world.run(graph["seeds"])
    return frozenset(node for node, failure in world.status.items() if not failure)


def test_graphs_of_a_file_give_the_ids_that_are_ready(tmp_path: Path) -> None:
    """The form in which others hand graphs over."""
    file = tmp_path / "graphs.json"
    needs = {"a": [{"id": "b", "optional": False}, {"id": "ghost", "optional": True}], "b": [], "c": []}
    needs["c"] = [{"id": "never", "optional": False}]
    file.write_text(json.dumps({"needs": needs, "emits": {"b": ["d"]}, "seeds": ["a", "b", "c"]}))
    for workers in (1, 3, 99):
        assert fixpoint_adapter.run(json.loads(file.read_text()), workers, seed=7) == {"a", "b", "d"}
