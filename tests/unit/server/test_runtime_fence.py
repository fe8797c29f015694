"""The runtime asks the fence at the moment of each verb: no thread needs to have noticed that the term is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from algorithm.interface import SuggestedNodes
from algorithm.reasons import Code
from extender.scheduling.commands import Command
from extender.scheduling.events import NodeSeen, Synced, TermBegan
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from extender.server.runtime import Runtime
from tests.support.engine.logs import Listening
from tests.support.engine.objects import node, pod
from tests.support.engine.plain_algorithm import PlainAlgorithm


class House:
    def __init__(self) -> None:
        self.left = 5.0
        self.commands: list[Command] = []
        self.record = Listening()
        self.runtime = Runtime(
            SchedulerStateMachine(PlainAlgorithm(), Policy(elected=True)),
            self.commands.append,
            fence=lambda term: self.left if term == 1 else 0.0,
            record=self.record,
        )
        self.runtime.handle(NodeSeen(node("a")), Synced())


@pytest.fixture
def house() -> Iterator[House]:
    made = House()
    yield made
    made.runtime.stop()


def test_a_follower_is_not_ready_and_says_why(house: House) -> None:
    house.runtime.add_not_ready_reason(lambda: "the lease is held by b")
    ready = house.runtime.readiness()
    assert (ready.ready, ready.detail) == (False, "another replica leads, or is about to: the lease is held by b")


def test_the_leader_is_ready(house: House) -> None:
    house.runtime.handle(TermBegan(1))
    assert house.runtime.readiness().ready


def test_every_verb_after_the_end_is_refused_though_nobody_told(house: House) -> None:
    house.runtime.handle(TermBegan(1))
    p = pod("p")
    assert house.runtime.filter(p, SuggestedNodes(["a"])).node == "a"
    house.left = 0.0
    assert not house.runtime.readiness().ready
    assert house.runtime.prioritize(p, SuggestedNodes(["a"])) == {}
    bound = house.runtime.bind(p.namespace, p.name, p.uid, "a").result(0)
    assert bound.error is not None
    assert bound.error.code is Code.NOT_READY
    assert house.runtime.preempt(p, ()).reason.code is Code.NOT_READY
    assert house.runtime.filter(p, SuggestedNodes(["a"])).error
    assert house.commands == []


def test_the_end_that_a_verb_found_is_recorded_before_the_verb(house: House) -> None:
    house.runtime.handle(TermBegan(1))
    house.left = 0.0
    house.runtime.filter(pod("p"), SuggestedNodes(["a"]))
    assert [type(event).__name__ for event, _ in house.record.events[-2:]] == ["TermEnded", "FilterRequested"]
