"""What the algorithm would say is asked of a copy: bounded, remembered, and never of the algorithm that decides."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Self

import pytest

from algorithm.interface import Phase, PodRefused, SchedulerAlgorithm, ScheduleResult, SuggestedNodes
from algorithm.model import Pod, pairs
from algorithm.reasons import Code, reason
from extender.scheduling.events import NodeSeen, PodGone, PodSeen, Synced
from extender.scheduling.machine import SchedulerStateMachine
from extender.server import whatif
from extender.server.runtime import Runtime
from extender.server.whatif import Verdict, WhatIf
from tests.support.engine.objects import node, pod
from tests.support.engine.plain_algorithm import PlainAlgorithm

asked: list[str] = []


class Told(PlainAlgorithm):
    """Counts what it is asked, and can be slow."""

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        asked.append(pod.name)
        return super().schedule(pod, suggested_nodes, phase)

    def explain(self, pod: Pod) -> Iterator[str]:
        yield ""
        yield f"{pod.name} waits."


class World:
    def __init__(self, algorithm: PlainAlgorithm | None = None) -> None:
        asked.clear()
        self.now = 1000.0
        self.algorithm = algorithm or Told()
        self.machine = SchedulerStateMachine(self.algorithm)
        self.runtime = Runtime(self.machine, lambda _: None, clock=lambda: self.now)
        self.what_if = WhatIf(self.machine, self.runtime.loop, clock=lambda: self.now)
        self.runtime.handle(NodeSeen(node("a")), Synced())

    def waits(self, *names: str, **more: object) -> list[str]:
        pods = [pod(name, **({"cpu": 9000} | more)) for name in names]
        self.runtime.handle(*map(PodSeen, pods))
        return [each.uid for each in pods]


@pytest.fixture
def world() -> World:
    return World()


def test_it_says_where_a_pod_would_go_and_why_another_waits(world: World):
    fits, large = world.waits("fits", cpu=1) + world.waits("large")
    found = world.what_if.ask([fits, large, "unknown"])
    assert (found[fits].node, found[fits].reason) == ("a", None)
    assert (found[large].node, found[large].sentences) == ("", ("large waits.",))
    assert found[large].reason.code in (Code.INSUFFICIENT, Code.NO_NODE_FITS, Code.NODE_LACKS_RESOURCE)
    assert found.keys() == {fits, large}


def test_the_algorithm_that_decides_is_not_asked_and_not_changed(world: World):
    [uid] = world.waits("p", cpu=1)
    before, calls = copy.deepcopy(vars(world.algorithm)), world.machine.driver.calls
    assert world.what_if.ask([uid])[uid].node == "a"
    assert vars(world.algorithm) == before
    assert (world.machine.driver.calls, world.machine.driver.faults) == (calls, 0)
    assert asked == ["p"]
    assert world.runtime.filter(pod("p", cpu=1), SuggestedNodes(["a"])).node == "a"
    world.runtime.handle(NodeSeen(node("b")))
    assert world.algorithm.nodes.keys() == {"a", "b"}


def test_nodes_that_cannot_be_used_are_not_offered(world: World):
    world.runtime.handle(NodeSeen(node("a", unschedulable=True)))
    [uid] = world.waits("p", cpu=1)
    assert world.what_if.ask([uid])[uid].node == ""


def test_nothing_is_asked_twice_while_nothing_changes(world: World):
    [uid] = world.waits("p")
    assert world.what_if.ask([uid]) == world.what_if.ask([uid])
    assert (asked, world.what_if.copies) == (["p"], 1)


def test_equal_pods_are_one_question_and_others_are_not(world: World):
    world.waits("a1", "a2", labels=pairs({"app": "a"}))
    world.waits("b", labels=pairs({"app": "b"}))
    world.waits("c", priority=5)
    world.waits("d", namespace="other")
    world.what_if.ask([f"uid-{name}" for name in ("a1", "a2", "b", "c", "d")])
    assert asked == ["a1", "b", "c", "d"]


def test_the_ordinals_of_one_controllers_pods_make_no_difference(world: World):
    for index in ("0", "1"):
        world.waits(f"p{index}", labels=pairs({"app": "a", "apps.kubernetes.io/pod-index": index}))
    world.what_if.ask(["uid-p0", "uid-p1"])
    assert asked == ["p0"]


def test_it_copies_again_after_a_change_but_only_as_often_as_its_share_allows(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(whatif.time, "thread_time", iter(range(100)).__next__)
    [first] = world.waits("first")
    assert world.what_if.ask([first])
    [second] = world.waits("second", priority=1)
    world.now += whatif.COPY_SHARE - 0.1
    assert world.what_if.ask([first, second]).keys() == {first}
    world.now += 0.2
    assert world.what_if.ask([first, second]).keys() == {first, second}
    assert world.what_if.copies == 2


def test_who_asks_about_one_new_pod_waits_for_the_next_copy_if_that_is_soon(monkeypatch: pytest.MonkeyPatch):
    world = World()
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        world.now += seconds + 0.001

    world.what_if._sleep = sleep
    world.what_if.ask(world.waits("first"))
    for name, due in (("soon", 0.5), ("late", whatif.PATIENCE + 0.1)):
        world.what_if._next_copy = world.now + due
        [uid] = world.waits(name)
        found = world.what_if.ask_one(uid)
        assert (found is not None) == (name == "soon")
    assert slept == [pytest.approx(0.5)]


def test_an_older_answer_serves_until_there_is_time_for_a_new_one(world: World, monkeypatch: pytest.MonkeyPatch):
    uids = world.waits("p0") + world.waits("p1", priority=1) + world.waits("p2", priority=2)
    world.what_if.ask(uids)
    asked.clear()
    world.waits("p3", priority=3)
    world.now += 1000
    found = world.what_if.ask([*uids, "uid-p3"], seconds=0.0)
    assert asked == ["p3"]
    assert found.keys() == {*uids, "uid-p3"}
    world.what_if.ask(uids, seconds=0.0)
    assert asked == ["p3", "p0"]


def test_an_answer_goes_with_its_pod(world: World):
    [uid] = world.waits("p")
    assert world.what_if.ask([uid])
    world.runtime.handle(PodGone("default", "p", uid))
    world.now += 1000
    assert world.what_if.ask([uid]) == {}


def test_answers_are_made_for_as_long_as_there_is_time(world: World):
    class Slow(Told):
        def explain(self, pod: Pod) -> Iterator[str]:
            world.now += 0.02
            return super().explain(pod)

    world = World(Slow())
    uids = [uid for number in range(10) for uid in world.waits(f"p{number}", priority=number)]
    assert len(world.what_if.ask(uids, seconds=0.05)) == 3
    assert len(world.what_if.ask(uids, seconds=0.05)) == 6


def test_a_fault_is_noted_and_the_question_not_repeated():
    class Broken(Told):
        def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
            super().schedule(pod, suggested_nodes, phase)
            raise ZeroDivisionError("why")

    world = World(Broken())
    uids = world.waits("p", "q")
    for _ in range(3):
        found = world.what_if.ask(uids)
    assert found == dict.fromkeys(uids, Verdict(fault="ZeroDivisionError: why"))
    assert len(asked) == 2
    fault = world.machine.driver.fault_log.last
    assert (fault.call, fault.text, fault.count) == ("schedule", "ZeroDivisionError: why", 2)


def test_a_pod_that_is_refused_as_declared_has_that_reason():
    class Refusing(Told):
        def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
            raise PodRefused(reason(Code.POD_INVALID, detail="no"))

    world = World(Refusing())
    [uid] = world.waits("p")
    assert world.what_if.ask([uid])[uid].reason == reason(Code.POD_INVALID, detail="no")


def test_an_algorithm_that_cannot_be_copied_has_no_answers(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(PlainAlgorithm, "fork", SchedulerAlgorithm.fork)
    uids = world.waits("p")
    assert world.what_if.ask(uids) == {}
    assert not world.what_if.possible


def test_an_unused_copy_is_dropped(world: World):
    uids = world.waits("p")
    world.what_if.ask(uids)
    world.now += whatif.UNUSED - 1
    world.what_if.drop_unused()
    world.what_if.ask(uids)
    assert world.what_if.copies == 1
    world.now += whatif.UNUSED
    world.what_if.drop_unused()
    world.what_if.ask(uids)
    assert world.what_if.copies == 2


def test_events_are_handled_while_a_copy_is_made(world: World):
    class InPieces(Told):
        def forks(self) -> Iterator[Callable[[], PlainAlgorithm] | None]:
            yield None
            yield self.fork
            yield None

    world = World(InPieces())
    [uid] = world.waits("p", cpu=1)
    pieces = world.what_if._loop.in_turns

    def with_events(made: Iterator) -> Iterator:
        for piece in pieces(made):
            world.runtime.handle(NodeSeen(node("a", cpu=10)))
            yield piece

    world.what_if._loop.in_turns = with_events
    assert world.what_if.ask([uid])[uid].node == "a"


def test_explanations_have_a_bound():
    class Endless(Told):
        def explain(self, pod: Pod) -> Iterator[str]:
            while True:
                yield "x" * 10_000

    world = World(Endless())
    [uid] = world.waits("p")
    sentences = world.what_if.ask([uid])[uid].sentences
    assert (len(sentences), len(sentences[0])) == (whatif.MOST_SENTENCES, whatif.LONGEST_SENTENCE)


class Stuck(Told):
    """Does not return from an explanation until it is let go."""

    begun, let_go = threading.Event(), threading.Event()

    def explain(self, pod: Pod) -> Iterator[str]:
        self.begun.set()
        self.let_go.wait(30)
        yield "At last."


def test_an_explanation_that_does_not_return_takes_no_answer_from_other_threads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(whatif, "PATIENCE", 0.01)
    world = World(Stuck())
    [uid] = world.waits("p")
    asking = threading.Thread(target=world.what_if.ask, args=([uid],))
    asking.start()
    try:
        assert Stuck.begun.wait(10)
        assert world.what_if.ask([uid]) == {}
        world.what_if.drop_unused()
        assert world.runtime.model.usage_sample().waiting == 1
    finally:
        Stuck.let_go.set()
        asking.join()
    assert world.what_if.ask([uid])[uid].sentences == ("At last.",)


class Endless(Told):
    """Has sentences, or steps without one, for ever."""

    said, may_fork = "", True

    def explain(self, pod: Pod) -> Iterator[str]:
        return repeat(self.said)

    def fork(self) -> Self:
        if not self.may_fork:
            raise NotImplementedError
        copied = super().fork()
        copied.said = self.said
        return copied


@pytest.mark.parametrize("may_fork", [True, False])
def test_an_explanation_without_end_is_cut_off(may_fork: bool, monkeypatch: pytest.MonkeyPatch):
    world = World(Endless())
    world.algorithm.may_fork, world.algorithm.said = may_fork, "x" * 5000
    world.waits("p")
    found = world.runtime.model.explain("default", "p")
    assert [len(each) for each in found.advice] == [whatif.LONGEST_SENTENCE] * whatif.MOST_SENTENCES
    monkeypatch.setattr(whatif, "EXPLAINING", 0.0)
    world = World(Endless())
    world.algorithm.may_fork = may_fork
    world.waits("p")
    found = world.runtime.model.explain("default", "p")
    assert not [each for each in found.advice if "x" in each]
