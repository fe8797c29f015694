"""The harness that authors of algorithms use: it keeps the order of calls, and notices each broken promise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from algorithm.conformance.harness import AlgorithmHarness, ContractBroken
from algorithm.interface import Bind, Phase, Preempt, SchedulerAlgorithm, ScheduleResult, SuggestedNodes, Victim, Wait
from algorithm.model import Node, Pod
from algorithm.reasons import Code, reason

WHY = reason(Code.OTHER, detail="no room")


class Told(SchedulerAlgorithm):
    """Answers what the test says, and remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.asked = 0
        self.answer: ScheduleResult = Wait(WHY)

    def add_node(self, node: Node) -> None:
        self.told.append(f"add node {node.name}")

    def update_node(self, old: Node, new: Node) -> None:
        self.told.append(f"node {old.name}: {old.ready} -> {new.ready}")

    def delete_node(self, node: Node) -> None:
        self.told.append(f"delete node {node.name}")

    def add_unallocated_pod(self, pod: Pod) -> None:
        self.told.append(f"{pod.name} waits")

    def delete_unallocated_pod(self, pod: Pod) -> None:
        self.told.append(f"{pod.name} waits no more")

    def add_allocated_pod(self, pod: Pod) -> None:
        self.told.append(f"{pod.name} on {pod.node_name} {dict(pod.annotations)}")

    def delete_allocated_pod(self, pod: Pod) -> None:
        self.told.append(f"{pod.name} off {pod.node_name} {dict(pod.annotations)}")

    def add_preempting_pod(self, pod: Pod, victims: tuple[Victim, ...], node: str) -> None:
        self.told.append(f"{pod.name} preempts {[victim.uid for victim in victims]} on {node}")

    def delete_preempting_pod(self, pod: Pod) -> None:
        self.told.append(f"{pod.name} preempts no more")

    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        return self.answer

    def inspect(self) -> Mapping[str, Any]:
        return {"asked": self.asked}


class LeavesATrace(Told):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        self.asked += 1
        return self.answer


class TakesTheFirst(Told):
    def schedule(self, pod: Pod, suggested_nodes: SuggestedNodes, phase: Phase) -> ScheduleResult:
        return Bind(suggested_nodes[0])


class ForksBadly(Told):
    def fork(self) -> TakesTheFirst:
        return TakesTheFirst()


def pod(name: str, priority: int = 0, node: str = "") -> Pod:
    return Pod(namespace="ns", name=name, uid=f"u-{name}", priority=priority, node_name=node)


def harness(kind: type[Told] = Told) -> AlgorithmHarness[Told]:
    return AlgorithmHarness(kind, [Node(name="a"), Node(name="b")])


def test_each_change_is_reported_once_with_the_record_of_before() -> None:
    cluster = harness()
    cluster.update_node(Node(name="a", ready=False))
    cluster.submit(pod("p"))
    cluster.algorithm.answer = Bind("b", (("why", "best"),))
    assert cluster.place(pod("p")) == "b"
    assert cluster.expire("u-p", without=["why"]) == pod("p")
    cluster.delete("u-p")
    cluster.delete_node("a")
    assert cluster.algorithm.told == [
        "add node a",
        "add node b",
        "node a: True -> False",
        "p waits",
        "p on b {'why': 'best'}",
        "p off b {'why': 'best'}",
        "p waits",
        "p waits no more",
        "delete node a",
    ]


def test_a_preemptor_that_goes_away_stops_preempting_first() -> None:
    cluster = harness()
    cluster.found_bound(pod("low", node="a"))
    cluster.submit(pod("high", 1))
    cluster.algorithm.answer = Preempt((Victim("a", "u-low"),), WHY, "a")
    assert cluster.start_preempting(pod("high", 1), cluster.schedule(pod("high", 1))) == ("u-low",)
    cluster.delete("u-high")
    assert cluster.algorithm.told[-3:] == [
        "high preempts ['u-low'] on a",
        "high preempts no more",
        "high waits no more",
    ]


def test_after_a_restart_nodes_come_first_then_bound_pods_then_the_others() -> None:
    cluster = harness()
    cluster.submit(pod("w"))
    cluster.found_bound(pod("p", node="a"))
    orders = {tuple(cluster.restarted(seed).told) for seed in range(20)}
    assert orders == {
        ("add node a", "add node b", "p on a {}", "w waits"),
        ("add node b", "add node a", "p on a {}", "w waits"),
    }


def test_a_question_that_leaves_a_trace_is_noticed() -> None:
    with pytest.raises(ContractBroken, match="schedule leaves a trace: it was asked about ns/p"):
        harness(LeavesATrace).schedule(pod("p"))


def test_a_node_that_was_not_offered_is_noticed() -> None:
    cluster = harness()
    cluster.algorithm.answer = Bind("a")
    with pytest.raises(ContractBroken, match="ns/p goes to node a, which was not offered"):
        cluster.schedule(pod("p"), ["b"])


def test_an_answer_that_depends_on_the_order_of_the_nodes_is_noticed() -> None:
    with pytest.raises(ContractBroken, match="another order of nodes gives ns/p another answer"):
        harness(TakesTheFirst).schedule(pod("p"))


def test_a_fork_that_answers_otherwise_is_noticed() -> None:
    with pytest.raises(ContractBroken, match="a fork gives ns/p another answer"):
        harness(ForksBadly).schedule(pod("p"))


@pytest.mark.parametrize(
    ("victim", "text"),
    [
        (Victim("a", "u-nobody"), "names victim u-nobody, which is not allocated"),
        (Victim("b", "u-low"), "victim ns/low runs on a, not b"),
        (Victim("a", "u-equal"), "victim ns/equal has priority 1, ns/p has 1"),
    ],
)
def test_a_victim_that_may_not_be_one_is_noticed(victim: Victim, text: str) -> None:
    cluster = harness()
    cluster.found_bound(pod("low", node="a"))
    cluster.found_bound(pod("equal", 1, node="a"))
    cluster.algorithm.answer = Preempt((victim,), WHY, "a")
    with pytest.raises(ContractBroken, match=text):
        cluster.schedule(pod("p", 1))
