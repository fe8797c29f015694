"""A Hypothesis machine: whatever changes while the engine runs, in the end it says what a naive oracle says.

Needs point to smaller ids only, so that what is right does not depend on how it came about. Cycles and waivers, of
which the frozen state decides, are in `tests/conformance/test_fixpoint_graphs.py`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from extender.fixpoint import Blocked, Done, Engine, Limits, Need, Report, Status, Verdict, Visit, Want
from extender.fixpoint.graph import Graph
from extender.fixpoint.records import Outcome
from tests.support.examples import few
from tests.support.fixpoint import Shuffled

DATA = ["d0", "d1", "d2"]
NODES = ["n0", "n1", "n2", "n3", "n4", "n5"]


class EngineMachine(RuleBasedStateMachine):
    """`self.needs`, `self.fails`, `self.data` and `self.nodes` are the truth; the bodies read only what is theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.needs: dict[str, list[Need[str]]] = {node: [] for node in NODES}
        self.fails: set[str] = set()
        #: The data that exist, with their status; None: they never had one.
        self.data: dict[str, Status | None] = {}
        self.nodes: set[str] = set()
        self.serial = 0
        self.steps: Generator[None, None, Report[str]] | None = None
        self.start(1)

    @initialize(workers=st.sampled_from([1, 2, 5]))
    def start(self, workers: int) -> None:
        self.executor = Shuffled(workers, seed=workers) if workers > 1 else None
        limits = Limits(redispatches=200)
        self.engine: Engine[str] = Engine(self.body, executor=self.executor, limits=limits)

    def body(self, visit: Visit[str]) -> Outcome[str]:
        blocked = visit.gate(self.needs[visit.id])
        if self.executor is not None:
            self.executor.interrupt()
        if blocked is not None:
            return blocked
        return Done.failed("on its own") if visit.id in self.fails else Done()

    @rule(node=st.sampled_from(NODES), draw=st.data())
    def node_changes(self, node: str, draw: Any) -> None:
        """The node arrives, or gets new content: other needs, and whether it fails."""
        options = [*DATA, *NODES[: NODES.index(node)]]
        chosen = draw.draw(st.lists(st.tuples(st.sampled_from(options), st.sampled_from(list(Want))), max_size=4))
        self.needs[node] = [Need(key, want, generation=1) for key, want in chosen]
        self.fails = self.fails - {node} | ({node} if draw.draw(st.booleans()) else set())
        self.nodes.add(node)
        self.serial += 1
        assert self.engine.arrive(node, self.serial)

    @rule(node=st.sampled_from(NODES))
    def node_goes(self, node: str) -> None:
        assert self.engine.gone(node) is (node in self.nodes)
        self.nodes.discard(node)

    @rule(key=st.sampled_from(DATA))
    def data_arrive(self, key: str) -> None:
        self.serial += 1
        self.data.setdefault(key, None)
        assert self.engine.arrive(key, self.serial, runnable=False)
        assert not self.engine.arrive(key, self.serial, runnable=False)

    @rule(key=st.sampled_from(DATA), status=st.sampled_from([Status.READY, Status.FAILED]))
    def data_have_status(self, key: str, status: Status) -> None:
        news = self.engine.status(key, status)
        assert news is (self.data.get(key, "absent") is not status)
        self.data[key] = status

    @rule(key=st.sampled_from(DATA))
    def data_go(self, key: str) -> None:
        assert self.engine.gone(key) is (key in self.data)
        self.data.pop(key, None)

    @rule(pieces=st.integers(1, 6))
    def run_some_pieces(self, pieces: int) -> None:
        for _ in range(pieces):
            if self.steps is None:
                self.steps = self.engine.steps()
            try:
                next(self.steps)
            except StopIteration as end:
                self.steps = None
                self.agrees(end.value)
                return

    @rule()
    def run_to_the_end(self) -> None:
        for _ in range(1_000):
            self.run_some_pieces(1)
            if self.steps is None:
                return
        raise AssertionError("it does not come to rest")

    def teardown(self) -> None:
        self.run_to_the_end()

    @invariant()
    def indexes_are_right(self) -> None:
        self.engine.validate()

    def agrees(self, report: Report[str]) -> None:
        ready = self.ready()
        assert set(report.ready) == ready
        assert set(report.failed) == self.nodes - ready
        roots = self.fails | (set(DATA) - set(self.data)) | (set(NODES) - self.nodes)
        roots |= {key for key, status in self.data.items() if status is Status.FAILED}
        for node in report.nodes:
            assert node.reason is None or set(node.reason.root) <= roots, f"{node} has another root than {roots}"

    def ready(self) -> set[str]:
        """The oracle: in order of ids, since needs point to smaller ones."""
        ready: set[str] = {key for key, status in self.data.items() if status is not Status.FAILED}
        for node in sorted(self.nodes - self.fails):
            if all(self.is_met(need, ready) for need in self.needs[node]):
                ready.add(node)
        return ready & self.nodes

    def is_met(self, need: Need[str], ready: set[str]) -> bool:
        return need.id in ready if need.want is Want.READY else need.id in self.nodes or need.id in self.data


TestEngineMachine = EngineMachine.TestCase
TestEngineMachine.settings = few(25, 30)


@pytest.mark.slow
def test_the_engine_agrees_with_the_oracle_in_many_more_runs() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        EngineMachine,
        settings=settings(
            max_examples=400, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_the_indexes_notice_a_lost_wake() -> None:
    """A machine that catches nothing proves nothing."""
    graph: Graph[str] = Graph(Limits())
    graph.seed(["n1"])
    node = graph.queue.pop()
    assert node is not None
    graph.start(node)
    graph.complete(node, Blocked((Need("d0"),)))
    graph.validate()
    graph.things.get("d0").exists = True
    with pytest.raises(AssertionError, match="n1 has missed that d0 came or went"):
        graph.validate()
    graph.things.get("d0").exists = False
    graph.give(node, {"d0": Verdict.ABSENT})
    graph.validate()
