"""Each trap of docs/protocol.md, sprung: what a real kube-scheduler does with an extender that walks into it.

Here the gate is the extender, played by each test, and binding is kube-scheduler's own. Traps of other configurations
are in test_traps_configured.py. What Waggle does about each trap is in the other modules, and in the unit tests of its
verbs.
"""

from __future__ import annotations

import time

import pytest

from tests.e2e.gate import Reply, on, refuse, victims
from tests.e2e.matrix import NEWEST, Entry, both_schedulers
from tests.e2e.world import RealCluster, eventually

pytestmark = both_schedulers
WORLD = {
    "waggle": False,
    "extender": {"bindVerb": None, "prioritizeVerb": "prioritize", "weight": 1, "httpTimeout": "1s"},
}


def test_trap_3_a_name_that_was_not_offered_fails_the_whole_answer(w: RealCluster) -> None:
    w.nodes(2)
    w.gate.play(on("filter", lambda call: Reply({"NodeNames": ["n0", "elsewhere"]})))
    w.pod("p")
    w.refused("p", "not found in the input node list")
    assert w.condition("p")["reason"] == "SchedulerError"


def test_trap_4_a_reason_that_changes_makes_it_loop(w: RealCluster, entry: Entry) -> None:
    w.nodes(2)
    w.gate.play(on("filter", lambda call: refuse(call, f"busy for the {w.filters()}th time")))
    w.pod("p")
    if entry == NEWEST:
        eventually(lambda: w.filters("p") > 20, lambda: f"it loops: {w.filters('p')}")
    else:  # its own condition was no reason to try a pod again
        w.refused("p", "busy")
        w.quiet(seconds=1.5)
        assert w.filters("p") == 1


def test_trap_4_a_reason_that_stays_is_asked_for_twice(w: RealCluster, entry: Entry) -> None:
    w.nodes(2)
    w.gate.play(on("filter", lambda call: refuse(call, "busy")))
    w.pod("p")
    w.refused("p", "0/2 nodes are available: 2 busy.")
    w.quiet(seconds=1.5)
    assert w.filters("p") == (2 if entry == NEWEST else 1)


@pytest.mark.parametrize(
    ("answer", "reason", "text"),
    [
        (Reply({"FailedNodes": {"n0": "dead", "n1": "busy", "n2": "busy"}}), "Unschedulable", "1 dead, 2 busy."),
        (Reply({"NodeNames": []}), "Unschedulable", "0/3 nodes are available:"),
        (Reply({"Error": "not today"}), "SchedulerError", "not today"),
        (Reply({"Error": "unseen"}, status=500), "SchedulerError", "code 500"),
        (Reply(b"<html>"), "SchedulerError", "invalid character"),
        (Reply(drop=True), "SchedulerError", "EOF"),
        (Reply({}, delay=1.5), "SchedulerError", "Client.Timeout exceeded"),
    ],
    ids=["reasons", "none", "error", "status", "json", "drop", "timeout"],
)  # fmt: skip
def test_trap_5_refusals_and_errors_look_different(w: RealCluster, answer: Reply, reason: str, text: str) -> None:
    w.nodes(3)
    w.gate.play(on("filter", lambda call: answer))
    w.pod("p")
    assert "unseen" not in w.refused("p", text)
    assert w.condition("p")["reason"] == reason


def test_trap_5_nothing_shortens_the_wait_after_an_error(w: RealCluster) -> None:
    w.nodes(1)
    w.gate.play(on("filter", lambda call: Reply({"Error": "not today"})))
    w.pod("p")
    eventually(lambda: w.filters("p") == 3, "errors back off: 0, 1, 3 s")
    for i in range(10):
        w.patch("n0", {"metadata": {"labels": {"touched": str(i)}}}, "Node")
        time.sleep(0.1)
    assert w.filters("p") == 3


def test_trap_7_the_same_pod_comes_again_while_it_is_answered(w: RealCluster) -> None:
    w.nodes(1)
    w.gate.play(on("filter", lambda call: time.sleep(4) if w.filters() == 1 else None))
    w.pod("p")
    w.place("p")
    first, second = w.gate.calls_of("filter", "p")[:2]
    assert not first.ended or second.at < first.ended
    eventually(lambda: first.ended, "the first one ends, too")


def test_trap_10_preempt_is_not_asked_where_only_the_extender_says_no(w: RealCluster) -> None:
    w.nodes(2)
    w.pod("low")
    w.place("low")
    w.gate.play(on("filter", lambda call: refuse(call, "busy")))
    w.pod("high", priority=1000)
    w.refused("high", "2 busy")
    w.quiet()
    assert not w.gate.calls_of("preempt")


def full(w: RealCluster, nodes: int = 2, *, priority: int = 0) -> dict[str, str]:
    """Nodes full of pods that kube-scheduler would evict: UIDs by node."""
    w.nodes(nodes)
    for i in range(nodes):
        w.pod(f"low{i}", gpus=8, priority=priority)
    places = w.all_placed([f"low{i}" for i in range(nodes)])
    return {place: (w.get(f"low{i}") or {})["metadata"]["uid"] for i, place in enumerate(places)}


def test_trap_11_victims_of_higher_priority_are_evicted_as_told(w: RealCluster) -> None:
    low = full(w, 1)
    w.delete("low0", grace=0)
    w.pod("precious", gpus=4, priority=100_000)
    w.pod("low", gpus=4)
    w.all_placed(["precious", "low"])
    uid = (w.get("precious") or {})["metadata"]["uid"]
    w.gate.play(on("preempt", lambda call: victims(n0=uid)))
    w.pod("high", gpus=4, priority=1000)
    eventually(lambda: w.get("precious") is None, "it was evicted for a pod of lower priority")
    assert low


def test_trap_11_victims_on_a_node_that_was_not_asked_about_are_evicted(w: RealCluster) -> None:
    """The pod may run on n0 only, so n0 is all that is asked about."""
    by_node = full(w, 2)
    w.gate.play(on("preempt", lambda call: victims(n1=by_node["n1"])))
    w.patch("n0", {"metadata": {"labels": {"mine": "yes"}}}, "Node")
    w.pod("high", gpus=8, priority=1000, nodeSelector={"mine": "yes"})
    eventually(lambda: "n1" not in w.places(["low0", "low1"]), "a pod went with whom nobody can start")
    assert w.gate.calls_of("preempt", "high")[0].nodes == ["n0"]


def test_trap_11_fewer_victims_than_are_needed_are_evicted(w: RealCluster) -> None:
    w.nodes(1)
    for name in ("low0", "low1"):
        w.pod(name, gpus=4)
    w.all_placed(["low0", "low1"])
    uid = (w.get("low0") or {})["metadata"]["uid"]
    first = victims(n0=uid)
    w.gate.play(on("preempt", lambda call: first if len(w.gate.calls_of("preempt")) == 1 else victims()))
    w.pod("high", gpus=8, priority=1000)
    eventually(lambda: w.get("low0") is None, "it was evicted")
    w.quiet()
    assert w.node_of("low1") == "n0"
    assert w.node_of("high") == ""


def test_trap_11_a_node_without_victims_is_an_error(w: RealCluster) -> None:
    full(w, 1)
    w.gate.play(on("preempt", lambda call: victims(n0=[])))
    w.pod("high", gpus=8, priority=1000)
    w.refused("high", "expected at least one victim pod")


def test_trap_12_of_all_victims_named_only_one_nodes_go(w: RealCluster) -> None:
    by_node = full(w, 3)
    w.gate.play(on("preempt", lambda call: victims(**by_node)))
    w.pod("high", gpus=8, priority=1000)
    w.place("high")
    assert len(w.list("Pod")) == 3


def test_trap_13_the_nominated_node_is_asked_first_and_alone(w: RealCluster, entry: Entry) -> None:
    w.nodes(3)
    w.gate.play(on("filter", lambda call: refuse(call, "busy")))
    w.pod("p")
    w.refused("p", "3 busy")
    w.quiet()
    w.gate.forget()
    w.gate.play(on("filter", lambda call: refuse(call, "busy")))
    w.patch("p", {"status": {"nominatedNodeName": "n1"}}, part="status")
    if entry != NEWEST:  # nor was this
        w.patch("n0", {"metadata": {"labels": {"touched": "yes"}}}, "Node")
    eventually(lambda: w.filters("p") >= 2, "it is tried again")
    first, second = w.gate.calls_of("filter", "p")[:2]
    assert first.nodes == ["n1"]
    assert sorted(second.nodes) == ["n0", "n1", "n2"]


@pytest.mark.parametrize(("score", "heard"), [("1000", True), ("1000.0", False), ('"1000"', False)])
def test_trap_14_scores_that_are_no_integers_vanish(w: RealCluster, score: str, heard: bool) -> None:
    w.nodes(2, cpu="4")
    w.pod("full", cpu="3500m", nodeName="n0")
    w.gate.play(on("prioritize", lambda call: Reply(f'[{{"Host": "n0", "Score": {score}}}]'.encode())))
    w.pod("p", cpu="400m")
    assert (w.place("p") == "n0") is heard


def test_trap_17_who_is_not_sent(w: RealCluster) -> None:
    w.nodes(1)
    w.pod("gated", schedulingGates=[{"name": "example.com/wait"}])
    w.pod("placed", nodeName="n0")
    w.pod("other", schedulerName="somebody-else")
    w.pod("too-big", cpu="1000")
    w.refused("too-big")
    w.pod("sent")
    w.place("sent")
    w.quiet()
    assert {call.pod for call in w.gate.calls} == {"sent"}
