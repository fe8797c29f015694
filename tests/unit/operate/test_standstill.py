"""Commands say where an algorithm is that does not return, once for each event, and say nothing of one that does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from algorithm.interface import Bind, Phase, SuggestedNodes
from algorithm.model import Node, Pod
from extender.operate.standstill import standstill_said
from extender.scheduling.events import FilterRequested, NodeSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Policy
from tests.support.engine.plain_algorithm import PlainAlgorithm

PATIENCE = 0.05


class Slow(PlainAlgorithm):
    """Each answer takes until `until()`."""

    def __init__(self, until: Callable[[], bool]) -> None:
        super().__init__()
        self.until = until

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> Bind:
        while not self.until():
            time.sleep(0.001)
        return Bind("a")


def ask(until: Callable[[], bool], *pods: str) -> list[Any]:
    """What the engine answers for these pods."""
    engine = SchedulerStateMachine(Slow(until), Policy())
    for event in (NodeSeen(Node(name="a", uid="a", allocatable=(("pods", 110),))), Synced()):
        engine.handle(event, 0.0)
    return [
        engine.handle(FilterRequested(Pod(namespace="default", name=name, uid=name), SuggestedNodes(["a"])), 1.0)
        for name in pods
    ]


def test_it_says_once_for_each_event_where_the_algorithm_is(capsys: pytest.CaptureFixture[str]) -> None:
    said, events = "", 0

    def is_said() -> bool:
        nonlocal said, events
        said += capsys.readouterr().err
        if said.count("so far") == events:
            return False
        events += 1
        time.sleep(5 * PATIENCE)  # it is not said again
        return True

    with standstill_said(PATIENCE):
        answers = ask(is_said, "p", "q")
    assert [[answer.node for answer in each] for each in answers] == [["a"], ["a"]]
    said += capsys.readouterr().err
    where = r"one event has taken more than 0.05 s so far: the algorithm is at {}, called by {}\n".format(
        *[r"\S+\.py:\d+ in \S+"] * 2
    )
    assert re.fullmatch(where * 2, said), said


def test_nothing_is_said_of_an_algorithm_that_returns(capsys: pytest.CaptureFixture[str]) -> None:
    with standstill_said(PATIENCE):
        ended = time.monotonic() + 6 * PATIENCE
        while time.monotonic() < ended:
            ask(lambda: True, "p", "q")
    assert capsys.readouterr().err == ""
