"""Who waits for the others of its gang is tried again when the last one has come, however kube-scheduler sees that."""

from __future__ import annotations

import pytest

from algorithm.interface import SuggestedNodes
from algorithm.model import Pod
from algorithm.registry import create
from extender.scheduling.commands import RequeuePod
from extender.scheduling.events import FilterAnswer, FilterRequested, NodeSeen, PodGone, PodSeen, Synced, Ticked
from extender.scheduling.machine import SchedulerStateMachine
from extender.scheduling.policy import Limits, Policy
from tests.support.engine.harness import only
from tests.support.engine.objects import node, pod


class Gangs:
    """An engine with the packing algorithm and three nodes for one member each."""

    def __init__(self, nodes: int = 3, limits: Limits | None = None) -> None:
        self.machine = SchedulerStateMachine(create("packing", {}), Policy(limits=limits or Limits()))
        self.nodes = [f"n{i}" for i in range(nodes)]
        self.now = 100.0
        self.do(*(NodeSeen(node(name)) for name in self.nodes), Synced())

    def do(self, *events) -> list:
        out = [instruction for event in events for instruction in self.machine.handle(event, self.now)]
        self.machine.validate()
        return out

    def ask(self, member: Pod, *nodes: str) -> FilterAnswer:
        """Offer these nodes, by default all."""
        return only(self.do(FilterRequested(member, SuggestedNodes(nodes or self.nodes))), FilterAnswer)

    def come(self, name: str, *nodes: str, gang: str = "g", minimum: int = 3) -> tuple[Pod, FilterAnswer]:
        """A member appears, and kube-scheduler asks about it, and offers these nodes."""
        notes = (("waggle.dev/gang", gang), ("waggle.dev/gang-min", str(minimum)))
        member = pod(name, cpu=4000, annotations=notes)
        self.do(PodSeen(member))
        return member, self.ask(member, *nodes)

    def nudged_after(self, seconds: float) -> list[str]:
        self.now += seconds
        return sorted(item.name for item in self.do(Ticked()) if isinstance(item, RequeuePod))


@pytest.fixture
def gangs() -> Gangs:
    return Gangs()


def test_the_last_member_brings_those_back_who_waited_for_it(gangs: Gangs) -> None:
    gangs.come("a")
    gangs.come("b")
    assert gangs.nudged_after(10) == []
    assert gangs.come("c")[1].node
    due = gangs.machine.next_due()
    assert due is not None
    assert due < gangs.now + 1
    assert gangs.nudged_after(1) == ["a", "b"]


def test_whom_kube_scheduler_tries_by_itself_is_not_nudged(gangs: Gangs) -> None:
    (a, _), _ = gangs.come("a"), gangs.come("b")
    gangs.come("c")
    assert gangs.ask(a).node
    assert gangs.nudged_after(1) == ["b"]


def test_a_complete_gang_that_does_not_fit_says_so_once_and_rests() -> None:
    gangs = Gangs(nodes=2)
    members = [gangs.come(name)[0] for name in "abc"]
    assert gangs.nudged_after(1) == ["a", "b"]
    assert {gangs.ask(member).reason.code for member in members} == {"GangDoesNotFit"}
    assert gangs.nudged_after(60) == []
    assert gangs.machine.next_due() is None


def refused_with_a_sample(gangs: Gangs) -> list[Pod]:
    """A complete gang whose members were refused, each with two nodes for three pods; nobody is queued."""
    members = [gangs.come(name, "n0", "n1")[0] for name in "abc"]
    gangs.nudged_after(1)
    assert {gangs.ask(member, "n0", "n1").reason.code for member in members} == {"GangDoesNotFit"}
    assert gangs.nudged_after(20) == []
    return members


def test_a_refused_member_for_which_a_seat_is_kept_is_tried_again(gangs: Gangs) -> None:
    """Its refusal said that the gang does not fit. A mate was offered more nodes: there is nothing else to wait for."""
    _, b, _ = refused_with_a_sample(gangs)
    assert gangs.ask(b).node
    assert gangs.nudged_after(9) == [], "kube-scheduler mostly tries it by itself"
    assert gangs.nudged_after(1) == ["a", "c"]
    assert gangs.nudged_after(60) == [], "once is enough"


def test_a_member_that_is_asked_about_in_time_takes_its_seat_without_that(gangs: Gangs) -> None:
    a, b, c = refused_with_a_sample(gangs)
    assert [gangs.ask(each).node != "" for each in (b, a, c)] == [True] * 3
    assert gangs.nudged_after(60) == []


def test_a_release_that_did_not_try_such_a_member_again_is_replayed_as_it_was() -> None:
    gangs = Gangs(limits=Limits(unasked=0.0))
    _, b, _ = refused_with_a_sample(gangs)
    assert gangs.ask(b).node
    assert gangs.nudged_after(60) == []


def test_a_member_that_was_never_asked_about_is_not_tried_again(gangs: Gangs) -> None:
    """It is new: kube-scheduler has it in its queue."""
    notes = (("waggle.dev/gang", "g"), ("waggle.dev/gang-min", "2"))
    gangs.do(PodSeen(pod("new", cpu=4000, annotations=notes)))
    assert gangs.come("b", minimum=2)[1].node
    assert gangs.nudged_after(60) == []


def test_a_member_too_few_wakes_nobody(gangs: Gangs) -> None:
    gangs.come("a", minimum=4)
    gangs.come("b", minimum=4)
    gangs.come("c", minimum=4)
    gangs.come("other", gang="h", minimum=1)
    assert gangs.nudged_after(60) == []


def test_who_is_gone_meanwhile_is_not_nudged(gangs: Gangs) -> None:
    a, _ = gangs.come("a")
    gangs.come("b")
    gangs.come("c")
    gangs.do(PodGone(a.namespace, a.name, a.uid))
    assert gangs.nudged_after(1) == ["b"]


def test_a_gang_that_misses_a_member_again_waits_for_its_successor(gangs: Gangs) -> None:
    """Its condition may still say that it does not fit; the next one that comes completes it all the same."""
    gangs = Gangs(nodes=2)
    members = [gangs.come(name)[0] for name in "abc"]
    gangs.nudged_after(1)
    gangs.do(PodGone("default", "c", "uid-c"))
    for member in members[:2]:
        assert gangs.ask(member).reason.code == "GangIncomplete"
    gangs.nodes.append("n2")
    gangs.do(NodeSeen(node("n2")))
    gangs.nudged_after(10)
    for member in members[:2]:
        gangs.ask(member)
    assert gangs.come("d")[1].node
    assert gangs.nudged_after(10) == ["a", "b"]


def test_an_algorithm_that_fails_to_name_the_gang_costs_no_decision(gangs: Gangs, monkeypatch) -> None:
    def fail(_: Pod) -> str:
        raise RuntimeError("no names today")

    monkeypatch.setattr(gangs.machine.driver.algorithm, "gang", fail)
    assert [gangs.come(name)[1].node != "" for name in "abc"][-1]
